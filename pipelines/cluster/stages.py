"""A workflow as a person thinks of it: stages of the plan, each with its attempts. `nodes.py` reads them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from pipelines.plan import FOLD_STAGES, GATE
from trainer.errors import ExitCode

ENDED = ("Succeeded", "Failed", "Error", "Skipped", "Omitted")
FAILED = ("Failed", "Error")
# What a person reads for Argo's phases.
WORDS = {
    "": "waiting",
    "Pending": "waiting",
    "Running": "running",
    "Succeeded": "done",
    "Failed": "failed",
    "Error": "failed",
    "Skipped": "skipped",
    "Omitted": "omitted",
}
# A retry node says only why there is no further attempt; the attempt says what went wrong.
EMPTY_REASONS = ("No more retries left", "retryStrategy.expression evaluated to false")
ERRORED_TASK = re.compile(r"^task '\S+' errored: ")
VERDICT_CODES = (ExitCode.DONE, ExitCode.REJECTED, ExitCode.INCONCLUSIVE)


@dataclass(frozen=True)
class Attempt:
    """One pod of a stage.

    number: from 1, in the workflow (the trainer counts the starts of a run directory, over all workflows).
    phase: Argo's. progress: done and total as the pod reported them. resource_s: requested amount times
    seconds of each resource, known when the pod has ended.
    """

    number: int
    pod: str
    phase: str = "Pending"
    started: datetime | None = None
    finished: datetime | None = None
    exit_code: int | None = None
    message: str = ""
    progress: tuple[int, int] | None = None
    resource_s: Mapping[str, float] = field(default_factory=dict)
    node: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing of this pod can change any more."""
        return self.phase in ENDED


@dataclass(frozen=True)
class StageRun:
    """One stage of one fold (`fold` None: of the whole run); phase and message are Argo's.

    waits_for: why nothing runs, for a person; empty where something does or nothing will.
    """

    label: str
    stage: str
    fold: int | None
    phase: str
    message: str = ""
    attempts: tuple[Attempt, ...] = ()
    finished: datetime | None = None
    waits_for: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def ended(self) -> bool:
        """Whether no attempt runs or will follow."""
        return self.phase in ENDED

    @property
    def exit_code(self) -> int | None:
        """Of the newest attempt; None while it runs, or when its pod vanished."""
        return self.last.exit_code if self.last else None

    @property
    def gave_verdict(self) -> bool:
        """Whether this is a gate that judged: a rejection is an answer, not a failure."""
        return self.stage == GATE.name and self.ended and self.exit_code in VERDICT_CODES

    @property
    def failed(self) -> bool:
        """Whether the stage ended without doing its work."""
        return self.phase in FAILED and not self.gave_verdict

    @property
    def state(self) -> str:
        """`waiting`, `running`, `retrying`, `done`, `failed`, `skipped` or `omitted`."""
        if self.gave_verdict:
            return "done"
        if self.phase == "Running" and self.last is not None:
            if self.last.ended:
                return "retrying"
            return WORDS.get(self.last.phase, "running")
        return WORDS.get(self.phase, self.phase.lower())

    @property
    def error(self) -> str:
        """Why the controller gave the stage up, where that is not what its last attempt said."""
        if self.phase != "Error" or not self.attempts or self.message.startswith(EMPTY_REASONS):
            return ""
        return ERRORED_TASK.sub("", self.message)

    @property
    def reason(self) -> str:
        """One line: why it failed, did not run, or waits; empty when there is nothing to say."""
        if not self.ended:
            return self.waits_for
        if self.error:
            return self.error
        if self.failed and self.last is not None and self.last.message:
            return self.last.message
        return self.message if self.failed or self.phase in ("Skipped", "Omitted") else ""

    @property
    def started(self) -> datetime | None:
        """When the first attempt's pod was made."""
        return self.attempts[0].started if self.attempts else None

    def seconds(self, now: datetime) -> float | None:
        """From the first attempt on, pauses between attempts included; None before it."""
        if self.started is None:
            return None
        end = self.finished if self.ended and self.finished else now
        return max(0.0, (end - self.started).total_seconds())


@dataclass(frozen=True)
class WorkflowRun:
    """A whole workflow at one moment. stages: in the order of the plan, the expected ones too.

    folds: numbers of the folds that this workflow runs. gpus: of one training pod. run_dir: on the claim, as
    the pods see it; empty where the workflow does not say. stopped: someone asked it to end early.
    """

    name: str
    namespace: str
    run_id: str
    phase: str
    message: str
    created: datetime | None
    started: datetime | None
    finished: datetime | None
    stages: tuple[StageRun, ...]
    folds: tuple[int, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0
    run_dir: str = ""
    stopped: bool = False

    @property
    def ended(self) -> bool:
        """Whether the workflow, with its exit handler, has ended."""
        return self.phase in ("Succeeded", "Failed", "Error")

    @cached_property
    def num_folds_done(self) -> int:
        """Folds of which every stage succeeded."""
        names = {stage.name for stage in FOLD_STAGES}
        done = [
            (stage.fold, stage.stage)
            for stage in self.stages
            if stage.phase == "Succeeded" and stage.stage in names
        ]
        return sum(all((fold, name) in done for name in names) for fold in self.folds)

    def stage(self, name: str, fold: int | None = None) -> StageRun | None:
        """The stage of that name (and fold), if the workflow has or expects it."""
        return next((s for s in self.stages if s.stage == name and s.fold == fold), None)
