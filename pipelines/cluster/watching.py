"""Following a workflow to its end: what changes as it changes, and the verdict as the exit code."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from pipelines.cluster.api import WorkflowApi
from pipelines.cluster.following import Follower, PodLine, Source
from pipelines.cluster.snapshots import Sleep
from pipelines.cluster.stages import FAILED, Attempt, StageRun, WorkflowRun
from pipelines.cluster.verdict import verdict_of
from pipelines.progress import STEP, Display, LiveDisplay, display_for, parse_progress
from trainer.errors import ExitCode, InputError

# Of a trainer's lines without progress, what a person who only watches should know.
TOLD = ("resumed from step ", "warning: ")
Clock = Callable[[], datetime]


def follow(
    api: WorkflowApi,
    name: str,
    stdout: TextIO,
    stderr: TextIO,
    sleep: Sleep = time.sleep,
    *,
    flags: str = "",
    answered: bool = False,
) -> int:
    """Show the workflow until it has ended; the last line on stdout is its verdict.

    A live table where both streams are terminals, else a line on stderr for each change. A server that goes
    away is waited for. Returns the exit code of `verdict_of`, or 75 after Ctrl-C, which leaves the workflow
    alone. flags: of the connection, for the command to go on with. answered: as of
    `Follower`.
    Raises InputError where there is none of that name, or it is deleted meanwhile.
    """
    display = display_for(stdout, stderr)
    changes = Changes(display)
    try:
        for event in Follower(api, name, running_attempts, sleep=sleep, answered=answered).events():
            if isinstance(event, PodLine):
                changes.line(event.source, event.line.text)
            elif isinstance(event, WorkflowRun):
                changes.update(event)
            elif event.source is None:
                display.note("walkforward", event.text)
    except KeyboardInterrupt:
        display.close()
        again = f"walkforward status {name} --watch -n {api.namespace}{flags}"
        stderr.write(f"\n{name} goes on; follow it again with: {again}\n")
        return int(ExitCode.INTERRUPTED)
    except BaseException:
        display.close()
        raise
    display.close()
    return _finish(changes, name, stdout)


def _finish(changes: "Changes", name: str, stdout: TextIO) -> int:
    verdict = verdict_of(changes.run) if changes.run is not None else None
    if verdict is None:  # the events end with an ended workflow only
        raise InputError("its end was not seen", where=name, do="see walkforward status")
    stdout.write(f"verdict: {verdict.line}\n")
    stdout.flush()
    return verdict.exit_code


def running_attempts(run: WorkflowRun) -> list[Source]:
    """What to read for progress: the newest attempt of each stage that runs."""
    return [
        Source(stage, stage.last)
        for stage in run.stages
        if not stage.ended and stage.last is not None and not stage.last.ended
    ]


class Changes:
    """Tells a display what is new in each snapshot, and the progress that the logs report."""

    def __init__(self, display: Display, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.run: WorkflowRun | None = None
        self._display, self._clock = display, clock
        self._said: dict[str, tuple[str, int, str]] = {}
        self._ended_attempts: set[str] = set()
        self._steps: dict[str, int] = {}
        self._logged: set[str] = set()

    def update(self, run: WorkflowRun) -> None:
        """Compare with the last snapshot and tell what changed."""
        if self.run is None:
            self._display.note("walkforward", f"workflow {run.name}, run id {run.run_id or 'not known yet'}")
        self.run = run
        for stage in run.stages:
            for attempt in stage.attempts:
                self._attempt(stage, attempt)
            self._stage(stage)
            if stage.last is not None and not stage.ended:
                self._argo_progress(stage.label, stage.last)

    def line(self, source: Source, text: str) -> None:
        """A line of a running stage: shown are progress, what it resumed from, and warnings."""
        progress, label = parse_progress(text), source.stage.label
        if progress is None:
            if text.startswith(TOLD):
                self._display.note(label, text)
            return
        self._logged.add(source.attempt.pod)
        if STEP.match(text) and not self._further(label, progress.done, progress.total):
            return
        self._display.line(label, text)

    def _attempt(self, stage: StageRun, attempt: Attempt) -> None:
        """An attempt that failed and has a successor; the last one is told with its stage."""
        if attempt.phase not in FAILED or attempt.pod in self._ended_attempts:
            return
        self._ended_attempts.add(attempt.pod)
        if not (stage.ended and attempt is stage.last):
            why = (
                f"attempt {attempt.number} failed{_code(attempt)}: {attempt.message or 'no reason is known'}"
            )
            self._display.note(stage.label, why)

    def _stage(self, stage: StageRun) -> None:
        number = stage.last.number if stage.last else 0
        state, reason = stage.state, stage.reason
        told, self._said[stage.label] = self._said.get(stage.label), (state, number, reason)
        if told == self._said[stage.label]:
            return
        if stage.ended:
            # The pods of a stage that is done took no notice of what it once waited for.
            if told is None or told[0] != state:
                self._display.ended(stage.label, _end(stage), stage.seconds(self._clock()))
        elif state == "running":
            if told is None or told[:2] != (state, number):
                self._display.started(stage.label, self._ago_s(stage.last))
        elif reason:
            self._display.waiting(stage.label, reason)

    def _argo_progress(self, label: str, attempt: Attempt) -> None:
        """What the pod told Argo: late, but there when its log cannot be read. 0/1 counts pods, not steps."""
        done, total = attempt.progress or (0, 0)
        if attempt.pod not in self._logged and total > 1 and done > 0 and self._further(label, done, total):
            self._display.line(label, f"progress {done}/{total}")

    def _further(self, label: str, done: int, total: int) -> bool:
        """Whether this is news: every step in a table, each tenth of the way in plain lines.

        An attempt that resumed behind the last step shown is news too.
        """
        shown = self._steps.get(label, -1)
        live = isinstance(self._display, LiveDisplay)
        news = done != shown if live else 10 * done // max(1, total) != 10 * shown // max(1, total)
        if news or shown < 0:
            self._steps[label] = done
        return news or shown < 0

    def _ago_s(self, attempt: Attempt | None) -> float:
        if attempt is None or attempt.started is None:
            return 0.0
        return max(0.0, (self._clock() - attempt.started).total_seconds())


def _code(attempt: Attempt) -> str:
    return "" if attempt.exit_code is None else f" (exit {attempt.exit_code})"


def _end(stage: StageRun) -> str:
    """`done`, `failed (exit 2): ...`, `omitted: ...`, as the local runner says it."""
    # Argo's own words for a task that never ran begin with its state.
    said = stage.reason.removeprefix(f"{stage.state}: ")
    reason = f": {said}" if said else ""
    code = _code(stage.last) if stage.failed and stage.last is not None else ""
    return f"{stage.state}{code}{reason}"
