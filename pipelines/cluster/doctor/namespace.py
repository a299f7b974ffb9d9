"""The namespace: there, its Pod Security level, its quotas and network policies."""

import re
from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, Body
from pipelines.cluster.doctor.argo import controller_config
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
KINDS = {"secrets": ("Secret", "secret generic"), "configmaps": ("ConfigMap", "configmap")}


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
    faults = restricted_faults(cluster.demand(), _executor(cluster))
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


def restricted_faults(demand: Demand, executor: Body) -> list[str]:
    """What the Restricted level refuses. executor: what the controller gives to Argo's own containers."""
    found = [fault for pod in demand.pods for fault in _pod_faults(demand, pod)]
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
    for volume in (*(demand.spec.get("volumes") or []), *(pod.body.get("volumes") or [])):
        if kinds := set(volume) - {"name"} - ALLOWED_VOLUMES:
            yield f"volume {volume['name']} is a {', '.join(kinds)}"


def _contained(security: Body) -> bool:
    drops = (security.get("capabilities") or {}).get("drop") or []
    return security.get("allowPrivilegeEscalation") is False and "ALL" in drops


def references(cluster: Cluster) -> Iterator[Result]:
    """Secrets and ConfigMaps that the stages read, such as a bucket's credentials, are there."""
    for resource, name in sorted(cluster.demand().references):
        kind, make = KINDS[resource]
        if cluster.exists(f"{cluster.own(resource)}/{name}"):
            yield ok(f"{kind} {name} is there")
        else:
            yield error(
                f"{kind} {name} of the stages is not in namespace {cluster.namespace}: no pod starts",
                f"kubectl create {make} {name} -n {cluster.namespace} ...",
            )


def quotas(cluster: Cluster) -> Iterator[Result]:
    """Quotas that would refuse the pods: a resource that some container does not set, or no GPU."""
    found = cluster.items(cluster.own("resourcequotas"))
    if not found:
        return
    pods, given = cluster.demand().pods, _defaults(cluster)
    containers = {pod.stage: pod.container for pod in pods} | {"Argo's own containers": _executor(cluster)}
    for quota in found:
        name, hard = quota["metadata"]["name"], (quota.get("spec") or {}).get("hard") or {}
        counted = sorted({key if "." in key else f"requests.{key}" for key in hard})
        faults = [
            f"{key} (not set by {', '.join(unset)})"
            for key in counted
            if _is_sized(key) and key not in given
            if (unset := [who for who, each in containers.items() if not _sets(each, key)])
        ]
        if faults:
            yield error(
                f"quota {name} refuses pods whose containers do not set {'; '.join(faults)}",
                "give the namespace a LimitRange with defaults for containers",
            )
        gpus = hard.get(f"requests.{GPU}")
        if gpus is not None and quantity(gpus) < max((pod.gpus for pod in pods), default=0):
            yield error(f"quota {name} allows {gpus} {GPU}: no fold can train", "ask for a larger quota")
        if not faults:
            yield ok(f"quota {name}: every container sets what it counts")


def _executor(cluster: Cluster) -> Body:
    """What the controller gives to Argo's own containers; empty where its settings cannot be seen."""
    found: Body = (controller_config(cluster) or {}).get("executor") or {}
    return found


def _sets(container: Body, key: str) -> bool:
    """Whether a container sets what a quota counts; a request that is not set is the limit."""
    kind, _, resource = key.partition(".")
    sizes = container.get("resources") or {}
    return any(resource in (sizes.get(each) or {}) for each in {kind, "limits"})


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
        count = f"network policies: {len(policies)}, none" if policies else "no network policy"
        yield ok(f"{count} keeps the pods from the Kubernetes API")


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
    Check("namespace", "references", references),
    Check("namespace", "quota", quotas),
    Check("namespace", "network-policy", network),
]
