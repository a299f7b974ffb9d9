"""Synthetic accounts of known traders, judged through the real metrics."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from trainer.config import EvaluateConfig, GateConfig, InstrumentConfig
from trainer.learn.account import Decisions, Trades
from trainer.learn.entropy import EntropyStability, entropy_stability
from trainer.learn.metrics import FoldMetrics, fold_metrics
from trainer.presets import INSTRUMENTS
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
