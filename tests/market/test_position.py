"""Account, units and trades."""

import pytest

from tests.market.recorded import Replay, record, steady
from trainer.types import Action

A = Action


def test_round_trip_in_a_still_market_costs_the_spread_and_two_fees() -> None:
    lane = Replay(steady(20, fee_ticks=0.25))
    lane.act(A.OPEN_LONG)
    out = lane.act(A.FLAT_FROM_LONG)
    assert out.done.item()
    assert out.trades.pnl_ticks[0, 0].item() == -1.5
    assert lane.lanes.equity_ticks.item() == -1.5
    assert (lane.lanes.cash_ticks.item(), lane.lanes.fee_lots.item()) == (-1, 2)


def test_trade_reports_entry_exit_fees_age_and_times() -> None:
    lane = Replay(steady(20, moves=[0, 0, 2, 0, 0]))
    lane.act(A.OPEN_SHORT)
    lane.act(A.ADD_SHORT)
    trades = lane.act(A.FLAT_FROM_SHORT).trades
    first = {name: value[0, 0].item() for name, value in trades._asdict().items()}
    assert first["side"] == -1
    assert (first["lots"], first["fee_lots"], first["age"]) == (2, 4, 2)
    assert (first["entry_ticks"], first["exit_ticks"]) == (1001.0, 1003.0), "sold at 1000 and 1002"
    assert first["pnl_ticks"] == pytest.approx(2 * (1001 - 1003) - 4 * 0.25)
    assert (first["entry_ns"], first["exit_ns"]) == (10_000_000, 30_000_000)
    assert not first["forced"]


def test_reverse_closes_and_opens_in_one_walk_of_the_book() -> None:
    lane = Replay(steady(20, size=1))
    lane.act(A.OPEN_LONG)
    out = lane.act(A.REVERSE)
    assert (out.fill_lots.item(), out.fill_notional_ticks.item()) == (-2, 1000 + 999)
    assert out.done.item()
    assert out.trades.exit_ticks[0, 0].item() == 1000.0, "the first lot of the walk closes"
    assert lane.lanes.lots.item() == -1
    assert lane.lanes.unit_entry_ticks[0, 0].item() == 999.0, "the second opens"
    assert lane.lanes.age.item() == 0


def test_reverse_without_depth_to_close_does_not_open() -> None:
    bids = [[(100, 9)], [(100, 9)], [(100, 1)], *[[(100, 9)]] * 3]
    lane = Replay(record([0, 10, 20, 30, 40, 50], bids, [[(101, 9)]] * 6, unit_lots=3))
    lane.act(A.OPEN_LONG)
    out = lane.act(A.REVERSE)
    assert (lane.lanes.lots.item(), out.done.item()) == (2, False)


def test_half_flat_sells_the_newest_units_first_and_counts_no_trade() -> None:
    lane = Replay(steady(20, unit_lots=3, size=9))
    lane.act(A.OPEN_LONG)
    lane.act(A.ADD_LONG)
    lane.act(A.ADD_LONG)
    out = lane.act(A.HALF_FLAT)
    assert lane.lanes.unit_lots[0].tolist() == [3, 2, 0, 0], "9 - 4"
    assert not out.done.item()
    assert not out.trades.closed.any()
    assert lane.lanes.trade_fee_lots.item() == 13


def test_half_flat_profit_counts_in_the_trade_when_it_closes() -> None:
    lane = Replay(steady(20, moves=[0, 0, 0, 4, -4], fee_ticks=0.0))
    lane.act(A.OPEN_LONG)
    lane.act(A.ADD_LONG)
    lane.act(A.HALF_FLAT)
    trades = lane.act(A.FLAT_FROM_LONG).trades
    assert trades.pnl_ticks[0, 0].item() == (1004 - 1001) + (1000 - 1001)
    assert trades.exit_ticks[0, 0].item() == 1002.0


def test_reported_equity_marks_at_the_close_and_reward_at_mid() -> None:
    lane = Replay(steady(20, fee_ticks=0.25))
    out = lane.act(A.OPEN_LONG)
    assert out.reward_ticks.item() == -0.75, "half the spread and one fee"
    assert out.mid_equity_ticks.item() == -0.75
    assert out.equity_ticks.item() == -1.25, "a close would get the bid"
    assert out.spread_cost_ticks.item() == 0.5


def test_unit_trail_is_twice_the_mean_range_but_at_least_the_floor() -> None:
    still, moving = Replay(steady(20)), Replay(steady(20, moves=[0, 6] * 10, decision_rows=2), row=4)
    still.act(A.OPEN_LONG)
    moving.act(A.OPEN_LONG)
    assert still.lanes.unit_trail_ticks[0, 0].item() == 2.0
    expected = 2 * moving.market.tape.range_ticks[5].item()
    assert moving.lanes.unit_trail_ticks[0, 0].item() == pytest.approx(expected)


def test_units_follow_fills_not_orders() -> None:
    lane = Replay(steady(20, latency_ns=25_000_000))
    lane.act(A.OPEN_LONG)
    assert not lane.lanes.unit_lots.any(), "the order is in flight"
    lane.act(A.HOLD)
    lane.act(A.HOLD)
    assert lane.lanes.unit_lots[0].tolist() == [1, 0, 0, 0]
    lane.act(A.FLAT_FROM_LONG)
    assert lane.lanes.unit_lots[0].tolist() == [1, 0, 0, 0], "the close is in flight"
    lane.act(A.HOLD)
    lane.act(A.HOLD)
    assert not any(getattr(lane.lanes, name).any() for name in lane.lanes._fields if name.startswith("unit_"))


def test_reverse_clears_every_unit_and_opens_unit_zero_afresh() -> None:
    lane = Replay(steady(20, moves=[0, 0, 0, 0, 9], size=1))
    lane.act(A.OPEN_LONG)
    lane.act(A.ADD_LONG)
    lane.act(A.TRAIL_TIGHTEN)
    lane.act(A.REVERSE)
    lanes = lane.lanes
    assert (lanes.unit_lots[0].tolist(), lanes.lots.item()) == ([1, 0, 0, 0], -1)
    assert lanes.unit_entry_ticks[0].tolist() == [1007.0, 0.0, 0.0, 0.0], "1009 and 1008 close, 1007 opens"
    assert not lanes.unit_trail_steps.any()
    assert lanes.high_water_ticks.item() == -1010, "a new position, a new high-water mark: the ask"
    assert lanes.peak_r.item() == 0.0


def test_trade_ends_at_the_reversal_and_the_next_one_begins_with_its_own_fees() -> None:
    lane = Replay(steady(20, moves=[0, 0, 5], fee_ticks=0.5))
    lane.act(A.OPEN_LONG)
    first = lane.act(A.REVERSE).trades
    second = lane.act(A.FLAT_FROM_SHORT).trades
    assert (first.side[0, 0].item(), second.side[0, 0].item()) == (1, -1)
    assert first.pnl_ticks[0, 0].item() == 1005 - 1001 - 2 * 0.5
    assert second.pnl_ticks[0, 0].item() == 1005 - 1006 - 2 * 0.5
    assert (first.fee_lots[0, 0].item(), second.fee_lots[0, 0].item()) == (2, 2)
    assert first.exit_ns[0, 0].item() == second.entry_ns[0, 0].item() == 20_000_000
    assert (first.age[0, 0].item(), second.age[0, 0].item()) == (1, 1)


def test_adding_keeps_the_trade_and_its_high_water_mark() -> None:
    lane = Replay(steady(20, moves=[0, 0, 6, -1, 0]))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    assert lane.lanes.high_water_ticks.item() == 1006
    lane.act(A.ADD_LONG)
    assert lane.lanes.high_water_ticks.item() == 1006, "a mark of the position, not of the unit"
    trades = lane.act(A.FLAT_FROM_LONG).trades
    assert trades.closed[0].tolist() == [True, False]
    assert (trades.lots[0, 0].item(), trades.entry_ns[0, 0].item()) == (2, 10_000_000)


def test_initial_risk_of_a_trade_is_the_trail_of_all_its_entries() -> None:
    lane = Replay(steady(20, unit_lots=2, trail_min_ticks=4.0, fee_ticks=0.0))
    lane.act(A.OPEN_LONG)
    assert lane.lanes.unrealized_r.item() == pytest.approx(2 * -0.5 / (2 * 4))
    lane.act(A.ADD_LONG)
    assert lane.lanes.trade_risk_ticks.item() == 16.0
    lane.act(A.HALF_FLAT)
    assert lane.lanes.trade_risk_ticks.item() == 16.0, "what was risked stays the measure of the trade"


def test_drawdown_penalty_is_the_negative_r_times_its_rate_and_never_positive() -> None:
    lane = Replay(steady(20, moves=[0, 0, -3, 9], fee_ticks=0.0, drawdown_penalty=0.01))
    assert lane.act(A.OPEN_LONG).drawdown_penalty.item() == pytest.approx(-0.5 / 2 * 0.01)
    assert lane.act(A.HOLD).drawdown_penalty.item() == pytest.approx(-3.5 / 2 * 0.01)
    assert lane.act(A.HOLD).drawdown_penalty.item() == 0.0, "a position that wins pays none"
    assert lane.act(A.FLAT_FROM_LONG).drawdown_penalty.item() == 0.0
