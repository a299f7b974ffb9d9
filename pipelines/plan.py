"""The plan of a walk-forward run, defined once: prepare -> per fold (train -> evaluate) -> gate.

The local runner executes it and the Argo workflow is rendered from it, so both run the same commands in the
same order under the same exit-code and retry rules (design page PIPELINE.md, "Shape" and "Retry and resume").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainer.errors import ExitCode

Resources = Literal["small", "cpu", "gpu"]
# end: after the workflow, in its exit handler, which Argo gives no inputs.
Scope = Literal["run", "fold", "end"]

# A second attempt of these gives the same answer: bad input, a verdict, repeated crashes, a mismatch.
NEVER_RETRIED = (
    ExitCode.BAD_INPUT,
    ExitCode.REJECTED,
    ExitCode.INCONCLUSIVE,
    ExitCode.CRASHED_TOO_OFTEN,
    ExitCode.MISMATCH,
)


@dataclass(frozen=True)
class RetryRule:
    """How often and after what pause a failed attempt is repeated.

    limit: further attempts after the first. backoff_s, factor, cap_s: the n-th pause is
    min(backoff_s * factor^n, cap_s) seconds. There is no total duration: Argo's counts from the first attempt
    and would end a long run that is preempted late.
    """

    limit: int
    backoff_s: int = 10
    factor: int = 2
    cap_s: int = 300
    never: tuple[int, ...] = tuple(int(code) for code in NEVER_RETRIED)
    # Exit code 1 is an unhandled exception: twice is bad luck. Argo cannot count attempts by their code, so
    # there the trainer counts crashes without progress itself and exits 70.
    max_crashes: int = 2

    def allows(self, code: int, attempts: int, crashes: int) -> bool:
        """Whether another attempt follows `attempts` finished ones, `crashes` of them with exit code 1."""
        if code == ExitCode.DONE or code in self.never or attempts > self.limit:
            return False
        return code != 1 or crashes <= self.max_crashes

    def pause_s(self, attempts: int) -> float:
        """Seconds to wait after the given number of finished attempts."""
        return float(min(self.backoff_s * self.factor ** max(0, attempts - 1), self.cap_s))


@dataclass(frozen=True)
class Stage:
    """One command of the plan.

    needs: stages that must have succeeded (the gate runs after them whatever their end).
    options: long options of `python -m trainer <name>` that this stage passes when they have a value.
    deadline_s: seconds one attempt may take.
    """

    name: str
    scope: Scope
    needs: tuple[str, ...]
    options: tuple[str, ...]
    retry: RetryRule
    deadline_s: int
    resources: Resources = "cpu"

    def argv(self, values: Mapping[str, str]) -> list[str]:
        """The trainer's arguments: `[name, "--run-dir", DIR, ...]`; options without a value are left out."""
        words = [self.name]
        for option in self.options:
            if option in values:
                words += [f"--{option}", values[option]]
        return words

    def marker(self, fold_idx: int | None) -> str:
        """Path of the completion marker inside the run directory."""
        return f"{fold_prefix(self, fold_idx)}{self.name}.DONE.json"

    def label(self, fold_idx: int | None) -> str:
        """What a person reads: `prepare`, `fold0 train`."""
        return f"fold{fold_idx} {self.name}" if self.scope == "fold" else self.name


def fold_prefix(stage: Stage, fold_idx: int | None) -> str:
    """`fold<k>/` for a stage of one fold, empty for a stage of the run."""
    if stage.scope != "fold":
        return ""
    if fold_idx is None:
        raise ValueError(f"stage {stage.name} belongs to a fold")
    return f"fold{fold_idx}/"


PREPARE = Stage(
    name="prepare",
    scope="run",
    needs=(),
    options=(
        "run-dir",
        "preset",
        "config",
        "market",
        "mbp10-data-dir",
        "trades-data-dir",
        "folds",
        "n-steps",
        "n-backtests",
        "per-capacity",
        "checkpoint-every",
        "seed",
        "instrument",
        "cache-dir",
        "mirror",
    ),
    retry=RetryRule(limit=3),
    deadline_s=2 * 3600,
)
TRAIN = Stage(
    name="train",
    scope="fold",
    needs=("prepare",),
    options=("run-dir", "fold-idx", "n-steps", "checkpoint-every", "device", "mirror"),
    retry=RetryRule(limit=10),
    deadline_s=6 * 3600,
    resources="gpu",
)
EVALUATE = Stage(
    name="evaluate",
    scope="fold",
    needs=("train",),
    options=("run-dir", "fold-idx", "device", "mirror"),
    retry=RetryRule(limit=3),
    deadline_s=2 * 3600,
)
GATE = Stage(
    name="gate",
    scope="run",
    needs=("evaluate",),
    options=("run-dir", "mirror"),
    retry=RetryRule(limit=3),
    deadline_s=15 * 60,
    resources="small",
)
# After the end, whatever it was; only an orchestrator has it to say (Argo's exit handler).
FINISH = Stage(
    name="finish",
    scope="end",
    needs=(),
    options=("run-dir", "workflow", "status", "failures"),
    retry=RetryRule(limit=3),
    deadline_s=15 * 60,
    resources="small",
)
STAGES = (PREPARE, TRAIN, EVALUATE, GATE)
FOLD_STAGES = tuple(stage for stage in STAGES if stage.scope == "fold")
