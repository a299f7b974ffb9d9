"""A workflow as it changes, across dropped watches and restarts of the API server."""

import threading
import time
from collections.abc import Callable, Iterator

from pipelines.cluster.api import UnreachableError, WorkflowApi
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.stages import WorkflowRun

# A watch that ends at once, again and again, must not become a loop of requests.
PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0
Sleep = Callable[[float], None]


class Alarm:
    """One line when the server is gone and one when it is back, however many threads notice."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._lock, self._since_s = note, threading.Lock(), 0.0

    def down(self, error: UnreachableError) -> None:
        """A caller failed again and again."""
        with self._lock:
            if not self._since_s:
                self._since_s = time.monotonic()
                self._note(f"{error.where}: {error.what}; trying again until it answers")

    def up(self, *, answered: bool = True) -> None:
        """A caller that had failed got an answer, or (answered False) asks no more."""
        with self._lock:
            if self._since_s and answered:
                self._note(f"connected again after {time.monotonic() - self._since_s:.0f} s")
            self._since_s = 0.0


class Outage:
    """Pauses of one caller between its tries, longer each time.

    A single failure is not worth a word: a stream breaks whenever a server restarts or nothing was said.
    """

    def __init__(self, alarm: Alarm, sleep: Sleep = time.sleep) -> None:
        self._alarm, self._sleep, self.failures = alarm, sleep, 0

    def failed(self, error: UnreachableError) -> None:
        """Wait before the next try."""
        self.failures += 1
        if self.failures == 2:
            self._alarm.down(error)
        self._sleep(min(PAUSE_S * 2 ** (self.failures - 1), LONGEST_PAUSE_S))

    def passed(self, *, answered: bool = True) -> None:
        """The server answered, or (answered False) is not asked any more."""
        if self.failures >= 2:
            self._alarm.up(answered=answered)
        self.failures = 0


def snapshots(
    api: WorkflowApi, name: str, alarm: Alarm, sleep: Sleep = time.sleep, *, known: bool = False
) -> Iterator[WorkflowRun]:
    """The workflow now and after each change, the last time when it has ended.

    Raises InputError where there is none of that name, or no longer; UnreachableError only when the server
    cannot be reached at the very first: a wrong address should not be tried for ever. known: it answered
    before, so that is not the reason.
    """
    outage, last = Outage(alarm, sleep), None
    while True:
        try:
            for body in api.watch_workflow(name):
                known = True
                outage.passed()
                run = workflow_run(body)
                if run != last:
                    yield run
                last = run
                if run.ended:
                    return
            sleep(PAUSE_S)
        except UnreachableError as error:
            if not known:
                raise
            outage.failed(error)
