"""`walkforward logs`: what the pods of a workflow wrote, merged by time, and what they go on to write."""

import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Literal, TextIO

from pipelines.cluster.api import WorkflowApi
from pipelines.cluster.following import Follower, PodLine, Source
from pipelines.cluster.merging import SECOND_NS, LogLine, merged
from pipelines.cluster.nodes import EXECUTOR_LINE
from pipelines.cluster.podlogs import PodLog
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.snapshots import Alarm, Sleep
from pipelines.cluster.stages import StageRun, WorkflowRun
from pipelines.plan import TRAIN
from trainer.errors import ExitCode, InputError

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# Of the terminal's own sixteen, those that are readable on black and on white.
COLOURS = (36, 32, 35, 34, 33, 31)


@dataclass(frozen=True)
class LogOptions:
    """Which lines, and how.

    attempt: a number from 1; None: the newest of each stage. since_s: only lines of the last seconds.
    tail: only so many last lines of each attempt, before following.
    """

    follow: bool = False
    fold: int | None = None
    stage: str | None = None
    attempt: int | Literal["all"] | None = None
    since_s: float | None = None
    tail: int | None = None
    timestamps: bool = False

    def sources(self, run: WorkflowRun) -> list[Source]:
        """The attempts that are asked for and there, in the order of the plan."""
        found = []
        for stage in run.stages:
            if self.fold not in (None, stage.fold) or self.stage not in (None, stage.stage):
                continue
            attempts = stage.attempts[-1:] if self.attempt is None else stage.attempts
            wanted = [a for a in attempts if self.attempt in (None, "all", a.number)]
            found += [Source(stage, attempt) for attempt in wanted]
        return found


def seconds_of(text: str) -> float:
    """Seconds of `90s`, `10m`, `1h30m`, `2d`; InputError for other text."""
    if not re.fullmatch(r"(\d+[smhd])+", text):
        raise InputError(
            f"{text!r} is no duration", where="--since", do="write it like 90s, 10m, 1h30m or 2d"
        )
    return float(sum(int(count) * UNITS_S[unit] for count, unit in re.findall(r"(\d+)([smhd])", text)))


def show_logs(
    api: WorkflowApi,
    name: str,
    options: LogOptions,
    stdout: TextIO,
    stderr: TextIO,
    sleep: Sleep = time.sleep,
) -> int:
    """Write the lines to stdout, remarks to stderr; returns the exit code, 0.

    Raises InputError when nothing of what is asked for can be there, or all of it is gone.
    """
    run = workflow_run(api.workflow(name))
    _check(options, run)
    printer = _Printer(stdout, stderr, options.timestamps)
    sources = options.sources(run)
    since_ns = 0 if options.since_s is None else int((time.time() - options.since_s) * SECOND_NS)
    logs = {source.attempt.pod: PodLog(api, name, source.attempt.pod, since_ns) for source in sources}
    begun = [source for source in sources if source.attempt.phase != "Pending"]
    _history(run, begun, logs, options, since_ns, printer, sleep)
    if options.follow and not run.ended:
        _follow(api, run, options, logs, printer, sleep)
        return int(ExitCode.DONE)
    for source in sources:
        if source not in begun:
            printer.remark(
                source.label, "has not started: " + (source.stage.waits_for or "no reason is known")
            )
    if not sources:
        waits = next((stage.waits_for for stage in run.stages if stage.waits_for), "")
        printer.remark(name, "no pod was started" + (f"; {waits}" if waits else ""))
    return int(ExitCode.DONE)


def _check(options: LogOptions, run: WorkflowRun) -> None:
    """Refuse what this workflow will never have, rather than show nothing."""
    folds = {stage.fold for stage in run.stages} - {None}
    stages = list(dict.fromkeys(stage.stage for stage in run.stages))
    if options.fold is not None and folds and options.fold not in folds:
        do = f"its folds are {', '.join(map(str, sorted(f for f in folds if f is not None)))}"
        raise InputError(f"no fold {options.fold} in {run.name}", where="--fold", do=do)
    if options.stage is not None and stages and options.stage not in stages:
        raise InputError(
            f"no stage {options.stage} in {run.name}", where="--stage", do=f"its stages: {', '.join(stages)}"
        )
    numbered = isinstance(options.attempt, int) and not (options.follow and not run.ended)
    if numbered and not options.sources(run):
        do = "see walkforward status, or give --attempt all"
        raise InputError(f"no attempt {options.attempt} there", where="--attempt", do=do)


def _history(
    run: WorkflowRun,
    sources: list[Source],
    logs: dict[str, PodLog],
    options: LogOptions,
    since_ns: int,
    printer: "_Printer",
    sleep: Sleep,
) -> None:
    """What was written before now, of all sources by time."""
    alarm = Alarm(lambda text: printer.remark("", text))
    parts = []
    for source in sources:
        log = logs[source.attempt.pod]
        lines: Iterable[LogLine] = (
            line for line in log.read(alarm, sleep) if line.ns >= since_ns and _own(line)
        )
        began_ns = int(source.attempt.started.timestamp()) * SECOND_NS if source.attempt.started else 0
        parts.append(
            (source.label, began_ns, iter(lines if options.tail is None else _last(lines, options.tail)))
        )
    num_lines = 0
    for label, line in merged(parts):
        printer.line(label, line)
        num_lines += 1
    printer.flush()
    started = [source for source in sources if source.attempt.ended or not options.follow]
    gone = [source for source in started if logs[source.attempt.pod].gone]
    if gone and len(gone) == len(sources) and not num_lines and not options.follow:
        first = gone[0]
        raise InputError(_explained(run, first.stage, logs[first.attempt.pod].gone), where=first.label)
    for source in gone:
        printer.remark(source.label, _explained(run, source.stage, logs[source.attempt.pod].gone))


def _last(lines: Iterable[LogLine], count: int) -> Iterator[LogLine]:
    """Nothing is read before the first line is asked for."""
    yield from deque(lines, maxlen=count)


def _follow(
    api: WorkflowApi,
    run: WorkflowRun,
    options: LogOptions,
    logs: dict[str, PodLog],
    printer: "_Printer",
    sleep: Sleep,
) -> None:
    """Goes on behind the history; attempts that had ended by then are complete."""
    complete = {source.attempt.pod for source in options.sources(run) if source.attempt.ended}
    for log in logs.values():
        log.gone = ""  # a pod that had not started by then

    def select(now: WorkflowRun) -> list[Source]:
        return [source for source in options.sources(now) if source.attempt.pod not in complete]

    now = run
    for event in Follower(api, run.name, select, logs, sleep).events():
        if isinstance(event, PodLine):
            if not _own(event.line):
                continue
            printer.line(event.source.label, event.line)
            printer.flush()
        elif isinstance(event, WorkflowRun):
            now = event
        elif event.source is not None:
            printer.remark(event.source.label, _explained(now, event.source.stage, event.text))
        else:
            printer.remark("", event.text)
    printer.remark(now.name, f"ended: {now.phase}" + (f", {now.message}" if now.message else ""))


def _own(line: LogLine) -> bool:
    """Whether the stage wrote it, not Argo's executor beside it."""
    return not EXECUTOR_LINE.search(line.text)


def _explained(run: WorkflowRun, stage: StageRun, why: str) -> str:
    """Only training keeps its log on the claim too: a preempted pod's is the one that is missed."""
    if stage.stage != TRAIN.name or not run.run_dir:
        return why
    return f"{why}; on the claim: {run.run_dir}/fold{stage.fold}/logs/"


class _Printer:
    """Lines to stdout, `fold0 train/1 | text`, one colour a label on a terminal; remarks to stderr."""

    def __init__(self, stdout: TextIO, stderr: TextIO, timestamps: bool) -> None:
        self._stdout, self._stderr, self._timestamps = stdout, stderr, timestamps
        self._colours = cycle(COLOURS) if stdout.isatty() and not os.environ.get("NO_COLOR") else None
        self._prefixes: dict[str, str] = {}

    def line(self, label: str, line: LogLine) -> None:
        if label not in self._prefixes:
            self._prefixes[label] = (
                f"\x1b[{next(self._colours)}m{label} |\x1b[0m" if self._colours else f"{label} |"
            )
        time_text = f" {line.time}" if self._timestamps else ""
        self._stdout.write(f"{self._prefixes[label]}{time_text} {line.text}\n")

    def remark(self, label: str, text: str) -> None:
        self.flush()
        self._stderr.write(f"{label or 'walkforward'}: {text}\n")
        self._stderr.flush()

    def flush(self) -> None:
        self._stdout.flush()
