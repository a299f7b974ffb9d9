"""The workflow controller: whether one is alive and takes the workflows of this namespace, and its settings.

It usually runs where an ordinary user may not look, so three things tell of it: its pod, its lease, and the
workflows that it took or left lying.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import yaml

from pipelines.cluster.api import INSTANCE_LABEL, Body
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

# Versions that the template was tried with: 3.6 has the plural `mutexes`, and 4.2 is not out.
OLDEST, NEWEST = (3, 6), (4, 1)
# As Argo's own manifests label its pod, and as its chart does.
SELECTORS = ("app=workflow-controller", "app.kubernetes.io/component=workflow-controller")
CONFIG = "workflow-controller-configmap"
USUAL_NAMESPACE = "argo"
PHASE_LABEL = "workflows.argoproj.io/phase"
# A controller renews its lease every few seconds, and takes a workflow within one or two.
LEASE_S = 60
TAKEN_S = 60
# A workflow made and taken so recently shows a live controller.
RECENT_S = 900


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


@dataclass(frozen=True)
class Work:
    """A workflow, and whether a controller has taken it. age_s: since it was made."""

    name: str
    phase: str
    age_s: float
    labels: dict[str, str]

    @classmethod
    def of(cls, body: Body) -> "Work":
        """From the workflow's JSON, or from its metadata alone: the controller writes the phase there too."""
        meta = body["metadata"]
        labels = meta.get("labels") or {}
        phase = labels.get(PHASE_LABEL) or (body.get("status") or {}).get("phase") or ""
        return cls(meta["name"], phase, _age_s(meta["creationTimestamp"]), labels)


def controller(cluster: Cluster) -> Iterator[Result]:
    """Some controller is alive and takes the workflows of this namespace."""
    seen = _controllers(cluster)
    here = [each for each in seen if each.watches in ("", cluster.namespace)]
    taken, waiting = _work(cluster)
    if waiting:
        yield error(
            f"workflow {waiting.name} was made {span(waiting.age_s)} ago and no controller has taken it",
            "ask who runs Argo whether its workflow controller is up and watches this namespace",
        )
    if ready := [each for each in here if each.ready]:
        yield ok(f"workflow controller {ready[0].namespace}/{ready[0].name} is ready")
        yield _version(ready[0].version)
    elif here:
        name, namespace = here[0].name, here[0].namespace
        yield error(
            f"workflow controller {namespace}/{name} is not ready",
            f"kubectl describe pod {name} -n {namespace}",
        )
    elif seen and not taken:
        yield error(
            f"the workflow controller watches namespace {seen[0].watches} only, not {cluster.namespace}",
            f"use -n {seen[0].watches}, or have it watch this namespace",
        )
    elif renewed := _lease(cluster):
        yield ok(f"a workflow controller renewed its lease {renewed:.0f} s ago")
    elif not waiting:
        yield _by_work(taken)


def _by_work(taken: Work | None) -> Result:
    do = "submit and see: a live controller takes a workflow in seconds"
    if taken is None:
        return warning("no workflow controller can be seen from here, nor a workflow that one took", do)
    told = f"{taken.name}, {taken.phase}, made {span(taken.age_s)} ago"
    if taken.age_s < RECENT_S:
        return ok(f"a workflow controller took {told}")
    return warning(f"no workflow controller can be seen from here; the last workflow it took: {told}", do)


def _version(version: str) -> Result:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        return warning("the version of the controller's image cannot be read", "check that it is 3.6 to 4.1")
    pair = (int(numbers[1]), int(numbers[2]))
    span = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    if pair < OLDEST:
        return error(f"Argo {version} is too old: its locks and retries differ", f"use Argo {span}")
    if pair > NEWEST:
        return warning(f"Argo {version} is newer than what this was tried with", f"tried: {span}")
    return ok(f"Argo {version} (tried: {span})")


def _controllers(cluster: Cluster) -> list[Controller]:
    """Controllers' pods: in all namespaces where that may be listed, else in this and the usual one."""
    found = []
    for selector in SELECTORS:
        lists = [cluster.seen("/api/v1/pods", {"labelSelector": selector})]
        if lists == [None]:
            paths = [
                f"/api/v1/namespaces/{each}/pods" for each in sorted({cluster.namespace, USUAL_NAMESPACE})
            ]
            lists = [cluster.seen(path, {"labelSelector": selector}) for path in paths]
        found += [Controller.of(pod) for body in lists for pod in (body or {}).get("items") or []]
    return list(dict.fromkeys(found))


def _lease(cluster: Cluster) -> float | None:
    """Seconds since a controller renewed its lease; None where none is seen or the newest one is old."""
    ages = []
    for namespace in sorted({cluster.namespace, USUAL_NAMESPACE}):
        body = cluster.seen(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
        for lease in (body or {}).get("items") or []:
            renewed = (lease.get("spec") or {}).get("renewTime")
            if renewed and lease["metadata"]["name"].startswith("workflow-controller"):
                ages.append(_age_s(renewed))
    return min((age for age in ages if age < LEASE_S), default=None)


def _work(cluster: Cluster) -> tuple[Work | None, Work | None]:
    """(newest workflow that a controller has taken, a newer one that waits too long for it)."""
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{cluster.namespace}/workflows"
    body = cluster.seen(path, {"limit": "500"}, metadata_only=True) or {}
    found = sorted((Work.of(each) for each in body.get("items") or []), key=lambda each: each.age_s)
    taken = next((each for each in found if each.phase), None)
    newer = [each for each in found if taken is None or each.age_s < taken.age_s]
    return taken, next((each for each in newer if not each.phase and each.age_s > TAKEN_S), None)


def span(seconds: float) -> str:
    """`40 s`, `3 min`, `5 h`, `4 days`: whole units, the largest of which there are two at least."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _age_s(time: str) -> float:
    """Seconds since a time as Kubernetes writes it."""
    return (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()


def settings(cluster: Cluster) -> Iterator[Result]:
    """Settings of the controller that decide whether it takes our workflows."""
    config = controller_config(cluster)
    if config is None:
        taken, _ = _work(cluster)
        asked = cluster.asked.instance_id
        if taken and taken.labels.get(INSTANCE_LABEL, "") == asked:
            of = f"has the instance label {asked}" if asked else "has no instance label"
            yield ok(f"the controller took {taken.name}, which {of}")
            return
        yield warning(
            f"the controller's settings ({CONFIG}) cannot be seen from here",
            "ask whether it sets instanceID, and give it as --instanceid",
        )
        return
    instance, asked = str(config.get("instanceID") or ""), cluster.asked.instance_id
    takes = f"workflows {f'with {INSTANCE_LABEL}={instance}' if instance else 'without an instance label'}"
    if instance == asked:
        yield ok(f"the controller takes {takes}")
    else:
        do = f"give --instanceid {instance}, or set ARGO_INSTANCEID" if instance else "leave --instanceid out"
        yield warning(f"the controller takes only {takes}: it would pass over the run", do)


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


def executor_settings(cluster: Cluster) -> Body:
    """What the controller gives to Argo's own containers; empty where its settings cannot be seen."""
    found: Body = (controller_config(cluster) or {}).get("executor") or {}
    return found


CHECKS = [
    Check("argo", "controller", controller),
    Check("argo", "controller-settings", settings),
]
