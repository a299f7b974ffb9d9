"""Argo itself: its kinds of objects, the controller that acts on them, and how old both are."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import yaml

from pipelines.cluster.api import AbsentError, Body
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

GROUP = "/apis/argoproj.io"
KINDS = ("workflows", "workflowtemplates", "workflowtaskresults", "cronworkflows")
# Versions that the template was tried with: 3.6 has the plural `mutexes`, and 4.2 is not out.
OLDEST, NEWEST = (3, 6), (4, 1)
CONTROLLER = {"labelSelector": "app=workflow-controller"}
CONFIG = "workflow-controller-configmap"
USUAL_NAMESPACE = "argo"
# A controller renews its lease every few seconds, and takes a workflow within one or two.
LEASE_S = 60
TAKEN_S = 60


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


@dataclass(frozen=True)
class Controller:
    """A controller's pod. watches: the one namespace it is limited to, empty for all."""

    namespace: str
    name: str
    ready: bool
    image: str
    watches: str

    @classmethod
    def of(cls, pod: Body) -> "Controller":
        """From the pod's JSON."""
        meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        container = (spec.get("containers") or [{}])[0]
        words = [*(container.get("command") or []), *(container.get("args") or [])]
        conditions = status.get("conditions") or []
        ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
        limited = _option(words, "--managed-namespace")
        if not limited and "--namespaced" in words:
            limited = meta["namespace"]
        return cls(meta["namespace"], meta["name"], ready, container.get("image", ""), limited)

    @property
    def version(self) -> str:
        """Of the image's tag; empty where it does not say."""
        found = re.search(r":v?(\d+\.\d+[^@]*)", self.image)
        return found[1] if found else ""


def _option(words: list[str], name: str) -> str:
    for i, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and i + 1 < len(words):
            return words[i + 1]
    return ""


def controller(cluster: Cluster) -> Iterator[Result]:
    """Some controller is alive and takes the workflows of this namespace: by its pod, lease or work."""
    found = [each for each in _controllers(cluster) if each.watches in ("", cluster.namespace)]
    elsewhere = [each for each in _controllers(cluster) if each not in found]
    waiting, taken = _work(cluster)
    if waiting:
        name, age = waiting
        yield error(
            f"workflow {name} was created {age:.0f} s ago and no controller has taken it",
            "ask who runs Argo whether its workflow controller is up and watches this namespace",
        )
    if ready := [each for each in found if each.ready]:
        yield ok(f"workflow controller {ready[0].namespace}/{ready[0].name} is ready")
        yield from _version(ready[0].version)
    elif found:
        here = found[0]
        yield error(
            f"workflow controller {here.namespace}/{here.name} is not ready",
            f"kubectl describe pod {here.name} -n {here.namespace}",
        )
    elif elsewhere and not taken:
        yield error(
            f"the workflow controller watches namespace {elsewhere[0].watches} only, not {cluster.namespace}",
            f"use -n {elsewhere[0].watches}, or have it watch this namespace",
        )
    elif renewed := _lease(cluster):
        yield ok(f"a workflow controller renewed its lease {renewed:.0f} s ago")
    elif not waiting:
        yield _by_work(taken)


def _by_work(taken: str) -> Result:
    do = "look into the controller's namespace, or submit: a live controller takes a workflow in seconds"
    if taken:
        return warning(f"no controller can be seen from here; the last workflow it took: {taken}", do)
    return warning("no workflow controller can be seen from here, nor a workflow that one took", do)


def _version(version: str) -> Iterator[Result]:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        yield warning("the version of the controller's image cannot be read", "check that it is 3.6 to 4.1")
        return
    pair = (int(numbers[1]), int(numbers[2]))
    span = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    if pair < OLDEST:
        yield error(f"Argo {version} is too old: its locks and retries differ", f"use Argo {span}")
    elif pair > NEWEST:
        yield warning(f"Argo {version} is newer than what this was tried with", f"tried: {span}")
    else:
        yield ok(f"Argo {version} (tried: {span})")


def _controllers(cluster: Cluster) -> list[Controller]:
    """Pods of controllers: in all namespaces where that may be listed, else in this and the usual one."""
    everywhere = cluster.seen("/api/v1/pods", CONTROLLER)
    bodies = (
        [everywhere]
        if everywhere
        else [
            cluster.seen(f"/api/v1/namespaces/{namespace}/pods", CONTROLLER)
            for namespace in sorted({cluster.namespace, USUAL_NAMESPACE})
        ]
    )
    return [Controller.of(pod) for body in bodies if body for pod in body.get("items") or []]


def _lease(cluster: Cluster) -> float | None:
    """Seconds since a controller renewed its lease; None where none is seen or the newest one is old."""
    ages = []
    for namespace in sorted({cluster.namespace, USUAL_NAMESPACE}):
        body = cluster.seen(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
        for lease in (body or {}).get("items") or []:
            if lease["metadata"]["name"].startswith("workflow-controller"):
                renewed = (lease.get("spec") or {}).get("renewTime")
                ages += [age_s(renewed)] if renewed else []
    return min((age for age in ages if age < LEASE_S), default=None)


def _work(cluster: Cluster) -> tuple[tuple[str, float] | None, str]:
    """(workflow that waits for a controller, its age), and the newest that one has taken, in words."""
    path = f"{GROUP}/v1alpha1/namespaces/{cluster.namespace}/workflows"
    listed = (cluster.seen(path, {"limit": "100"}) or {}).get("items") or []
    newest = sorted(listed, key=lambda each: str(each["metadata"].get("creationTimestamp")), reverse=True)
    waiting = None
    for each in newest:
        age = age_s(each["metadata"]["creationTimestamp"])
        if phase := (each.get("status") or {}).get("phase"):
            return waiting, f"{each['metadata']['name']}, {phase}, {age / 3600:.1f} h ago"
        if age > TAKEN_S:
            waiting = (each["metadata"]["name"], age)
    return waiting, ""


def age_s(time: str) -> float:
    """Seconds since a time as Kubernetes writes it."""
    return (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()


def settings(cluster: Cluster) -> Iterator[Result]:
    """Settings of the controller that decide whether it takes our workflows and where artifacts go."""
    config = controller_config(cluster)
    if config is None:
        yield warning(
            f"the controller's settings ({CONFIG}) cannot be seen from here",
            "ask whether it sets instanceID (workflows would need its label)",
        )
        return
    if instance := config.get("instanceID"):
        yield warning(
            f"the controller takes only workflows with the label "
            f"workflows.argoproj.io/controller-instanceid={instance}",
            "submit with that label, or remove instanceID from the controller's settings",
        )
    else:
        yield ok("the controller takes workflows without an instance label")


def controller_config(cluster: Cluster) -> Body | None:
    """The controller's settings, parsed; None where they cannot be seen."""
    namespaces = [each.namespace for each in _controllers(cluster)]
    for namespace in dict.fromkeys([*namespaces, USUAL_NAMESPACE, cluster.namespace]):
        if body := cluster.seen(f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG}"):
            return _parsed(body.get("data") or {})
    return None


def _parsed(data: dict[str, str]) -> Body:
    """Keys as they are, or one key `config` that holds them all: both forms are Argo's."""
    try:
        if "config" in data:
            return yaml.safe_load(data["config"]) or {}
        return {key: yaml.safe_load(value) for key, value in data.items()}
    except yaml.YAMLError:
        return {}


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
    Check("argo", "controller", controller),
    Check("argo", "controller-settings", settings),
    Check("argo", "artifact-repository", artifacts),
]
