"""Nodes that can take the pods: the GPU pool, room for the other stages, and the semaphore in front of it."""

from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, DeniedError
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.demand import Demand, Pod
from pipelines.cluster.doctor.node import GPU, Node
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

# Evidence that nodes may appear when pods wait for them.
AUTOSCALER = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
KARPENTER = "/apis/karpenter.sh"
SHOWN = 3


def pools(cluster: Cluster) -> Iterator[Result]:
    """For every kind of pod: nodes that can take it now."""
    demand = cluster.demand()
    nodes = cluster.nodes()
    if not nodes:
        yield error("the cluster has no node", "ask who runs the cluster")
        return
    placed: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in demand.pods:
        kind = (str(sorted(pod.selector.items())), str(pod.node_terms), str(pod.gpus))
        placed.setdefault(kind, []).append(pod)
    for pods in placed.values():
        # The stage that asks for most speaks for the others of its kind.
        pod = max(pods, key=lambda each: (each.asks("memory"), each.asks("cpu")))
        stages = ", ".join(each.stage for each in pods)
        members = [node for node in nodes if not node.unmatched(pod)]
        if members:
            yield from _members(pod, stages, members)
        else:
            yield _no_member(cluster, pod, stages, nodes)


def _members(pod: Pod, stages: str, members: list[Node]) -> Iterator[Result]:
    where = _where(pod)
    hindered = {node.name: _now(node, pod) for node in members}
    usable = [node for node in members if not hindered[node.name]]
    reasons = [f"{name} {reason}" for name, reason in hindered.items() if reason]
    more = f" and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    told = f"{'; '.join(reasons[:SHOWN])}{more}"
    do = "correct the nodes, or what the chart tolerates and asks for (gpuTolerations, ...Resources)"
    if not usable:
        yield error(f"no node can take {stages} ({where}): {told}", do)
        return
    gpus = sum(int(node.has(GPU)) for node in usable) if pod.gpus else 0
    count = f"{len(usable)} node{'s' if len(usable) > 1 else ''}{f' with {gpus} GPUs' if pod.gpus else ''}"
    yield ok(f"{stages} ({where}): {count}")
    if pod.selector and reasons:
        yield warning(f"{where}: {told}", f"only {count} can be used until then")


def _where(pod: Pod) -> str:
    if pod.selector:
        return f"pool {_label(pod)}"
    return "any node off the GPU pool" if pod.node_terms else "any node"


def _now(node: Node, pod: Pod) -> str:
    if reason := node.hindrance(pod):
        return reason
    if not node.ready:
        return "is not ready"
    return "is cordoned" if node.cordoned else ""


def _no_member(cluster: Cluster, pod: Pod, stages: str, nodes: list[Node]) -> Result:
    lack = f"no node has the label {_label(pod)}" if pod.selector else "no node is off the GPU pool"
    what = f"{lack}: {stages} would stay Pending"
    if cluster.seen(AUTOSCALER) or cluster.seen(KARPENTER):
        return warning(f"{what}, unless an autoscaler adds one", "check the name of the pool (gpu-pool)")
    if not pod.selector:
        return error(what, "add a node to another pool, or set keepGpuPoolFree of the chart to false")
    key = next(iter(pod.selector))
    others = sorted({node.labels[key] for node in nodes if key in node.labels})
    if others:
        return error(what, f"use a pool that is there: {', '.join(others)} (gpu-pool)")
    return error(what, f"no node has a label {key}: set gpuPoolLabel of the chart, or label the nodes")


def stays_off(cluster: Cluster) -> Iterator[Result]:
    """Whether pods without a GPU can land on nodes of the pool, whose GPUs they would keep from others."""
    demand = cluster.demand()
    trained = [pod for pod in demand.pods if pod.gpus]
    others = [pod for pod in demand.pods if not pod.gpus]
    if not trained or not others:
        return
    nodes = cluster.nodes()
    open_nodes = [
        node.name
        for node in nodes
        if node.has(GPU) and any(not node.hindrance(pod) for pod in others if not pod.selector)
    ]
    if open_nodes and len(open_nodes) < len(nodes):
        yield warning(
            f"{', '.join(pod.stage for pod in others)} may land on GPU nodes, which nothing keeps free: "
            f"{', '.join(open_nodes[:SHOWN])}",
            f"set keepGpuPoolFree, or kubectl taint nodes {open_nodes[0]} {GPU}=present:NoSchedule",
        )


def semaphores(cluster: Cluster) -> Iterator[Result]:
    """Each semaphore is there, a whole number, and not more than the GPUs behind it."""
    demand = cluster.demand()
    for name, key in sorted(demand.semaphores):
        try:
            data = cluster.get(f"{cluster.own('configmaps')}/{name}").get("data") or {}
        except AbsentError:
            yield error(
                f"ConfigMap {name} of the semaphore is not in namespace {cluster.namespace}: no fold starts",
                f"kubectl create configmap {name} -n {cluster.namespace} --from-literal={key}=1",
            )
            continue
        yield from _slots(cluster, demand, name, key, data.get(key))


def _slots(cluster: Cluster, demand: Demand, name: str, key: str, text: str | None) -> Iterator[Result]:
    patch = f'kubectl patch configmap {name} -n {cluster.namespace} -p \'{{"data":{{"{key}":"N"}}}}\''
    if text is None:
        yield error(f"ConfigMap {name} has no key {key}: no fold starts", patch)
        return
    if not text.strip().isdigit() or int(text) < 1:
        yield error(f"semaphore {name}/{key} is {text!r}, not a whole number from 1: no fold starts", patch)
        return
    slots = int(text)
    yield ok(f"semaphore {name}/{key}: {slots} training pod{'s' if slots > 1 else ''} at a time")
    gpus = _free_gpus(cluster, demand)
    if gpus is not None and slots > gpus > 0:
        yield warning(
            f"semaphore {name}/{key} lets {slots} pods train on {gpus} GPUs: the rest stay Pending",
            patch.replace('"N"', f'"{gpus}"'),
        )


def _free_gpus(cluster: Cluster, demand: Demand) -> int | None:
    """GPUs of the pool's nodes; None where training needs none or nodes cannot be seen."""
    trained = next((pod for pod in demand.pods if pod.gpus), None)
    if trained is None:
        return None
    try:
        return sum(int(node.has(GPU)) for node in cluster.nodes() if not _now(node, trained))
    except DeniedError:
        return None


def _label(pod: Pod) -> str:
    return ", ".join(f"{key}={value}" for key, value in pod.selector.items())


CHECKS = [
    Check("nodes", "pools", pools),
    Check("nodes", "gpu-nodes-kept", stays_off),
    Check("nodes", "semaphore", semaphores),
]
