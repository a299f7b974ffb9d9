"""Synthetic accounts of known traders, and one tiny run that is really prepared and trained."""

import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from trainer.config import Config, EvaluateConfig, GateConfig, InstrumentConfig
from trainer.learn.account import Decisions, Trades
from trainer.learn.entropy import EntropyStability, entropy_stability
from trainer.learn.metrics import FoldMetrics, fold_metrics
from trainer.learn.run import Run, fold_dir
from trainer.presets import INSTRUMENTS, demo
from trainer.types import Action

DECISION_NS = 1_000_000_000
EVALUATE = EvaluateConfig(bootstrap_resamples=200, bootstrap_block_decisions=20)
STEADY = entropy_stability(np.full(400, 0.5), GateConfig())

MakeFold = Callable[..., FoldMetrics]


def build_account(
    pnl: Sequence[float] | NDArray[np.float64], period: int = 4, idle: int = 0
) -> tuple[Decisions, Trades]:
    """A trade every `period` >= 2 decisions that books `pnl` at its exit; then `idle` decisions."""
    values = np.asarray(pnl, np.float64)
    count, total = len(values), len(values) * period + idle
    entry = np.arange(count) * period
    leave = entry + period - 1
    ts_ns = np.arange(total, dtype=np.int64) * DECISION_NS
    action, booked, held = np.zeros(total, np.int8), np.zeros(total), np.zeros(total, bool)
    action[entry], action[leave], booked[leave] = Action.OPEN_LONG, Action.FLAT_FROM_LONG, values
    for begin, end in zip(entry, leave, strict=True):
        held[begin + 1 : end + 1] = True
    decisions = Decisions(
        ts_ns=ts_ns,
        pnl_ticks=booked,
        ordered=action != Action.HOLD,
        action=action,
        num_feasible=np.full(total, 3),
        entropy=np.full(total, 0.4),
        in_market=held,
        tile=np.zeros(total),
    )
    fee = np.full(count, 0.32)
    trades = Trades(
        entry_ns=ts_ns[entry],
        exit_ns=ts_ns[leave],
        side=np.ones(count),
        lots=np.ones(count),
        pnl_ticks=values,
        fee_ticks=fee,
        gross_ticks=values + fee,
        age=np.full(count, period - 1),
        forced=np.zeros(count, bool),
        r=values / 4.0,
        entry_ticks=np.full(count, 100.0),
        exit_ticks=100.0 + values + fee,
    )
    return decisions, trades


@pytest.fixture(scope="session")
def instrument() -> InstrumentConfig:
    """ES: 12.50 a tick."""
    return INSTRUMENTS["ES"]


@pytest.fixture(scope="session")
def account() -> Callable[..., tuple[Decisions, Trades]]:
    """`account(pnl, period=4, idle=0)`, see `build_account`."""
    return build_account


@pytest.fixture(scope="session")
def make_fold(instrument: InstrumentConfig) -> MakeFold:
    """`make_fold(pnl, period=4, idle=0, random=-0.3, training_entropy=STEADY)`: its metrics."""

    def make(
        pnl: Sequence[float] | NDArray[np.float64],
        *,
        period: int = 4,
        idle: int = 0,
        random: float | NDArray[np.float64] = -0.3,
        training_entropy: EntropyStability = STEADY,
    ) -> FoldMetrics:
        decisions, trades = build_account(pnl, period, idle)
        baseline = np.broadcast_to(np.asarray(random, np.float64), len(decisions))
        return fold_metrics(
            0,
            decisions,
            trades,
            baselines={"random": baseline, "flat": np.zeros(len(decisions))},
            training_entropy=training_entropy,
            instrument=instrument,
            cfg=EVALUATE,
        )

    return make


NUM_STEPS, CHECKPOINT_STEP = 200, 100


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As the trainer runs: sums differ between thread counts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_config() -> Config:
    """The demo, shrunk to some tens of steps a second: 16 lanes, two folds of one session each."""
    return demo().replaced(
        synthetic={"rows_per_session": 2048, "sessions": 3},
        data={"window_rows": 8, "folds": 2},
        agent={"hidden": 24, "buckets": (8, 8, 8), "ssd_state": 8, "head_hidden": 32},
        learn={"n_backtests": 16, "per_capacity": 256, "batch_size": 32},
        evaluate={
            "tile_decisions": 40,
            "bootstrap_block_decisions": 10,
            "bootstrap_resamples": 200,
            "random_traders": 8,
        },
        run={"n_steps": NUM_STEPS, "checkpoint_every": CHECKPOINT_STEP, "log_every": 50, "device": "cpu"},
    )


@pytest.fixture(scope="session")
def tiny_run(tiny_config: Config, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """The run and its directory, prepared; not to be written to."""
    root = tmp_path_factory.mktemp("runs")
    # Imported here: it reads market files, and the GPU tests beside run where no reader is installed.
    from trainer.learn.prepare import prepare

    return prepare(tiny_config, root / "tiny", root / "cache", lambda what, done, total: None), root / "tiny"


@pytest.fixture(scope="session")
def trained(tiny_run: tuple[Run, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """Fold 0 trained for 200 steps without a stop, checkpoints at 100 and 200; not to be written to."""
    run_dir = tmp_path_factory.mktemp("trained") / "tiny"
    shutil.copytree(tiny_run[1], run_dir)
    from trainer.learn.loop import train

    train(tiny_run[0], run_dir, 0, io.StringIO())
    return tiny_run[0], run_dir


@pytest.fixture
def trained_copy(trained: tuple[Run, Path], tmp_path: Path) -> tuple[Run, Path]:
    """A copy of `trained` that a test may change."""
    shutil.copytree(trained[1], tmp_path / "tiny")
    return trained[0], tmp_path / "tiny"


@pytest.fixture
def stopped(trained: tuple[Run, Path], tmp_path: Path) -> tuple[Run, Path]:
    """As a kill behind step 100 leaves it: that checkpoint, longer records, no marker."""
    run, run_dir = trained[0], tmp_path / "stopped"
    shutil.copytree(trained[1], run_dir)
    (fold_dir(run_dir, 0) / "train.DONE.json").unlink()
    (fold_dir(run_dir, 0) / f"checkpoint-{NUM_STEPS}.bin").unlink()
    return run, run_dir
