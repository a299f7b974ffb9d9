"""The namespace: there, its Pod Security level, its quotas and network policies."""

import re
from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, Body
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.demand import Demand, Pod
from pipelines.cluster.doctor.node import GPU, quantity, selects
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

ENFORCE = "pod-security.kubernetes.io/enforce"
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
API_PORTS = (443, 6443)


def present(cluster: Cluster) -> Iterator[Result]:
    """The namespace exists and is not being deleted."""
    try:
        body = cluster.get(f"/api/v1/namespaces/{cluster.namespace}")
    except AbsentError:
        yield error(f"there is no namespace {cluster.namespace}", "give another with -n, or create it")
        return
    if (body.get("status") or {}).get("phase") == "Terminating":
        yield error(f"namespace {cluster.namespace} is being deleted", "wait, or give another with -n")
    else:
        yield ok(f"namespace {cluster.namespace} is there")


def pod_security(cluster: Cluster) -> Iterator[Result]:
    """The namespace's Pod Security level, and what of the template it would refuse."""
    try:
        body = cluster.get(f"/api/v1/namespaces/{cluster.namespace}")
    except AbsentError:
        return  # `present` says so
    level = (body["metadata"].get("labels") or {}).get(ENFORCE)
    faults = restricted_faults(cluster.demand())
    if level == "restricted" and faults:
        yield error(
            f"Pod Security {level} refuses the pods: {'; '.join(faults)}",
            "render and apply the template again, with patch_executor on",
        )
    elif level == "restricted":
        yield ok("Pod Security restricted is enforced and the template meets it")
    elif level == "baseline":
        yield ok("Pod Security baseline is enforced and the template meets it")
    else:
        yield warning(
            f"Pod Security is not enforced ({level or 'no label'}); the template "
            + (f"would not meet restricted: {'; '.join(faults)}" if faults else "meets restricted"),
            f"kubectl label namespace {cluster.namespace} {ENFORCE}=restricted",
        )


def restricted_faults(demand: Demand) -> list[str]:
    """What the Restricted level refuses, over all pods; Argo's own containers by the template's patch."""
    found = [fault for pod in demand.pods for fault in _pod_faults(demand, pod)]
    for kind, name in (("initContainers", "init"), ("containers", "wait")):
        patched = {each.get("name"): each for each in demand.patch.get(kind) or []}
        security = (patched.get(name) or {}).get("securityContext") or {}
        if not _contained(security):
            found.append(f"Argo's container {name} is not restricted by the template")
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
    for volume in (*(demand.spec.get("volumes") or []), *(pod.body.get("volumes") or [])):
        if kinds := set(volume) - {"name"} - ALLOWED_VOLUMES:
            yield f"volume {volume['name']} is a {', '.join(kinds)}"


def _contained(security: Body) -> bool:
    drops = (security.get("capabilities") or {}).get("drop") or []
    return security.get("allowPrivilegeEscalation") is False and "ALL" in drops


def quotas(cluster: Cluster) -> Iterator[Result]:
    """Quotas that would refuse the pods: a resource that some container does not set, or no GPU."""
    found = cluster.items(cluster.own("resourcequotas"))
    given = _defaults(cluster) if found else set()
    for quota in found:
        name, hard = quota["metadata"]["name"], (quota.get("spec") or {}).get("hard") or {}
        # Argo's own init and wait containers set no resources: such a quota refuses their pod.
        sized = {key: key if "." in key else f"requests.{key}" for key in hard}
        unset = sorted(key for key, full in sized.items() if _is_sized(full) and full not in given)
        if unset:
            yield error(
                f"quota {name} wants {', '.join(unset)} set on every container, and Argo's own set none",
                "give the namespace a LimitRange with defaults, or set executor.resources of the controller",
            )
        gpus = hard.get(f"requests.{GPU}")
        if gpus is not None and quantity(gpus) < max((pod.gpus for pod in cluster.demand().pods), default=0):
            yield error(f"quota {name} allows {gpus} {GPU}: no fold can train", "ask for a larger quota")
        if not unset:
            yield ok(f"quota {name}: every container has what it counts")


def _is_sized(key: str) -> bool:
    return re.fullmatch(r"(limits|requests)\.(cpu|memory)", key) is not None


def _defaults(cluster: Cluster) -> set[str]:
    """`limits.cpu`, ...: what a LimitRange gives to containers that set none; a limit is a request too."""
    found: set[str] = set()
    for body in cluster.items(cluster.own("limitranges")):
        for limit in (body.get("spec") or {}).get("limits") or []:
            if limit.get("type") == "Container":
                found |= {f"limits.{key}" for key in limit.get("default") or {}}
                asked = {**(limit.get("default") or {}), **(limit.get("defaultRequest") or {})}
                found |= {f"requests.{key}" for key in asked}
    return found


def network(cluster: Cluster) -> Iterator[Result]:
    """Policies that cut the pods off the Kubernetes API, where Argo's container reports a stage's end."""
    path = f"/apis/networking.k8s.io/v1/namespaces/{cluster.namespace}/networkpolicies"
    policies = cluster.items(path)
    cut = False
    for pod in cluster.demand().pods:
        chosen = [
            policy["spec"]
            for policy in policies
            if selects(policy["spec"].get("podSelector") or {}, pod.labels) and _limits_egress(policy["spec"])
        ]
        if chosen and not any(_opens(rule) for spec in chosen for rule in spec.get("egress") or []):
            cut = True
            names = ", ".join(policy["metadata"]["name"] for policy in policies if policy["spec"] in chosen)
            yield error(
                f"network policy {names} keeps {pod.stage} from the Kubernetes API: its result never arrives",
                f"allow egress to the API server (TCP {API_PORTS[0]} or {API_PORTS[1]})",
            )
    if not cut:
        count = f"{len(policies)} network policies leave" if policies else "no network policy closes"
        yield ok(f"{count} the Kubernetes API open to the pods")


def _limits_egress(spec: Body) -> bool:
    kinds = spec.get("policyTypes")
    return "Egress" in kinds if kinds else "egress" in spec


def _opens(rule: Body) -> bool:
    """Whether a rule may let a pod reach the API server: its ports; where it leads is taken on trust."""
    ports = rule.get("ports")
    if not ports:
        return True
    return any(_is_api(port) for port in ports if port.get("protocol", "TCP") == "TCP")


def _is_api(port: Body) -> bool:
    first = port.get("port")
    if first is None or isinstance(first, str):
        return True
    return any(first <= number <= (port.get("endPort") or first) for number in API_PORTS)


CHECKS = [
    Check("namespace", "namespace", present),
    Check("namespace", "pod-security", pod_security),
    Check("namespace", "quota", quotas),
    Check("namespace", "network-policy", network),
]
