"""Argo's kinds of objects, and the repository for artifacts."""

from collections.abc import Iterator

from pipelines.cluster.api import AbsentError
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.controller import controller_config
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

GROUP = "/apis/argoproj.io"
KINDS = ("workflows", "workflowtemplates", "workflowtaskresults", "cronworkflows")


def kinds(cluster: Cluster) -> Iterator[Result]:
    """Argo's kinds are installed and served as v1alpha1."""
    do = "install Argo Workflows (its CRDs) in the cluster"
    try:
        versions = [each["version"] for each in cluster.get(GROUP).get("versions") or []]
        listed = cluster.get(f"{GROUP}/v1alpha1").get("resources") or []
    except AbsentError:
        yield error("the cluster does not know Argo's kinds (argoproj.io/v1alpha1)", do)
        return
    served = {each["name"] for each in listed}
    if missing := [kind for kind in KINDS if kind not in served]:
        yield error(f"the cluster does not serve {', '.join(missing)}", do)
    else:
        yield ok(f"argoproj.io serves {', '.join(KINDS)} ({', '.join(versions)})")


def artifacts(cluster: Cluster) -> Iterator[Result]:
    """A template that hands out artifacts needs a repository; without one its stages fail at their end."""
    pods = [pod.stage for pod in cluster.demand().pods if pod.has_artifacts]
    if not pods:
        return
    maps = cluster.seen(f"{cluster.own('configmaps')}/artifact-repositories")
    config = controller_config(cluster)
    if maps or (config or {}).get("artifactRepository"):
        yield ok(f"an artifact repository is configured (used by {', '.join(pods)})")
        return
    what = f"{', '.join(pods)} hands out artifacts"
    do = "configure an artifact repository, or render the template without artifacts"
    if config is None:
        yield warning(f"{what}; no artifact repository can be seen from here", do)
    else:
        yield error(f"{what}, and no artifact repository is configured: the stage would fail", do)


CHECKS = [
    Check("argo", "kinds", kinds),
    Check("argo", "artifact-repository", artifacts),
]
