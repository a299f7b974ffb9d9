"""The namespace: there, with what the pods refer to, and nothing in it that refuses them or cuts them off."""

import re
from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, Body
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.controller import executor_settings
from pipelines.cluster.doctor.node import GPU, quantity, selects
from pipelines.cluster.doctor.result import Check, Result, error, ok

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
    containers = {pod.stage: pod.container for pod in pods} | {
        "Argo's own containers": executor_settings(cluster)
    }
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


# Told with the connection: without a namespace, little else can be there.
FIRST = [Check("connection", "namespace", present)]
CHECKS = [
    Check("namespace", "references", references),
    Check("namespace", "quota", quotas),
    Check("namespace", "network-policy", network),
]
