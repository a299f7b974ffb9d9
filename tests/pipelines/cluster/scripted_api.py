"""A cluster that plays its part line by line: what each watch and each read of a log answers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipelines.cluster.api import AbsentError, UnreachableError
from pipelines.cluster.merging import time_ns

UNREACHABLE = UnreachableError("cannot connect: connection refused", where="https://api", do="try again")


def stamped(seconds: float, text: str) -> str:
    """A line as the kubelet sends it, so many seconds after 03:00."""
    minutes, rest = divmod(seconds, 60)
    return f"2026-11-30T03:{int(minutes):02d}:{rest:012.9f}Z {text}"


class ScriptedApi:
    """watches: what each call of watch_workflow gives, in order; an exception is raised there.

    logs: lines of each pod; a callable gives the answer to (since_time, follow) itself. A pod that is not
    there is absent.
    """

    namespace, address = "argo", "https://api"

    def __init__(
        self,
        watches: Sequence[Sequence[dict[str, Any] | Exception]] = (),
        logs: dict[str, list[str] | Callable[[str | None, bool], Iterator[str]]] | None = None,
        listed: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.watches, self.logs, self.listed = list(watches), logs or {}, list(listed)
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Notes the pause and does not make it."""
        self.naps.append(seconds)

    def workflow(self, name: str) -> dict[str, Any]:
        return next(item for watch in self.watches for item in watch if isinstance(item, dict))

    def workflows(self, selector: str = "") -> list[dict[str, Any]]:
        return self.listed

    def watch_workflow(self, name: str) -> Iterator[dict[str, Any]]:
        for item in self.watches.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item

    def pod_log(
        self, workflow: str, pod: str, *, since_time: str | None = None, follow: bool = False
    ) -> Iterator[str]:
        found = self.logs.get(pod)
        if found is None:
            raise AbsentError(f"no log of pod {pod}", where="cluster", do="its pod was deleted")
        if callable(found):
            yield from found(since_time, follow)
            return
        yield from since(found, since_time)

    def create_workflow(self, body: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        raise NotImplementedError

    def stop_workflow(self, name: str) -> None:
        raise NotImplementedError

    def template(self, name: str) -> dict[str, Any]:
        raise NotImplementedError


def since(lines: Sequence[str], since_time: str | None) -> list[str]:
    """The lines from the whole second on: the API server cuts the fraction off."""
    if since_time is None:
        return list(lines)
    from_ns = (time_ns(since_time) or 0) // 10**9 * 10**9
    return [line for line in lines if (time_ns(line.split(" ")[0]) or 0) >= from_ns]
