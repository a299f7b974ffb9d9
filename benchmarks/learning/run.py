"""Runs one experiment over the real path: market files, cache, training, evaluation, gate.

A fold is trained by the train stage up to each point of its curve and evaluated there as the evaluate stage
evaluates; what an interruption leaves is gone on from. Nothing of training or evaluation is written twice.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from benchmarks.learning.experiment import Experiment
from benchmarks.learning.progress import Progress
from benchmarks.learning.result import FoldResult, Point, Result, Yardstick
from benchmarks.step import environment
from trainer.config import Config
from trainer.errors import InputError
from trainer.learn.atomic import write_json
from trainer.learn.checkpoints import CheckpointStore
from trainer.learn.entropy import entropy_stability
from trainer.learn.evaluate import UNTRAINED, Evaluation, evaluate
from trainer.learn.foxc import read_foxc
from trainer.learn.gate import judge
from trainer.learn.loop import resolve_device, train
from trainer.learn.metrics import RANDOM, FoldMetrics, fold_metrics
from trainer.learn.prepare import prepare
from trainer.learn.run import METRICS_FILE, Run, fold_dir
from trainer.lock import directory_lock

if TYPE_CHECKING:
    from trainer.data.oracle_trader import OracleReport

CURVE_FILE = "curve.json"  # in the fold's directory, beside what the stages leave there
TRADER_DECISIONS = 20_000  # of the path that the optimal trader trades
TRADER_WAIT_S = 600.0
RECOMPILE_LIMIT = 256  # torch's is 8


class Curve(BaseModel):
    """Points measured so far and the seconds spent on them, over all interruptions."""

    model_config = ConfigDict(extra="forbid")

    points: dict[int, Point] = {}
    train_s: float = 0.0
    evaluate_s: float = 0.0

    @classmethod
    def load(cls, path: Path) -> "Curve":
        """What is there, empty if nothing is; InputError for a damaged file."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValidationError) as error:
            what = f"unreadable: {str(error).splitlines()[0]}"
            raise InputError(what, where=str(path), do="delete it") from error

    @contextmanager
    def timed(self, what: str, path: Path) -> Iterator[None]:
        """Adds the block's seconds to `<what>_s` and saves, however the block ends."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            spent_s = time.perf_counter() - begin
            setattr(self, f"{what}_s", getattr(self, f"{what}_s") + spent_s)
            write_json(path, self.model_dump(mode="json"))


@dataclass
class FoldRun:
    """One fold of an experiment in its run directory."""

    run: Run
    run_dir: Path
    index: int
    progress: Progress
    curve: Curve = field(init=False)

    def __post_init__(self) -> None:
        self.directory = fold_dir(self.run_dir, self.index)
        self.path = self.directory / CURVE_FILE
        self.curve = Curve.load(self.path)

    def measure(self, steps: list[int]) -> FoldResult:
        """Trains to each of `steps`, rising, evaluates there, and judges at the last.

        A step that an earlier call trained past without evaluating it is left out: its weights are gone.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        reached = max(CheckpointStore(self.directory).steps(), default=0)
        for step in steps[:-1]:
            if step not in self.curve.points and step >= reached:
                self._train(step)
                with self.curve.timed("evaluate", self.path):
                    self.curve.points[step] = self._point(step)
        self._train(steps[-1])
        with self.curve.timed("evaluate", self.path):
            metrics = self._judged(steps[-1])
            self.curve.points[steps[-1]] = Point.of(steps[-1], metrics)
        return FoldResult(
            fold=self.index,
            untrained_ticks_per_decision=metrics.baselines[UNTRAINED],
            curve=tuple(p for step, p in sorted(self.curve.points.items()) if step <= steps[-1]),
            metrics=metrics,
            train_s=round(self.curve.train_s, 2),
            evaluate_s=round(self.curve.evaluate_s, 2),
        )

    def _train(self, step: int) -> None:
        with self.curve.timed("train", self.path):
            train(self._run_to(step), self.run_dir, self.index, self.progress)

    def _run_to(self, step: int) -> Run:
        return self.run.with_run_options({"n_steps": step})

    def _judged(self, step: int) -> FoldMetrics:
        """The evaluate stage's metrics, with all its baselines."""
        found = evaluate(self._run_to(step), self.run_dir, self.index, self.progress.note)
        if found is not None:
            return found
        return FoldMetrics.model_validate_json((self.directory / METRICS_FILE).read_bytes())

    def _point(self, step: int) -> Point:
        """The agent of the checkpoint on the test window. No point reports baselines, which cost most of the
        time, nor the entropy of training: a trader who stays flat and no records stand in for them."""
        checkpoint = read_foxc(CheckpointStore(self.directory).path(step))
        evaluation = Evaluation(self.run, self.index, checkpoint, self.progress.note)
        account = evaluation.agent_account(checkpoint.array("params", dtype=np.float32), f"step {step}")
        metrics = fold_metrics(
            self.index, account.decisions, account.trades,
            baselines={RANDOM: np.zeros(len(account.decisions))},
            training_entropy=entropy_stability(np.empty(0), self.run.config.gate),
            instrument=evaluation.instrument, cfg=self.run.config.evaluate,
        )  # fmt: skip
        return Point.of(step, metrics)


def measure(experiment: Experiment, work: Path, progress: Progress) -> Result:
    """Runs the experiment in `<work>/<name>`, from where an earlier call stopped; caches: `<work>/cache`.

    Raises what the stages raise: InterruptedRun on SIGTERM after saving, MismatchError, InputError.
    """
    config, run_dir = experiment.config, work / experiment.name
    let_runs_share_compiled_parts(config)
    begin = time.perf_counter()
    run = prepare(config, run_dir, work / "cache", progress.note)
    prepare_s = time.perf_counter() - begin
    oracle, book = yardsticks(config, work / "cache")
    folds = []
    for index in range(experiment.folds):
        progress.fold(index)
        folds.append(FoldRun(run, run_dir, index, progress).measure(experiment.steps))
    return Result(
        variant=experiment.variant,
        market=experiment.market,
        seed=experiment.seed,
        digest=experiment.digest(),
        config_digest=config.digest(),
        data_fingerprint=run.data_fingerprint,
        config=config.model_dump(mode="json", exclude={"run"}),
        n_steps=config.run.n_steps,
        planned_folds=config.data.folds,
        environment=environment(resolve_device(config.run.device)),
        prepare_s=round(prepare_s, 2),
        oracle=oracle,
        book=book,
        folds=tuple(folds),
        verdict=judge([fold.metrics for fold in folds], config.gate),
    )


class _Yardsticks(BaseModel):
    oracle: Yardstick
    book: Yardstick


def yardsticks(config: Config, cache_root: Path) -> tuple[Yardstick, Yardstick]:
    """The optimal trader and the one who sees the book only, on a fresh path of the configured market.

    Kept in a file below `cache_root`, as they take seconds and depend on no seed; of several processes one
    makes it and the others wait. Raises InputError where that cannot be written.
    """
    read = [config.market_source, config.synthetic.model_dump(exclude={"seed"}), config.signal_rows]
    digest = hashlib.sha256(repr([read, TRADER_DECISIONS]).encode()).hexdigest()[:16]
    path = cache_root / "traders" / f"{digest}.json"
    taken = "another process makes these figures"
    with directory_lock(path.parent, taken, "run the same command again", wait_s=TRADER_WAIT_S):
        with suppress(OSError, ValidationError):
            found = _Yardsticks.model_validate_json(path.read_bytes())
            return _per_decision(found.oracle, config), _per_decision(found.book, config)
        # Slow to load, and needs the market's generator.
        from trainer.data.oracle_trader import book_report, oracle_report

        oracle = _yardstick(oracle_report(config, TRADER_DECISIONS))
        book = _yardstick(book_report(config, TRADER_DECISIONS))
        write_json(path, _Yardsticks(oracle=oracle, book=book).model_dump(mode="json"))
    return _per_decision(oracle, config), _per_decision(book, config)


def _per_decision(yardstick: Yardstick, config: Config) -> Yardstick:
    """The income per decision of the run, where its decisions are not the market's."""
    share = config.data.decision_rows / config.signal_rows
    return yardstick.model_copy(update={"net_ticks_per_decision": yardstick.net_ticks_per_decision * share})


def _yardstick(report: "OracleReport") -> Yardstick:
    return Yardstick(
        net_ticks_per_decision=report.net_ticks_per_decision,
        win_rate=report.wr,
        hold_percent=report.hold_percent,
    )


def let_runs_share_compiled_parts(config: Config) -> None:
    """Lets one process train many folds on a GPU.

    torch counts all compiled parts of a process against one limit and raises at the ninth. Runs of one
    configuration share the five parts; a variant of another configuration compiles its own.
    """
    if config.run.use_compile and resolve_device(config.run.device).type == "cuda":
        from torch._dynamo import config as dynamo  # seconds to load, and only compiling needs it

        dynamo.recompile_limit = RECOMPILE_LIMIT
