"""Images of the pods: named well, on the nodes or pullable, and the secrets to pull them."""

import re
from collections.abc import Iterator

from pipelines.cluster.api import AbsentError, DeniedError
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.demand import Pod
from pipelines.cluster.doctor.node import Node, full_name
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

# [registry[:port]/]path:tag or @digest
IMAGE = re.compile(
    r"([a-zA-Z0-9.-]+(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
# A kubelet reports so many images at most, the largest ones.
REPORTED = 50
SHOWN = 3


def images(cluster: Cluster) -> Iterator[Result]:
    """Each image has a name with a tag, and is on the nodes or can perhaps be pulled."""
    demand = cluster.demand()
    for image in dict.fromkeys(pod.image for pod in demand.pods):
        pods = [pod for pod in demand.pods if pod.image == image]
        if "{{" in image or not IMAGE.fullmatch(image):
            yield error(f"{image!r} is not the name of an image", "correct image of the chart, or git-branch")
            continue
        if "@" not in image and ":" not in image.rpartition("/")[2]:
            yield error(f"image {image} has no tag", "give the tag of the code to run (git-branch)")
            continue
        try:
            nodes = cluster.nodes()
        except DeniedError as denied:
            yield warning(
                f"whether image {image} is on the nodes cannot be seen ({denied})",
                f"check that the nodes can pull it (imagePullPolicy {pods[0].pull_policy})",
            )
            continue
        for policy in sorted({pod.pull_policy for pod in pods}):
            yield _present(image, policy, [pod for pod in pods if pod.pull_policy == policy], nodes)


def _present(image: str, policy: str, pods: list[Pod], nodes: list[Node]) -> Result:
    able = [node for node in nodes if any(not node.hindrance(pod) for pod in pods)]
    lacking = [node for node in able if full_name(image) not in node.images()]
    stages = ", ".join(pod.stage for pod in pods)
    if able and not lacking:
        where = able[0].name if len(able) == 1 else f"all {len(able)} nodes that may run {stages}"
        note = "; still pulled at every start (imagePullPolicy Always)" if policy == "Always" else ""
        return ok(f"image {image} is on {where}{note}")
    names = ", ".join(node.name for node in lacking[:SHOWN]) or "any node"
    more = f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else ""
    what = f"image {image} is not on {names}{more}"
    if policy == "Never":
        told = lacking and all(node.reported_images < REPORTED for node in lacking)
        do = "load it there, or let it be pulled (imagePullPolicy of the chart)"
        return error(f"{what} and may not be pulled (Never)", do) if told else warning(what, do)
    hub = "" if full_name(image) == image else f" as {full_name(image)}"
    return warning(
        f"{what}: it must be pulled{hub}, which cannot be tried from here",
        "check that the tag was pushed and the nodes reach its registry, or load it on them",
    )


def pull_secrets(cluster: Cluster) -> Iterator[Result]:
    """Secrets named for pulling are there; their content is not read."""
    demand = cluster.demand()
    named = set(demand.pull_secrets)
    try:
        account = cluster.get(f"{cluster.own('serviceaccounts')}/{demand.service_account}")
    except AbsentError:
        account = {}  # the service account's own check says so
    named |= {each["name"] for each in account.get("imagePullSecrets") or []}
    for name in sorted(named):
        if cluster.exists(f"{cluster.own('secrets')}/{name}"):
            yield ok(f"pull secret {name} is there")
        else:
            yield error(
                f"pull secret {name} is not in namespace {cluster.namespace}",
                f"kubectl create secret docker-registry {name} -n {cluster.namespace} ...",
            )


def architectures(cluster: Cluster) -> Iterator[Result]:
    """Nodes of one run have one architecture: the image is built for one."""
    demand = cluster.demand()
    able = [node for node in cluster.nodes() if any(not node.hindrance(pod) for pod in demand.pods)]
    found = sorted({node.architecture for node in able if node.architecture})
    if len(found) > 1:
        yield warning(
            f"pods may run on nodes of {' and '.join(found)}: the image must be built for each",
            "keep the pods off one kind, or push an image for each",
        )


CHECKS = [
    Check("image", "image", images),
    Check("image", "pull-secret", pull_secrets),
    Check("image", "architecture", architectures),
]
