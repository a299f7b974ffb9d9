"""Pod Security: the level that the namespace enforces, and what of the template it would refuse."""

from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, Body
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.controller import executor_settings
from pipelines.cluster.doctor.demand import Demand, Pod
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

ENFORCE = "pod-security.kubernetes.io/enforce"
# Kinds of volumes that the Restricted level lets in.
ALLOWED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def pod_security(cluster: Cluster) -> Iterator[Result]:
    """The namespace enforces the Restricted level and the template meets it."""
    try:
        body = cluster.get(f"/api/v1/namespaces/{cluster.namespace}")
    except AbsentError:
        return  # the namespace's own check says so
    level = (body["metadata"].get("labels") or {}).get(ENFORCE, "")
    demand = cluster.demand()
    refused = {
        "restricted": restricted_faults(demand, executor_settings(cluster)),
        "baseline": baseline_faults(demand),
    }
    if level not in refused:
        faults = refused["restricted"]
        meets = f"would not meet restricted: {'; '.join(faults)}" if faults else "meets restricted"
        yield warning(
            f"Pod Security is not enforced ({level or 'no label'}); the template {meets}",
            f"kubectl label namespace {cluster.namespace} {ENFORCE}=restricted",
        )
    elif faults := refused[level]:
        yield error(
            f"Pod Security {level} refuses the pods: {'; '.join(faults)}",
            "render and apply the template again, with patchExecutor on",
        )
    else:
        yield ok(f"Pod Security {level} is enforced and the template meets it")


def baseline_faults(demand: Demand) -> list[str]:
    """What the Baseline level refuses, of what a workflow's template can ask for."""
    volumes = [volume for pod in demand.pods for volume in _volumes(demand, pod)]
    found = [f"volume {each['name']} is a hostPath" for each in volumes if "hostPath" in each]
    for pod in demand.pods:
        if (pod.container.get("securityContext") or {}).get("privileged"):
            found.append(f"{pod.stage} is privileged")
    return list(dict.fromkeys(found))


def restricted_faults(demand: Demand, executor: Body) -> list[str]:
    """What the Restricted level refuses. executor: what the controller gives to Argo's own containers."""
    found = baseline_faults(demand) + [fault for pod in demand.pods for fault in _pod_faults(demand, pod)]
    for kind, name in (("initContainers", "init"), ("containers", "wait")):
        patched = {each.get("name"): each for each in demand.patch.get(kind) or []}
        own = (executor.get("securityContext") or {}) | (patched.get(name) or {}).get("securityContext", {})
        if not _contained(own):
            found.append(f"neither the template nor the controller restricts Argo's container {name}")
    return list(dict.fromkeys(found))


def _pod_faults(demand: Demand, pod: Pod) -> Iterator[str]:
    whole = demand.spec.get("securityContext") or {}
    own = pod.body.get("securityContext") or whole
    security = pod.container.get("securityContext") or {}
    if not (security.get("runAsNonRoot") or (own.get("runAsNonRoot") and "runAsNonRoot" not in security)):
        yield f"{pod.stage} may run as root"
    if 0 in (security.get("runAsUser"), own.get("runAsUser")):
        yield f"{pod.stage} runs as user 0"
    if not _contained(security):
        yield f"{pod.stage} keeps capabilities or may gain privileges"
    profile = security.get("seccompProfile") or own.get("seccompProfile") or {}
    if profile.get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"{pod.stage} has no seccomp profile"
    for volume in _volumes(demand, pod):
        if kinds := set(volume) - {"name", "hostPath"} - ALLOWED_VOLUMES:
            yield f"volume {volume['name']} is a {', '.join(kinds)}"


def _volumes(demand: Demand, pod: Pod) -> list[Body]:
    return [*(demand.spec.get("volumes") or []), *(pod.body.get("volumes") or [])]


def _contained(security: Body) -> bool:
    drops = (security.get("capabilities") or {}).get("drop") or []
    return security.get("allowPrivilegeEscalation") is False and "ALL" in drops


CHECKS = [Check("namespace", "pod-security", pod_security)]
