"""The replay on the device against the scalar oracle, and the properties every step keeps."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.market.recorded import MS, Recorded, random_market, record, steady
from tests.oracles.market import Lane
from tests.oracles.records import Report
from trainer.data.cache import Cache
from trainer.errors import InputError
from trainer.market import (
    Lanes,
    Outcome,
    Tape,
    context_features,
    feasible_actions,
    observe,
    reset_lanes,
    risk_stage,
    step_lanes,
)

NUM_LANES, NUM_STEPS = 6, 22
DEFECT_ORDER = ("partial", "unfilled", "cancelled", "clamped", "gap", "bad_price")
seeds = st.integers(0, 10**9)


def market_of(seed: int) -> Recorded:
    try:
        return random_market(seed)
    except InputError:
        assume(False)
        raise


def choose(rng: np.random.Generator, allowed: np.ndarray) -> int:
    """A random allowed action, orders preferred so that positions grow."""
    return int(rng.choice(np.flatnonzero(allowed), p=_weights(allowed)))


def _weights(allowed: np.ndarray) -> np.ndarray:
    weight = np.array([1.0, 2, 2, 0.3, 0.3, 3, 3, 1, 1, 1, 1])[allowed]
    return weight / weight.sum()


def check_lane(lanes: Lanes, index: int, lane: Lane) -> None:
    """State of one lane: integers equal, floats to 1e-9."""
    trade = lane.trade
    exact = {
        "cursor": lane.row,
        "lots": lane.lots,
        "cash_ticks": lane.cash,
        "fee_lots": lane.fee_lots,
        "episode_left": lane.episode_left,
        "since_close": lane.since_close,
        "pending_action": lane.pending[0] if lane.pending else 0,
        "trade_cash_ticks": trade.cash if trade else 0,
        "trade_fee_lots": trade.fee_lots if trade else 0,
        "trade_max_lots": trade.max_lots if trade else 0,
        "age": trade.age if trade else 0,
        "high_water_ticks": trade.side * trade.best_price if trade else 0,
    }
    for name, expected in exact.items():
        assert getattr(lanes, name)[index].item() == expected, name
    units = [u.lots for u in lane.units]
    assert lanes.unit_lots[index].tolist() == units + [0] * (lanes.unit_lots.shape[1] - len(units))
    close = {
        "equity_ticks": lane.equity_mid(),
        "realized_ticks": lane.realized,
        "peak_equity_ticks": lane.peak_equity,
        "open_pnl_ticks": lane.open_pnl(),
        "unrealized_r": lane.unrealized_r(),
        "peak_r": trade.peak_r if trade else 0.0,
        "order_share": lane.order_share,
        "win_share": lane.win_share,
    }
    for name, expected in close.items():
        assert getattr(lanes, name)[index].item() == pytest.approx(expected, abs=1e-9), name
    assert lanes.defects[index].tolist() == [lane.defects[name] for name in DEFECT_ORDER]


def check_outcome(out: Outcome, index: int, report: Report) -> None:
    """What one step reported of one lane."""
    assert out.row[index].item() == report.row
    assert out.truncated[index].item() == report.truncated
    assert out.done[index].item() == bool(report.closed)
    for name in ("fill_lots", "forced_lots", "fee_lots", "fill_delay"):
        assert getattr(out, name)[index].item() == getattr(report, name), name
    assert out.fill_notional_ticks[index].item() == report.fill_notional
    money = (out.reward_ticks, out.mid_equity_ticks, out.equity_ticks, out.spread_cost_ticks)
    expected = (report.reward, report.equity_mid, report.equity_close, report.spread_cost)
    assert [m[index].item() for m in money] == pytest.approx(list(expected), abs=1e-9)
    assert out.drawdown_penalty[index].item() == pytest.approx(report.penalty, rel=1e-6, abs=1e-9)
    trades = [column for column in (0, 1) if out.trades.closed[index, column]]
    assert [bool(column) for column in trades] == [c.forced for c in report.closed]
    for column, closed in zip(trades, report.closed, strict=True):
        for name in ("side", "lots", "fee_lots", "age", "entry_ns", "exit_ns"):
            assert getattr(out.trades, name)[index, column].item() == getattr(closed, name), name
        got = [
            getattr(out.trades, n)[index, column].item() for n in ("pnl_ticks", "entry_ticks", "exit_ticks")
        ]
        assert got == pytest.approx([closed.pnl, closed.entry, closed.exit], abs=1e-9)
        assert out.trades.r[index, column].item() == pytest.approx(closed.r, rel=1e-6)


def replay_both(m: Recorded, seed: int, num_steps: int) -> Lanes:
    """Random feasible actions on the device and in the oracle; every state and report must agree."""
    rng = np.random.default_rng(seed)
    anchors = m.tape.anchors.numpy()
    starts = rng.choice(anchors, NUM_LANES)
    limits = starts + rng.integers(1, 150, NUM_LANES)
    left = rng.integers(3, 15, NUM_LANES)
    oracles = [Lane(m.history, int(s), int(e), int(n)) for s, e, n in zip(starts, limits, left, strict=True)]
    lanes = reset_lanes(m.tape, *map(torch.from_numpy, (starts, limits, left)), m.config.market)
    for _ in range(num_steps):
        mean, ratio = float(rng.choice([0.0, 1.5, 4.0])), float(rng.choice([0.5, 2.0]))
        allowed = feasible_actions(m.tape, lanes, m.config.market).numpy()
        assert [set(np.flatnonzero(a)) for a in allowed] == [lane.feasible() for lane in oracles]
        context = context_features(m.tape, lanes, torch.tensor(mean), m.config.market, m.instrument)
        np.testing.assert_allclose(context, [lane.context(mean) for lane in oracles], atol=1e-5)
        wanted = [choose(rng, a) for a in allowed]
        action, stopped = risk_stage(
            m.tape, lanes, torch.tensor(wanted), torch.tensor(ratio), torch.tensor(mean), m.config.market
        )
        assert stopped.tolist() == [lane.stopped(mean, ratio) for lane in oracles]
        assert action.tolist() == [o.after_risk(a, mean, ratio) for o, a in zip(oracles, wanted, strict=True)]
        fresh = rng.choice(anchors, NUM_LANES)
        lanes, out = step_lanes(m.tape, lanes, action, torch.from_numpy(fresh), m.config, m.instrument)
        for i, lane in enumerate(oracles):
            check_outcome(out, i, lane.step(int(action[i]), int(fresh[i])))
            check_lane(lanes, i, lane)
    return lanes


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_step_equals_scalar_oracle_on_random_markets(seed: int) -> None:
    replay_both(market_of(seed), seed + 1, NUM_STEPS)


def test_step_equals_scalar_oracle_on_a_real_book(hour_cache: Cache) -> None:
    """Orders of 12 lots walk several of the ten levels of a recorded hour."""
    rows = slice(0, 500)

    def side(px: np.ndarray, sz: np.ndarray) -> list[list[tuple[int, int]]]:
        return np.stack([px[rows], sz[rows]], 2).tolist()

    m = record(
        (hour_cache.ts_ns[rows] // MS).tolist(),
        side(hour_cache.bid_px, hour_cache.bid_sz),
        side(hour_cache.ask_px, hour_cache.ask_sz),
        decision_rows=8,
        unit_lots=12,
        fee_ticks=0.16,
    )
    lanes = replay_both(m, 1, 60)
    assert (lanes.fee_lots > 100).all(), "every lane traded"


def changed_after(m: Recorded, row: int, seed: int) -> Recorded:
    """The market with every row after `row` replaced, times and segments kept."""
    rng = np.random.default_rng(seed)
    tail = slice(row + 1, None)
    book = m.tape.book.clone()
    book[tail, :, 0] += int(rng.integers(50, 90))
    book[tail, :, 1] = torch.from_numpy(rng.integers(1, 99, tuple(book[tail, :, 1].shape))).int()
    features, ranges = m.tape.features.clone(), m.tape.range_ticks.clone()
    features[tail] += 1000.0
    ranges[tail] += 1000.0
    return m._replace(tape=m.tape._replace(book=book, features=features, range_ticks=ranges))


@settings(max_examples=15, deadline=None)
@given(seed=seeds, num_steps=st.integers(1, 6))
def test_nothing_up_to_a_row_moves_when_every_later_row_changes(seed: int, num_steps: int) -> None:
    m, rng = market_of(seed), np.random.default_rng(seed)
    start = torch.from_numpy(rng.choice(m.tape.anchors.numpy(), 1))
    lanes = reset_lanes(m.tape, start, None, torch.tensor([50]), m.config.market)
    for _ in range(num_steps):
        allowed = feasible_actions(m.tape, lanes, m.config.market)[0].numpy()
        action = torch.tensor([choose(rng, allowed)])
        before, seen = lanes, []
        lanes, out = step_lanes(m.tape, before, action, start, m.config, m.instrument)
        late = changed_after(m, int(out.row), seed)
        now = changed_after(m, int(before.cursor), seed)
        again, same = step_lanes(late.tape, before, action, start, m.config, m.instrument)
        for name in set(Outcome._fields) - {"trades"}:
            assert torch.equal(getattr(out, name), getattr(same, name)), name
        for name in Lanes._fields:
            assert torch.equal(getattr(lanes, name), getattr(again, name)), name
        for tape in (m.tape, now.tape):
            mean, ratio = torch.tensor(1.0), torch.tensor(2.0)
            seen.append(
                [
                    feasible_actions(tape, before, m.config.market),
                    context_features(tape, before, mean, m.config.market, m.instrument),
                    risk_stage(tape, before, action, ratio, mean, m.config.market)[0],
                    observe(tape, before.cursor, 4)[0],
                ]
            )
        assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))


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
