"""All logs of a running workflow at once: a thread a pod, one queue that the caller reads.

The queue is bounded: a reader that is slow (a pager, a full pipe) makes the threads wait, and through TCP the
servers. Threads are daemons: whoever stops reading may simply leave.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pipelines.cluster.api import WorkflowApi
from pipelines.cluster.merging import LogLine
from pipelines.cluster.podlogs import PodLog
from pipelines.cluster.snapshots import Alarm, Sleep, snapshots
from pipelines.cluster.stages import Attempt, StageRun, WorkflowRun

QUEUE_ITEMS = 1000
GAP = "lines may be missing here: the server began a new log file meanwhile"


@dataclass(frozen=True)
class Source:
    """One attempt of a stage."""

    stage: StageRun
    attempt: Attempt

    @property
    def label(self) -> str:
        """`fold0 train/1`."""
        return f"{self.stage.label}/{self.attempt.number}"


@dataclass(frozen=True)
class PodLine:
    """A line that a pod wrote."""

    source: Source
    line: LogLine


@dataclass(frozen=True)
class Remark:
    """Something to say that no pod wrote. source: whose log it is about; None for the connection."""

    source: Source | None
    text: str


Event = WorkflowRun | PodLine | Remark
Selection = Callable[[WorkflowRun], list[Source]]


class _StoppedError(Exception):
    """Nobody reads any more."""


class Follower:
    """What happens in a workflow from now on, as one stream of events.

    select: the attempts to read at a moment; an attempt once selected is read to its end. known: logs that
    were begun before, by pod. answered: the server did before, so its being away now will pass.
    """

    def __init__(
        self,
        api: WorkflowApi,
        name: str,
        select: Selection,
        known: Mapping[str, PodLog] | None = None,
        sleep: Sleep = time.sleep,
        *,
        answered: bool = False,
    ) -> None:
        self._answered = answered
        self._api, self._name, self._select, self._real_sleep = api, name, select, sleep
        self._known = dict(known or {})
        self._queue: queue.Queue[Event | Exception | None] = queue.Queue(QUEUE_ITEMS)
        self._threads: dict[str, threading.Thread] = {}
        self._ended: set[str] = set()
        self._stopped = threading.Event()
        self._alarm = Alarm(lambda text: self._put(Remark(None, text)))

    def events(self) -> Iterator[Event]:
        """Snapshots, lines and remarks until the workflow and all logs have ended.

        The last event is the last snapshot. Raises InputError as `snapshots`.
        """
        last = None
        try:
            self._start(self._watch)
            while (event := self._queue.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, WorkflowRun) and event.ended:
                    last = event
                else:
                    yield event
            if last is not None:
                yield last
        finally:
            self._stopped.set()

    def _start(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=self._guarded, args=(target, *args), daemon=True)
        thread.start()
        return thread

    def _guarded(self, target: Callable[..., None], *args: object) -> None:
        """An error in a thread ends the stream with it, rather than leaving the caller to wait for ever."""
        try:
            target(*args)
        except _StoppedError:
            pass
        except Exception as error:
            with contextlib.suppress(_StoppedError):
                self._put(error)

    def _watch(self) -> None:
        for run in snapshots(self._api, self._name, self._alarm, self._sleep, known=self._answered):
            attempts = [attempt for stage in run.stages for attempt in stage.attempts]
            # Of an ended workflow nothing goes on, whatever its nodes still say.
            self._ended |= {attempt.pod for attempt in attempts if attempt.ended or run.ended}
            self._put(run)
            for source in self._select(run):
                pod = source.attempt.pod
                if pod not in self._threads:
                    self._threads[pod] = self._start(self._read, source)
        for thread in self._threads.values():
            thread.join()
        self._put(None)

    def _read(self, source: Source) -> None:
        pod = source.attempt.pod
        log = self._known.get(pod) or PodLog(self._api, self._name, pod)
        for line in log.follow(lambda: pod in self._ended, self._alarm, self._sleep):
            if log.seen.gap:
                log.seen.gap = False
                self._put(Remark(source, GAP))
            self._put(PodLine(source, line))
        if log.gone:
            self._put(Remark(source, log.gone))

    def _put(self, event: Event | Exception | None) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(event, timeout=1.0)
                return
        raise _StoppedError

    def _sleep(self, seconds: float) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._real_sleep(seconds)
