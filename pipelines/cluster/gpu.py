"""GPU time of a workflow: used, and wasted on steps that had to be trained again.

What an attempt trained is read from its log (`trainer/learn/journal.py`): where it resumed, which step it
reached, what it saved.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipelines.cluster.merging import SECOND_NS, LogLine
from pipelines.cluster.stages import Attempt
from pipelines.progress import STEP, Progress, parse_progress

GPU = "nvidia.com/gpu"
RESUMED = re.compile(r"^resumed from step (\d+) ")
SAVED = re.compile(r"^checkpoint saved: \S*checkpoint-(\d+)\.")
ALREADY = re.compile(r"^already trained: (\d+) steps")


@dataclass
class AttemptLog:
    """What an attempt's log says. Steps are counted over all attempts of the fold.

    first_ns: Unix time of its first line. began_at: the step it resumed from, 0 for none. reached: the last
    step that it is known to have trained. saved: the last checkpoint that it wrote, None for none.
    """

    first_ns: int | None = None
    began_at: int = 0
    reached: int = 0
    saved: int | None = None
    last: Progress | None = None

    def read(self, lines: Iterable[LogLine]) -> "AttemptLog":
        """Take in further lines."""
        for line in lines:
            self.first_ns = line.ns if self.first_ns is None else self.first_ns
            self._take(line.text)
        return self

    def _take(self, text: str) -> None:
        if (progress := parse_progress(text)) is not None:
            self.last = progress
            self.reached = max(self.reached, progress.done) if STEP.match(text) else self.reached
        elif found := RESUMED.match(text) or ALREADY.match(text):
            self.began_at = int(found[1])
            self.reached = max(self.reached, self.began_at)
        elif found := SAVED.match(text):
            self.saved = int(found[1])
            self.reached = max(self.reached, self.saved)


@dataclass(frozen=True)
class GpuTime:
    """Seconds times GPUs; wasted_s None where the logs that would say are gone."""

    used_s: float = 0.0
    wasted_s: float | None = 0.0

    def __add__(self, other: "GpuTime") -> "GpuTime":
        known = self.wasted_s is not None and other.wasted_s is not None
        wasted_s = (self.wasted_s or 0.0) + (other.wasted_s or 0.0) if known else None
        return GpuTime(self.used_s + other.used_s, wasted_s)


def gpu_time(
    attempts: Sequence[Attempt], logs: Sequence[AttemptLog | None], gpus: int, now: datetime
) -> GpuTime:
    """Of one fold's training. logs: of each attempt, None where it is gone; gpus: of its pod.

    An attempt that did not succeed wasted the share of its steps that the next one did not go on from; one
    that trained none wasted all. Waiting for a GPU is no use of it.
    """
    total = GpuTime()
    for i, (attempt, log) in enumerate(zip(attempts, logs, strict=True)):
        used_s = _used_s(attempt, log, gpus, now)
        if attempt.phase == "Succeeded" or not attempt.ended:
            total += GpuTime(used_s)
        else:
            share = _wasted_share(log, logs[i + 1 :])
            total += GpuTime(used_s, 0.0 if not used_s else None if share is None else used_s * share)
    return total


def _used_s(attempt: Attempt, log: AttemptLog | None, gpus: int, now: datetime) -> float:
    """From Argo's own account once the pod has ended, else from its first line, else from its making."""
    if GPU in attempt.resource_s:
        return attempt.resource_s[GPU]
    if attempt.started is None or attempt.phase == "Pending":
        return 0.0
    began_s = attempt.started.timestamp()
    if log is not None and log.first_ns is not None:
        began_s = max(began_s, log.first_ns / SECOND_NS)
    return gpus * max(0.0, (attempt.finished or now).timestamp() - began_s)


def _wasted_share(log: AttemptLog | None, later: Sequence[AttemptLog | None]) -> float | None:
    """Share of an attempt's steps that were lost; None where that is not known."""
    if log is None:
        return None
    trained = log.reached - log.began_at
    if trained <= 0:
        return 1.0
    # An attempt that never came to the trainer (no line) resumed nothing: the one after it did.
    begun = [item for item in later if item is None or item.first_ns is not None]
    if begun and begun[0] is None:
        return None
    kept = begun[0].began_at if begun and begun[0] is not None else (log.saved or 0)
    return min(1.0, max(0.0, (log.reached - kept) / trained))
