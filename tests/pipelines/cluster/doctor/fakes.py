"""A healthy cluster of JSON objects by path, for tests that break one thing of it at a time."""

import copy
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import yaml

from pipelines.cluster.api import AbsentError, Body, DeniedError
from pipelines.cluster.doctor.cluster import Asked, Cluster
from pipelines.cluster.doctor.reader import what_is_read
from pipelines.cluster.doctor.result import Level, Result
from pipelines.golden import GOLDEN_DIR

NAMESPACE = "argo"
POOL = {"k8s.scaleway.com/pool-name": "ci-training-h100"}
ARGO = "/apis/argoproj.io"
TEMPLATE = f"{ARGO}/v1alpha1/namespaces/{NAMESPACE}/workflowtemplates/walkforward"
WORKFLOWS = f"{ARGO}/v1alpha1/namespaces/{NAMESPACE}/workflows"
OWN = f"/api/v1/namespaces/{NAMESPACE}"
SCHEMAS = "/openapi/v3/apis/argoproj.io/v1alpha1"


class FakeReader:
    """Answers from `objects`; a list that is not there is empty, an object that is not there is absent."""

    def __init__(self) -> None:
        self.objects: dict[str, Body] = {}
        self.denied: set[str] = set()
        self.failures: dict[str, Exception] = {}
        self.user_lacks: set[str] = set()
        self.account_has: set[str] = set()
        self.asked: list[tuple[str, bool]] = []
        self.calls: list[tuple[str, str, bool]] = []

    def get(self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False) -> Body:
        self.asked.append((path, metadata_only))
        self.calls.append((path, str(params), metadata_only))
        verb, resource, _ = what_is_read(path)
        if path in self.denied or resource in self.denied:
            raise DeniedError(f"not allowed to {verb} {resource}")
        if path in self.failures:
            raise self.failures[path]
        if path in self.objects:
            return _selected(copy.deepcopy(self.objects[path]), (params or {}).get("labelSelector"))
        if verb == "list":
            inside = [key for key in sorted(self.objects) if key.rpartition("/")[0] == path]
            return {"items": [copy.deepcopy(self.objects[key]) for key in inside]}
        raise AbsentError(f"no {path}")

    def review(self, path: str, body: Body) -> Body:
        if path in self.denied:
            raise DeniedError(f"not allowed to create {path.rpartition('/')[2]}")
        wanted = body["spec"]["resourceAttributes"]
        assert wanted["namespace"] == NAMESPACE
        sub = f"/{wanted['subresource']}" if "subresource" in wanted else ""
        words = f"{wanted['verb']} {wanted['resource']}{sub}"
        if "user" in body["spec"]:
            return {"status": {"allowed": words in self.account_has}}
        return {"status": {"allowed": words not in self.user_lacks}}

    def date(self) -> str:
        return ""


def _selected(body: Body, selector: str | None) -> Body:
    """A list without the items that a label selector `key=value` leaves out."""
    if selector:
        key, _, value = selector.partition("=")
        labels = [each["metadata"].get("labels") or {} for each in body["items"]]
        body["items"] = [
            each for each, own in zip(body["items"], labels, strict=True) if own.get(key) == value
        ]
    return body


def golden() -> Body:
    """The template as this code renders it by default."""
    return copy.deepcopy(_golden())


@cache
def _golden() -> Body:
    text = (GOLDEN_DIR / "walkforward.yaml").read_text(encoding="utf-8")
    body: Body = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return body


def node(name: str, *, gpus: int = 0, labels: Mapping[str, str] | None = None, memory: str = "64Gi") -> Body:
    """A ready node of 16 CPUs that has the image."""
    allocatable: dict[str, str] = {"cpu": "16", "memory": memory}
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": ["docker.io/library/alpha-rl:main"]}],
            "nodeInfo": {"architecture": "amd64"},
        },
    }


def gpu_node(name: str, gpus: int = 4) -> Body:
    """A node of the pool, with the usual taint."""
    body = node(name, gpus=gpus, labels=POOL)
    body["spec"]["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    return body


def claim(name: str, *modes: str, phase: str = "Bound") -> Body:
    """A bound claim of 100Gi."""
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": list(modes), "storageClassName": "files", "volumeName": f"pv-{name}"},
        "status": {"phase": phase, "accessModes": list(modes), "capacity": {"storage": "100Gi"}},
    }


def controller_pod(image: str = "quay.io/argoproj/workflow-controller:v4.0.5", *args: str) -> Body:
    """The controller's pod, ready."""
    return {
        "metadata": {
            "name": "workflow-controller-1",
            "namespace": "argo",
            "labels": {"app": "workflow-controller"},
        },
        "spec": {"containers": [{"image": image, "args": list(args)}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def ago(seconds: float) -> str:
    """A time as Kubernetes writes it."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def schema_of(value: Any) -> Body:
    """A structural schema that knows exactly the fields of a document."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(inner) for key, inner in value.items()}}
    if isinstance(value, list):
        merged: Body = {}
        for each in value:
            merged = _merged(merged, schema_of(each))
        return {"type": "array", "items": merged}
    return {"type": "string"}


def _merged(one: Body, other: Body) -> Body:
    if "items" in one and "items" in other:
        return {**one, "items": _merged(one["items"], other["items"])}
    mine, theirs = one.get("properties") or {}, other.get("properties") or {}
    if not (mine or theirs):
        return one or other
    both = {key: _merged(mine.get(key, {}), theirs.get(key, {})) for key in {**mine, **theirs}}
    return {"type": "object", "properties": both}


def healthy() -> FakeReader:
    """Nothing to complain about, for the default template in namespace `argo`."""
    reader = FakeReader()
    resources = ("workflows", "workflowtemplates", "workflowtaskresults", "cronworkflows")
    schema = {"properties": {"spec": schema_of(golden()["spec"])}}
    reader.objects = {
        "/version": {"gitVersion": "v1.34.0"},
        ARGO: {"versions": [{"version": "v1alpha1"}]},
        f"{ARGO}/v1alpha1": {"resources": [{"name": name} for name in resources]},
        SCHEMAS: {"components": {"schemas": {"io.argoproj.v1alpha1.WorkflowTemplate": schema}}},
        TEMPLATE: golden(),
        "/api/v1/nodes/cpu-1": node("cpu-1"),
        "/api/v1/nodes/gpu-1": gpu_node("gpu-1"),
        f"/api/v1/namespaces/{NAMESPACE}": {
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
            "status": {"phase": "Active"},
        },
        f"{OWN}/persistentvolumeclaims/feature-cache": claim("feature-cache", "ReadWriteMany"),
        f"{OWN}/persistentvolumeclaims/market-data": claim("market-data", "ReadOnlyMany"),
        f"{OWN}/serviceaccounts/walkforward": {"metadata": {"name": "walkforward"}},
        f"{OWN}/configmaps/walkforward-semaphores": {
            "metadata": {"name": "walkforward-semaphores"},
            "data": {"gpu-pool": "4"},
        },
        f"{OWN}/configmaps/workflow-controller-configmap": {"data": {}},
        "/api/v1/pods": {"items": [controller_pod()]},
    }
    reader.account_has = {"create workflowtaskresults", "patch workflowtaskresults"}
    return reader


def cluster_of(reader: FakeReader, **asked: Any) -> Cluster:
    """The cluster as the checks get it; every render gives the golden template."""
    return Cluster(reader, NAMESPACE, Asked(**asked), lambda values: golden())


def look(check: Callable[[Cluster], Iterable[Result]], reader: FakeReader, **asked: Any) -> list[Result]:
    """What a check says of a cluster."""
    return list(check(cluster_of(reader, **asked)))


def texts(results: Iterable[Result], level: str) -> list[str]:
    """What the results of a level say, each with what to do."""
    return [f"{result.what} -> {result.do}" for result in results if result.level is Level(level)]


def only(results: Iterable[Result], level: str) -> str:
    """The one result of a level; none of a worse level is there."""
    found = list(results)
    worse = list(Level)[list(Level).index(Level(level)) + 1 :]
    assert not [result for result in found if result.level in worse], found
    (text,) = texts(found, level)
    return text
