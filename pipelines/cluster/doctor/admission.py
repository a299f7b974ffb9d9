"""What decides when a training pod's turn comes: priority class and Kueue queue, where they are set."""

from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, Body
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

KUEUE = "/apis/kueue.x-k8s.io"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def priority_class(cluster: Cluster) -> Iterator[Result]:
    """A pod that names a priority class which is not there cannot be made."""
    for name in sorted({pod.priority_class for pod in cluster.demand().pods} - {""}):
        try:
            body = cluster.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")
        except AbsentError:
            yield error(
                f"priority class {name} does not exist: pods that name it are refused",
                "create it (the chart can), or leave priorityClass of the chart empty",
            )
        else:
            yield ok(f"priority class {name}: {body.get('value')}")


def kueue(cluster: Cluster) -> Iterator[Result]:
    """The queue that the pods are labelled with exists and admits."""
    names = {pod.labels.get(QUEUE_LABEL, "") for pod in cluster.demand().pods} - {""}
    if not names:
        return
    try:
        version = cluster.get(KUEUE)["preferredVersion"]["version"]
    except AbsentError:
        yield error(
            f"pods ask for Kueue queue {', '.join(sorted(names))}, but Kueue is not installed",
            "install Kueue, or leave queueName of the chart empty",
        )
        return
    for name in sorted(names):
        path = f"{KUEUE}/{version}/namespaces/{cluster.namespace}/localqueues/{name}"
        try:
            conditions = (cluster.get(path).get("status") or {}).get("conditions") or []
        except AbsentError:
            yield error(
                f"Kueue queue {name} is not in namespace {cluster.namespace}: training pods wait for ever",
                "create the LocalQueue, or name an existing one (queueName of the chart)",
            )
            continue
        active: Body = next((each for each in conditions if each.get("type") == "Active"), {})
        if active.get("status") == "False":
            yield error(f"Kueue queue {name} admits nothing: {active.get('message')}", "ask who runs Kueue")
        elif active.get("status") == "True":
            yield ok(f"Kueue queue {name} is active")
        else:
            yield warning(f"Kueue queue {name} does not say whether it is active", "ask who runs Kueue")


CHECKS = [Check("nodes", "priority-class", priority_class), Check("nodes", "kueue-queue", kueue)]
