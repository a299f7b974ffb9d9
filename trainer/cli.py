"""`python -m trainer prepare|train|evaluate|gate`: what every stage of the plan runs; and `inspect`."""

import logging
import sys
import traceback
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cappa
from cappa import Arg, Subcommands

from trainer.errors import AlphaError, ExitCode, InputError
from trainer.location import data_location
from trainer.options import build_config
from trainer.parent import stop_with_parent

if TYPE_CHECKING:
    from trainer.learn.markers import Stage
    from trainer.learn.mirror import OnSaved


# Not frozen, as mypy allows `cappa.command` no frozen base.
@dataclass
class Common:
    """Options of every stage."""

    run_dir: Annotated[
        Path, Arg(long=["--run-dir", "--out"], help="Run directory; folds write to fold<k>/ inside it.")
    ]
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False


@dataclass
class Mirrored(Common):
    """Options of the stages that leave results."""

    mirror: Annotated[
        str | None,
        Arg(
            long=True, help="s3://bucket/prefix: results go to <prefix>/<run-id>/, and come back from there."
        ),
    ] = None

    def mirrored(self, stage: "Stage", fold: int | None = None) -> AbstractContextManager["OnSaved"]:
        """Around a stage: what the mirror has is there before it, what it makes is sent behind it."""
        from trainer.learn.mirror import mirror

        return mirror(self.mirror, self.run_dir, stage, fold, _Progress())


@dataclass
class Prepared(Mirrored):
    """Options that decide what a run computes, and on which data."""

    preset: Annotated[str, Arg(long=True, help="Starting point: default, demo or seed.")] = "default"
    config: Annotated[Path | None, Arg(long=True, help="YAML file over the preset.")] = None
    market: Annotated[
        str | None, Arg(long=True, choices=["planted", "martingale"], help="Synthetic market.")
    ] = None
    mbp10_data_dir: Annotated[
        Path | str | None,
        Arg(
            long=True,
            parse=data_location,
            parse_inference=False,
            help="mbp-10 file, directory or s3:// URL (.dbn, .dbn.zst, LOBSTER .csv).",
        ),
    ] = None
    trades_data_dir: Annotated[
        Path | str | None,
        Arg(
            long=True,
            parse=data_location,
            parse_inference=False,
            help="Separate trades directory or s3:// URL.",
        ),
    ] = None
    cache_dir: Annotated[Path | None, Arg(long=True, help="Feature caches; <runs>/cache unless given.")] = (
        None
    )
    folds: Annotated[int | None, Arg(long=True, help="Walk-forward folds.")] = None
    instrument: Annotated[str | None, Arg(long=True, help="Instrument preset; inferred unless given.")] = None
    n_steps: Annotated[int | None, Arg(long=True, help="Training steps in total, resumed ones included.")] = (
        None
    )
    n_backtests: Annotated[int | None, Arg(long=True, help="Lanes: market replays in parallel.")] = None
    per_capacity: Annotated[int | None, Arg(long=True, help="Transitions kept; a power of two.")] = None
    checkpoint_every: Annotated[
        int | None, Arg(long=True, help="Steps between checkpoints; 0: at the end.")
    ] = None
    log_every: Annotated[int | None, Arg(long=True, help="Steps between log lines.")] = None
    seed: Annotated[int | None, Arg(long=True, help="Of weights, sampling and anchors.")] = None
    device: Annotated[str | None, Arg(long=True, choices=["cpu", "cuda", "auto"], help="Where to run.")] = (
        None
    )

    def prepare(self) -> Any:
        """Prepares the run with these options; a run prepared the same way before is reused."""
        from trainer.learn.prepare import prepare

        config = build_config(self.preset, self.config, vars(self))
        cache_root = self.cache_dir or self.run_dir.parent / "cache"
        return prepare(config, self.run_dir, cache_root, _Progress())

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
    "    python -m trainer train --run-dir runs/es --fold-idx 0 --n-steps 25000\n",
)
@dataclass
class Train(Prepared):
    fold_idx: Annotated[int, Arg(long=True, help="Fold to train.")] = 0
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
    fold_idx: Annotated[int, Arg(long=True, help="Fold to evaluate.")] = 0
    device: Annotated[str | None, Arg(long=True, choices=["cpu", "cuda", "auto"], help="Where to run.")] = (
        None
    )

    def execute(self) -> int:
        from trainer.learn.evaluate import evaluate
        from trainer.learn.run import Run

        with self.mirrored("evaluate", self.fold_idx):
            run = Run.load(self.run_dir).with_run_options({"device": self.device} if self.device else {})
            metrics = evaluate(run, self.run_dir, self.fold_idx, _Progress())
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


@cappa.command(
    name="inspect",
    help="What data holds, and whether prepare takes it.",
    description="What order-book data holds, and whether prepare takes it: exit code 0, or 2 where not.\n\n"
    "Example:\n\n"
    "    python -m trainer inspect es.dbn.zst --json\n",
)
@dataclass
class Inspect:
    path: Annotated[
        Path | str, Arg(parse=data_location, parse_inference=False, help="File, directory or s3:// URL.")
    ]
    preset: Annotated[str, Arg(long=True, help="Whose decisions and folds are counted.")] = "default"
    config: Annotated[Path | None, Arg(long=True, help="YAML file over the preset.")] = None
    folds: Annotated[int | None, Arg(long=True, help="Walk-forward folds.")] = None
    instrument: Annotated[str | None, Arg(long=True, help="Instrument preset; inferred unless given.")] = None
    instrument_id: Annotated[int | None, Arg(long=True, help="The one to judge of several.")] = None
    cache_dir: Annotated[Path, Arg(long=True, help="Where s3:// data is downloaded to.")] = Path("runs/cache")
    json: Annotated[bool, Arg(long=True, help="Print the report as JSON.")] = False
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from trainer.data.inspection.command import inspect_command

        config = build_config(self.preset, self.config, {"folds": self.folds, "instrument": self.instrument})
        if self.instrument_id is not None:
            config = config.replaced(data={"instrument_id": self.instrument_id})
        return inspect_command(config, self.path, self.cache_dir, self.json, sys.stdout, sys.stderr)


@cappa.command(name="trainer", help="Train and judge an order-book agent, stage by stage.")
@dataclass
class Trainer:
    stage: Subcommands[Prepare | Train | Evaluate | Gate | Finish | Inspect]


class _Progress:
    """`progress WHAT N/M` lines on stdout whenever a percent passed, for the local runner and people."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, what: str, done: int, total: int) -> None:
        mark = (what, 100 * done // max(total, 1))
        if mark != self._last:
            self._last = mark
            sys.stdout.write(f"progress {done}/{total} {what}\n")
            sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    """Runs a stage; an error meant for a person is one line on stderr and in the termination log."""
    from trainer.learn.progress import termination_message

    logging.basicConfig(level=logging.WARNING, format="warning: %(message)s", stream=sys.stderr)
    words = sys.argv[1:] if argv is None else argv
    stop_with_parent()
    try:
        command = cappa.parse(Trainer, argv=words, backend=cappa.backend)
        return int(command.stage.execute())
    except AlphaError as error:
        if "--debug" in words:
            traceback.print_exc()
        sys.stderr.write(f"error: {error}\n")
        termination_message(str(error))
        return int(error.exit_code)
    except OSError as error:  # what no layer below expected: still one line, with the path
        if "--debug" in words:
            traceback.print_exc()
        failure = InputError(
            error.strerror or str(error), where=str(error.filename or "system"), do="see --debug"
        )
        sys.stderr.write(f"error: {failure}\n")
        termination_message(str(failure))
        return int(failure.exit_code)
