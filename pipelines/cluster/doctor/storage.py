"""Claims of the template: there, bound, and mountable by every pod at the same time."""

from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, Body, DeniedError
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.demand import Demand
from pipelines.cluster.doctor.node import Node, expressions_match
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

ONE_POD, MANY, MANY_READ = "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany"


def claims(cluster: Cluster) -> Iterator[Result]:
    """Each claim is there, bound or waiting for its first pod, and may be written where it must be."""
    demand = cluster.demand()
    for name, only_read in demand.claims.items():
        try:
            claim = cluster.get(f"{cluster.own('persistentvolumeclaims')}/{name}")
        except AbsentError:
            yield error(
                f"claim {name} is not in namespace {cluster.namespace}: pods stay Pending",
                "install the chart, or name a claim that is there (cacheClaim, dataClaim of the chart)",
            )
            continue
        yield from _state(cluster, name, claim)
        yield from _modes(cluster, demand, name, claim, only_read)


def _state(cluster: Cluster, name: str, claim: Body) -> Iterator[Result]:
    status, spec = claim.get("status") or {}, claim.get("spec") or {}
    phase = status.get("phase")
    if claim["metadata"].get("deletionTimestamp"):
        yield error(f"claim {name} is being deleted", "stop what uses it and create it again, or restore it")
    elif phase == "Bound":
        size = (status.get("capacity") or {}).get("storage", "?")
        yield ok(f"claim {name} is bound: {size}, {', '.join(access_modes(claim))}")
    elif phase == "Lost":
        yield error(f"claim {name} lost its volume {spec.get('volumeName')}", "restore the volume")
    else:
        yield from _pending(cluster, name, spec.get("storageClassName"))


def _pending(cluster: Cluster, name: str, storage_class: str | None) -> Iterator[Result]:
    look = f"kubectl describe pvc {name} -n {cluster.namespace}"
    if not storage_class:
        yield error(f"claim {name} is Pending and names no storage class: it waits for a volume", look)
        return
    try:
        body = cluster.get(f"/apis/storage.k8s.io/v1/storageclasses/{storage_class}")
    except AbsentError:
        yield warning(
            f"claim {name} is Pending and storage class {storage_class} does not exist: "
            "only a volume made by hand can fill it",
            look,
        )
        return
    except DeniedError:
        yield warning(f"claim {name} is Pending; storage class {storage_class} may not be read", look)
        return
    if body.get("volumeBindingMode") == "WaitForFirstConsumer":
        yield ok(f"claim {name} waits for its first pod (storage class {storage_class})")
    else:
        yield error(f"claim {name} is Pending though storage class {storage_class} binds at once", look)


def _modes(cluster: Cluster, demand: Demand, name: str, claim: Body, only_read: bool) -> Iterator[Result]:
    modes = access_modes(claim)
    if modes == [MANY_READ] and not only_read:
        yield error(f"claim {name} is ReadOnlyMany, but runs are written there", "use a ReadWriteMany claim")
    if MANY in modes or (only_read and MANY_READ in modes) or demand.folds == 1:
        return
    if modes == [ONE_POD]:
        yield error(
            f"claim {name} is ReadWriteOncePod: {demand.folds} folds cannot mount it at the same time",
            "use a ReadWriteMany claim",
        )
        return
    try:
        nodes = possible_nodes(cluster, demand, claim)
    except DeniedError as denied:
        yield warning(
            f"claim {name} is ReadWriteOnce: {demand.folds} folds share it only on one node, and nodes "
            f"cannot be seen ({denied})",
            "use a ReadWriteMany claim where pods may run on several nodes",
        )
        return
    if len(nodes) > 1:
        yield error(
            f"claim {name} is ReadWriteOnce, but pods of {demand.folds} folds may run on {len(nodes)} nodes: "
            "those on the second node wait for the volume (Multi-Attach)",
            "use a ReadWriteMany claim, or run one fold at a time (--fold-idx)",
        )
    else:
        where = nodes[0].name if nodes else "no node"
        yield warning(
            f"claim {name} is ReadWriteOnce: works while every pod runs on one node (now {where})",
            "use a ReadWriteMany claim before a second node joins",
        )


def access_modes(claim: Body) -> list[str]:
    """Modes of the bound volume, which decide what may be mounted; those asked for until it is bound."""
    found: list[str] = (
        (claim.get("status") or {}).get("accessModes") or claim["spec"].get("accessModes") or []
    )
    return found


def possible_nodes(cluster: Cluster, demand: Demand, claim: Body) -> list[Node]:
    """Nodes that may run a pod of the run, up or down, and that the claim's volume can be mounted on."""
    volume = claim["spec"].get("volumeName")
    body = cluster.seen(f"/api/v1/persistentvolumes/{volume}") if volume else None
    required = (((body or {}).get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms") or []
    return [
        node
        for node in cluster.nodes()
        if any(not node.hindrance(pod) for pod in demand.pods)
        and (not terms or any(_reaches(term, node) for term in terms))
    ]


def _reaches(term: Body, node: Node) -> bool:
    fields = expressions_match(term.get("matchFields") or [], {"metadata.name": node.name})
    return fields and expressions_match(term.get("matchExpressions") or [], node.labels)


CHECKS = [Check("storage", "claims", claims)]
