"""The properties every step keeps; `test_oracle.py` holds it against the scalar oracle."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.market.generated import market_of
from tests.market.recorded import steady
from trainer.market import (
    Lanes,
    Tape,
    context_features,
    feasible_actions,
    observe,
    reset_lanes,
    risk_stage,
    step_lanes,
)

seeds = st.integers(0, 10**9)


def choose(rng: np.random.Generator, allowed: np.ndarray) -> int:
    """A random allowed action, orders preferred so that positions grow."""
    return int(rng.choice(np.flatnonzero(allowed), p=_weights(allowed)))


def _weights(allowed: np.ndarray) -> np.ndarray:
    weight = np.array([1.0, 2, 2, 0.3, 0.3, 3, 3, 1, 1, 1, 1])[allowed]
    return weight / weight.sum()


@pytest.mark.parametrize("drop", [1, 5])
def test_masks_and_context_do_not_know_how_many_rows_remain(drop: int) -> None:
    m = steady(40, end_ms=10_000)
    short = steady(40 - drop, end_ms=10_000)
    for row in range(10, 30):
        views = []
        for market in (m, short):
            lanes = reset_lanes(market.tape, torch.tensor([row]), None, torch.tensor([9]), m.config.market)
            context = context_features(market.tape, lanes, torch.tensor(1.0), m.config.market, m.instrument)
            views.append((feasible_actions(market.tape, lanes, m.config.market), context))
        assert torch.equal(views[0][0], views[1][0])
        assert torch.equal(views[0][1], views[1][1])


@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_money_is_conserved(seed: int) -> None:
    """Rewards add up to equity; trades add up to realized P&L, which is the equity of a flat lane."""
    m, rng = market_of(seed), np.random.default_rng(seed)
    starts = torch.from_numpy(rng.choice(m.tape.anchors.numpy(), 4))
    lanes = reset_lanes(m.tape, starts, None, torch.full((4,), 12), m.config.market)
    reward, pnl, fees = torch.zeros(4).double(), torch.zeros(4).double(), torch.zeros(4).long()
    for _ in range(15):
        allowed = feasible_actions(m.tape, lanes, m.config.market).numpy()
        action = torch.tensor([choose(rng, a) for a in allowed])
        lanes, out = step_lanes(m.tape, lanes, action, starts, m.config, m.instrument)
        reward, pnl, fees = reward + out.reward_ticks, pnl + out.trades.pnl_ticks.sum(1), fees + out.fee_lots
        best = m.tape.book[lanes.cursor, :, 0, 0].double()
        account = lanes.cash_ticks - lanes.fee_lots.double() * m.instrument.fee_ticks
        torch.testing.assert_close(lanes.equity_ticks, account + lanes.lots * best.mean(1), atol=1e-9, rtol=0)
        torch.testing.assert_close(reward, lanes.equity_ticks, atol=1e-9, rtol=0)
        torch.testing.assert_close(pnl, lanes.realized_ticks, atol=1e-9, rtol=0)
        assert torch.equal(fees, lanes.fee_lots)
        flat = lanes.lots == 0
        torch.testing.assert_close(lanes.equity_ticks[flat], pnl[flat], atol=1e-9, rtol=0)
        assert torch.equal(lanes.unit_lots.sum(1), lanes.lots.abs())


def test_step_needs_no_host_read_and_no_data_dependent_shape() -> None:
    """On the meta device, which holds no values, reading one or a shape that depends on one raises."""
    m = steady(60)
    lanes = reset_lanes(m.tape, torch.tensor([3, 4]), None, torch.tensor([9, 9]), m.config.market)
    tape = Tape(*(value.to("meta") for value in m.tape))
    lanes = Lanes(*(value.to("meta") for value in lanes))
    ratio, action = torch.tensor(2.0, device="meta"), torch.tensor([1, 2], device="meta")
    assert feasible_actions(tape, lanes, m.config.market).shape == (2, 11)
    assert context_features(tape, lanes, ratio, m.config.market, m.instrument).shape == (2, 16)
    assert observe(tape, lanes.cursor, 4)[0].shape == (2, 4, 40)
    action, _ = risk_stage(tape, lanes, action, ratio, ratio, m.config.market)
    after, out = step_lanes(tape, lanes, action, action, m.config, m.instrument)
    assert [(v.dtype, v.shape) for v in after] == [(v.dtype, v.shape) for v in lanes]
    assert out.reward_ticks.dtype == torch.float64
