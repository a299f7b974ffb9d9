"""`prepare`, `train`, `evaluate`, `gate` and `finish`: the commands that the stages of the plan run."""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cappa
from cappa import Arg

from trainer.arguments import Mirror, RunOptions, whole
from trainer.errors import ExitCode
from trainer.options import build_config

if TYPE_CHECKING:
    from trainer.learn.markers import Stage
    from trainer.learn.mirror import OnSaved


# Not frozen, as mypy allows `cappa.command` no frozen base.
@dataclass
class Common:
    """Options of every stage."""

    run_dir: Annotated[
        Path,
        Arg(long=["--run-dir", "--out"], help="Run directory; folds write to fold0/, fold1/, ... in it."),
    ]
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False


@dataclass
class Mirrored(Common):
    """Options of the stages that leave results."""

    mirror: Mirror = None

    def mirrored(self, stage: "Stage", fold: int | None = None) -> AbstractContextManager["OnSaved"]:
        """Around a stage: what the mirror has is there before it, what it makes is sent behind it."""
        from trainer.learn.mirror import mirror

        return mirror(self.mirror, self.run_dir, stage, fold, Progress())


@dataclass
class Prepared(RunOptions, Mirrored):
    """Of the stages that prepare, or can: what a run computes, and on which data."""

    cache_dir: Annotated[
        Path | None, Arg(long=True, help="Feature caches; cache/ beside RUN_DIR unless given.")
    ] = None
    log_every: Annotated[int | None, whole("Steps between log lines.")] = None

    def prepare(self) -> Any:
        """Prepares the run with these options; a run prepared the same way before is reused."""
        from trainer.learn.prepare import prepare

        config = build_config(self.preset, self.config, vars(self))
        cache_root = self.cache_dir or self.run_dir.parent / "cache"
        return prepare(config, self.run_dir, cache_root, Progress())

    def chooses_run(self) -> bool:
        """Whether an option that belongs to preparing was given."""
        names = ("config", "market", "mbp10_data_dir", "trades_data_dir", "folds", "instrument")
        more = ("n_backtests", "per_capacity", "seed")
        chosen = any(getattr(self, name) is not None for name in names + more)
        return chosen or self.preset != "default"


@cappa.command(
    name="prepare",
    help="Data to feature cache to windows.",
    description="Data to feature cache to windows.\n\nExample:\n\n"
    "    python -m trainer prepare --run-dir runs/es --mbp10-data-dir es.dbn.zst --folds 3\n",
)
@dataclass
class Prepare(Prepared):
    def execute(self) -> int:
        with self.mirrored("prepare"):
            run = self.prepare()
        sys.stdout.write(
            f"prepared: {len(run.folds)} folds, config {run.config_digest}, data {run.data_fingerprint}\n"
        )
        return int(ExitCode.DONE)


@cappa.command(
    name="train",
    help="Train one fold; resumes by itself.",
    description="Train one fold; resumes from its newest valid checkpoint by itself.\n\nExample:\n\n"
    "    python -m trainer train --run-dir runs/es --fold-idx 0 --n-steps 3000\n",
)
@dataclass
class Train(Prepared):
    fold_idx: Annotated[int, whole("Fold to train.")] = 0
    resume_from: Annotated[Path | None, Arg(long=True, help="Checkpoint to go on from.")] = None
    no_graph: Annotated[bool, Arg(long="--no-graph", help="No CUDA graph.")] = False
    no_compile: Annotated[bool, Arg(long="--no-compile", help="No torch.compile.")] = False

    def execute(self) -> int:
        from trainer.learn.loop import train

        with self.mirrored("train", self.fold_idx) as on_saved:
            train(self._run(), self.run_dir, self.fold_idx, sys.stdout, self.resume_from, on_saved)
        return int(ExitCode.DONE)

    def _run(self) -> Any:
        from trainer.learn.run import RUN_FILE, Run

        prepared = (self.run_dir / RUN_FILE).exists()
        run = self.prepare() if self.chooses_run() or not prepared else Run.load(self.run_dir)
        fields = ("n_steps", "checkpoint_every", "log_every", "device")
        changes = {name: getattr(self, name) for name in fields if getattr(self, name) is not None}
        changes |= {"use_graph": False} if self.no_graph else {}
        changes |= {"use_compile": False} if self.no_compile else {}
        return run.with_run_options(changes)


@cappa.command(
    name="evaluate",
    help="Judge a trained fold on the window after its own.",
    description="Judge a trained fold on the window after its own.\n\nExample:\n\n"
    "    python -m trainer evaluate --run-dir runs/es --fold-idx 0\n",
)
@dataclass
class Evaluate(Mirrored):
    fold_idx: Annotated[int, whole("Fold to evaluate.")] = 0
    device: Annotated[str | None, Arg(long=True, choices=["cpu", "cuda", "auto"], help="Where to run.")] = (
        None
    )

    def execute(self) -> int:
        from trainer.learn.evaluate import evaluate
        from trainer.learn.run import Run

        with self.mirrored("evaluate", self.fold_idx):
            run = Run.load(self.run_dir).with_run_options({"device": self.device} if self.device else {})
            metrics = evaluate(run, self.run_dir, self.fold_idx, Progress())
        line = "already evaluated" if metrics is None else (
            f"fold {self.fold_idx}: {metrics.num_trades} trades, wr={metrics.win_rate:.3f}, "
            f"hold={metrics.hold_percent:.1f}%, net={metrics.net_ticks_per_decision:+.4f} ticks per decision"
        )  # fmt: skip
        sys.stdout.write(f"{line}\n")
        return int(ExitCode.DONE)


@cappa.command(
    name="gate",
    help="The verdict over all folds.",
    description="The verdict over all folds: exit code 0 pass, 3 fail or reject, 4 inconclusive.\n\n"
    "Example:\n\n"
    "    python -m trainer gate --run-dir runs/es --json\n",
)
@dataclass
class Gate(Mirrored):
    json: Annotated[bool, Arg(long=True, help="Print summary.json instead of the table.")] = False

    def execute(self) -> int:
        from trainer.learn.decide import decide

        with self.mirrored("gate"):
            return decide(self.run_dir, sys.stdout, as_json=self.json)


@cappa.command(
    name="finish",
    help="Note how the workflow ended.",
    description="Note in ended.json how the workflow ended and what failed: its exit handler.\n\n"
    "Example:\n\n"
    "    python -m trainer finish --run-dir runs/es --workflow walkforward-x7k2p --status Failed\n",
)
@dataclass
class Finish(Common):
    workflow: Annotated[str, Arg(long=True, help="Name of the workflow.")] = ""
    status: Annotated[str, Arg(long=True, help="Succeeded, Failed or Error.")] = ""
    failures: Annotated[str, Arg(long=True, help="JSON list of the failed nodes.")] = ""

    def execute(self) -> int:
        from trainer.learn.ended import note_end

        note_end(self.run_dir, self.workflow, self.status, self.failures, sys.stdout)
        return int(ExitCode.DONE)


class Progress:
    """`progress WHAT N/M` lines on stdout whenever a percent passed, for the local runner and people."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, what: str, done: int, total: int) -> None:
        mark = (what, 100 * done // max(total, 1))
        if mark != self._last:
            self._last = mark
            sys.stdout.write(f"progress {done}/{total} {what}\n")
            sys.stdout.flush()
