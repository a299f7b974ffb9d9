"""The cluster as the checks see it: every object is read once, however many checks ask for it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pipelines.cluster.api import AbsentError, Body, DeniedError
from pipelines.cluster.doctor.demand import Demand
from pipelines.cluster.doctor.node import Node
from pipelines.cluster.doctor.reader import HiddenError, Reader
from pipelines.settings import ChartValues

T = TypeVar("T")
TEMPLATES = "/apis/argoproj.io/v1alpha1/namespaces/{}/workflowtemplates"
# More nodes than this are not looked at; the lines then speak of the first ones.
MOST_NODES = "500"


@dataclass(frozen=True)
class Asked:
    """What the user asked for: template, chart values (None: those of the installed template), parameters.

    instance_id: of the controller that is meant, empty for one without.
    """

    template: str = "walkforward"
    values: ChartValues | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    instance_id: str = ""


class Cluster:
    """One namespace of one cluster, read through `reader`; safe to share between threads."""

    def __init__(self, reader: Reader, namespace: str, asked: Asked, render: Callable[[ChartValues], Body]):
        self.namespace = namespace
        self.asked = asked
        self._reader = reader
        self._render = render
        self._answers: dict[Any, Future[Any]] = {}
        self._lock = threading.Lock()

    def get(self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False) -> Body:
        """The object at a path; raises as `Reader.get`."""
        key = (path, tuple(sorted((params or {}).items())), metadata_only)
        return self._once(key, lambda: self._reader.get(path, params, metadata_only=metadata_only))

    def items(self, path: str, params: Mapping[str, str] | None = None) -> list[Body]:
        """Objects of a list; raises as `Reader.get`."""
        found: list[Body] = self.get(path, params).get("items") or []
        return found

    def own(self, resource: str) -> str:
        """Path of the namespace's objects of a core resource."""
        return f"/api/v1/namespaces/{self.namespace}/{resource}"

    def exists(self, path: str) -> bool:
        """Whether the object is there; DeniedError where it may not be read."""
        try:
            self.get(path, metadata_only=True)
        except AbsentError:
            return False
        return True

    def seen(
        self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False
    ) -> Body | None:
        """The object, or None where it is absent or may not be read: for evidence that others can replace."""
        try:
            return self.get(path, params, metadata_only=metadata_only)
        except (AbsentError, DeniedError, HiddenError):
            return None

    def reviews(self, path: str, bodies: Sequence[Body]) -> list[Body]:
        """Answers to questions about access, asked at the same time."""
        if not bodies:
            return []
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda body: self._reader.review(path, body), bodies))

    def installed(self) -> Body:
        """The WorkflowTemplate of the namespace; AbsentError where there is none."""
        return self.get(f"{TEMPLATES.format(self.namespace)}/{self.asked.template}")

    def rendered(self, values: ChartValues) -> Body:
        """The template that this code makes of the values, parsed."""
        return self._once(("rendered", values.model_dump_json()), lambda: self._render(values))

    def demand(self) -> Demand:
        """What a run needs: of the installed template, of a fresh one where none is installed or seen."""
        try:
            body = self.installed()
        except (AbsentError, DeniedError):
            chosen = self.asked.values or ChartValues(namespace=self.namespace)
            body = self.rendered(chosen)
        return Demand(body, self.asked.parameters)

    def nodes(self) -> list[Node]:
        """All nodes of the cluster; DeniedError where they may not be listed."""
        return [Node(body) for body in self.items("/api/v1/nodes", {"limit": MOST_NODES})]

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        with self._lock:
            future = self._answers.get(key)
            mine = future is None
            if future is None:
                future = self._answers[key] = Future()
        if mine:
            try:
                future.set_result(make())
            except BaseException as failure:
                future.set_exception(failure)
        result: T = future.result()
        return result
