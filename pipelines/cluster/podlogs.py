"""The log of one pod, whole or as it grows, each line exactly once however often the stream breaks."""

import time
from collections.abc import Callable, Iterator

from pipelines.cluster.api import UnreachableError, WorkflowApi
from pipelines.cluster.merging import LogLine, Seen, log_line
from pipelines.cluster.snapshots import PAUSE_S, Alarm, Outage, Sleep
from trainer.errors import InputError

# Two minutes: longer than a server takes to restart. What is on a lost node may never be readable.
PATIENT_TRIES = 12
QUIET_PAUSE_S = 5.0
# A stream that lasted so long was connected: its end is no second failure in a row.
CONNECTED_S = 20.0
NEVER_STARTED = "no log: its main container did not start"


class PodLog:
    """One pod's log. Several calls of `read` and `follow` go on where the last one ended.

    gone: why the log cannot be read (any more); empty while it can.
    """

    def __init__(self, api: WorkflowApi, workflow: str, pod: str, since_ns: int = 0) -> None:
        self.seen = Seen(since_ns)
        self.gone = ""
        self._api, self._workflow, self._pod = api, workflow, pod

    def read(self, alarm: Alarm, sleep: Sleep = time.sleep, tries: int = PATIENT_TRIES) -> Iterator[LogLine]:
        """What is there now; nothing, with `gone` set, where the pod has no log."""
        outage = Outage(alarm, sleep)
        while not self.gone:
            try:
                yield from self._answer(follow=False)
                outage.passed()
                return
            except UnreachableError as error:
                if outage.failures + 1 >= tries:
                    outage.passed(answered=False)
                    self.gone = str(error)
                else:
                    outage.failed(error)
            except InputError as error:
                outage.passed()
                self.gone = NEVER_STARTED if "is waiting to start" in error.what else str(error)

    def follow(self, ended: Callable[[], bool], alarm: Alarm, sleep: Sleep = time.sleep) -> Iterator[LogLine]:
        """Lines as they come, until the pod has ended and its last line was read.

        A pod that has not started is waited for. A stream that ends says nothing about the pod (the kubelet
        restarts, the API server restarts): `ended` does.
        """
        outage, pause_s = Outage(alarm, sleep), PAUSE_S
        while not ended():
            opened_s = time.monotonic()
            try:
                for line in self._answer(follow=True):
                    outage.passed()
                    pause_s = PAUSE_S
                    yield line
            except UnreachableError as error:
                if time.monotonic() - opened_s > CONNECTED_S:
                    outage.passed()
                outage.failed(error)
                continue
            except InputError:  # not there yet, or no longer: the workflow says which
                pass
            sleep(pause_s)
            pause_s = min(2 * pause_s, QUIET_PAUSE_S)
        outage.passed(answered=False)
        # It wrote nothing after its end, so what is there now is all.
        yield from self.read(alarm, sleep)

    def _answer(self, *, follow: bool) -> Iterator[LogLine]:
        raw = self._api.pod_log(self._workflow, self._pod, since_time=self.seen.since_time, follow=follow)
        num_lines, said = 0, ""

        def lines() -> Iterator[LogLine]:
            nonlocal num_lines, said
            for text in raw:
                line = log_line(text)
                if line is None:
                    said = said or text
                else:
                    num_lines += 1
                    yield line

        yield from self.seen.new(lines())
        if said and not num_lines:  # the kubelet's own words: the container's log file is not there
            raise InputError(said, where=self._pod)
