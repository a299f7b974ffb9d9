"""Feasible actions and the fill of an order."""

import pytest
import torch

from tests.market.recorded import Replay, record, steady
from trainer.market.lanes import DEFECTS
from trainer.market.orders import ORDERS, is_any
from trainer.types import NUM_ACTIONS, Action

A = Action


def test_is_any_equals_membership_for_every_action() -> None:
    got = is_any(torch.arange(NUM_ACTIONS), ORDERS).tolist()
    assert got == [int(Action(a) in ORDERS) for a in range(NUM_ACTIONS)]


def test_flat_lane_may_hold_or_open() -> None:
    assert Replay(steady(30)).allowed() == {A.HOLD, A.OPEN_LONG, A.OPEN_SHORT}


@pytest.mark.parametrize(
    ("opens", "flat", "add"),
    [(A.OPEN_LONG, A.FLAT_FROM_LONG, A.ADD_LONG), (A.OPEN_SHORT, A.FLAT_FROM_SHORT, A.ADD_SHORT)],
)
def test_holding_lane_may_flatten_add_trail_or_reverse(opens: Action, flat: Action, add: Action) -> None:
    lane = Replay(steady(30))
    lane.act(opens)
    assert lane.allowed() == {A.HOLD, flat, add, A.TRAIL_TIGHTEN, A.TRAIL_LOOSEN, A.REVERSE}


def test_half_flat_needs_two_lots_and_add_a_free_unit() -> None:
    lane = Replay(steady(30, num_units=2))
    lane.act(A.OPEN_LONG)
    assert A.HALF_FLAT not in lane.allowed()
    lane.act(A.ADD_LONG)
    assert A.HALF_FLAT in lane.allowed()
    assert A.ADD_LONG not in lane.allowed()


def test_entries_are_masked_in_the_last_decisions_but_leaving_is_not() -> None:
    lane = Replay(steady(30, entry_guard_decisions=2), left=4)
    lane.act(A.OPEN_LONG)
    assert A.REVERSE in lane.allowed()
    lane.act(A.HOLD)
    assert lane.allowed() == {A.HOLD, A.FLAT_FROM_LONG, A.TRAIL_TIGHTEN, A.TRAIL_LOOSEN}


def test_entries_are_masked_when_they_could_not_fill_before_the_announced_end() -> None:
    market = steady(30, end_ms=300, latency_ns=20_000_000)
    assert A.OPEN_LONG in Replay(market, row=25).allowed(), "50 ms left, 40 needed"
    assert Replay(market, row=26).allowed() == {A.HOLD}


def test_only_hold_while_an_order_is_in_flight() -> None:
    lane = Replay(steady(30, latency_ns=25_000_000))
    out = lane.act(A.OPEN_LONG)
    assert out.fill_lots.item() == 0
    assert lane.allowed() == {A.HOLD}
    lane.act(A.HOLD)
    out = lane.act(A.HOLD)
    assert (out.fill_lots.item(), out.fill_delay.item(), out.ordered.item()) == (1, 2, False)
    assert A.FLAT_FROM_LONG in lane.allowed()


def test_order_fills_at_the_book_of_its_fill_row_not_of_its_decision() -> None:
    lane = Replay(steady(30, moves=[0, 3, 4], latency_ns=0, decision_rows=2))
    out = lane.act(A.OPEN_LONG)
    assert out.fill_notional_ticks.item() == 1000 + 3 + 1, "ask of row 1, not of row 0 or 2"


def test_order_beyond_visible_depth_is_filled_partly_and_counted() -> None:
    lane = Replay(steady(30, size=2, unit_lots=7))
    out = lane.act(A.OPEN_LONG)
    assert out.fill_lots.item() == 6
    assert out.fill_notional_ticks.item() == 2 * (1001 + 1002 + 1003)
    assert lane.lanes.defects[0, DEFECTS.index("partial_fills")].item() == 1


def test_what_was_taken_stays_taken_until_the_level_changes() -> None:
    rows = 6
    asks = [[(101, 3), (102, 9)]] * 3 + [[(101, 2), (102, 9)]] * 3
    market = record([10 * r for r in range(rows)], [[(100, 9), (99, 9)]] * rows, asks, unit_lots=2)
    lane = Replay(market)
    assert lane.act(A.OPEN_LONG).fill_notional_ticks.item() == 101 * 2
    assert lane.act(A.ADD_LONG).fill_notional_ticks.item() == 101 + 102, "one lot was left at 101"
    assert lane.act(A.ADD_LONG).fill_notional_ticks.item() == 101 * 2, "the level shows a new size"


def test_order_that_finds_nothing_leaves_the_lane_flat_and_is_counted() -> None:
    asks = [[(101, 1), (101, 0)]] * 8
    market = record([10 * r for r in range(8)], [[(100, 9), (99, 9)]] * 8, asks)
    lane = Replay(market)
    lane.act(A.OPEN_LONG)
    out = lane.act(A.ADD_LONG)
    assert (out.fill_lots.item(), lane.lanes.lots.item()) == (0, 1)
    assert lane.lanes.defects[0, DEFECTS.index("unfilled_orders")].item() == 1


def test_entry_at_an_average_price_of_zero_is_counted() -> None:
    market = record([0, 10, 20, 30, 40, 50], [[(-1, 5)]] * 6, [[(0, 5)]] * 6)
    lane = Replay(market)
    lane.act(A.OPEN_LONG)
    assert lane.lanes.defects[0, DEFECTS.index("bad_entry_prices")].item() == 1


def counted(lane: Replay, name: str) -> int:
    return int(lane.lanes.defects[0, DEFECTS.index(name)])


def thin(bids: list[list[tuple[int, int]]], **options: object) -> Replay:
    """A lane on the given bids, 10 ms apart; nine lots are asked at 101 and at 102."""
    asks = [[(101, 9), (102, 9)]] * len(bids)
    return Replay(record([10 * r for r in range(len(bids))], bids, asks, **options))  # type: ignore[arg-type]


def test_short_walks_the_bids_downwards() -> None:
    lane = thin([[(100, 2), (98, 5)]] * 8, unit_lots=3)
    out = lane.act(A.OPEN_SHORT)
    assert (out.fill_lots.item(), out.fill_notional_ticks.item()) == (-3, 2 * 100 + 98)


def test_flat_on_a_thin_book_closes_what_is_there_and_the_trade_goes_on() -> None:
    lane = thin([[(100, 9), (99, 9)]] * 2 + [[(100, 1), (99, 1)]] + [[(97, 9), (96, 9)]] * 5, unit_lots=3)
    lane.act(A.OPEN_LONG)
    out = lane.act(A.FLAT_FROM_LONG)
    assert (out.fill_lots.item(), out.done.item(), lane.lanes.lots.item()) == (-2, False, 1)
    assert counted(lane, "partial_fills") == 1
    assert A.FLAT_FROM_LONG in lane.allowed(), "what is left can be ordered out again"
    trades = lane.act(A.FLAT_FROM_LONG).trades
    assert trades.pnl_ticks[0, 0].item() == 100 + 99 + 97 - 3 * 101 - 6 * 0.25
    assert trades.fee_lots[0, 0].item() == 6


@pytest.mark.parametrize(("lots", "sold"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_half_flat_of_odd_lots_rounds_down_and_never_closes(lots: int, sold: int) -> None:
    lane = Replay(steady(20, unit_lots=lots, size=9))
    lane.act(A.OPEN_LONG)
    out = lane.act(A.HALF_FLAT)
    assert (out.fill_lots.item(), lane.lanes.lots.item(), out.done.item()) == (-sold, lots - sold, False)


def test_half_flat_on_a_thin_book_sells_only_what_is_there() -> None:
    lane = thin([[(100, 9), (99, 9)]] * 2 + [[(100, 1), (100, 0)]] * 5, unit_lots=7)
    lane.act(A.OPEN_LONG)
    out = lane.act(A.HALF_FLAT)
    assert (out.fill_lots.item(), lane.lanes.lots.item(), out.done.item()) == (-1, 6, False)
    assert counted(lane, "partial_fills") == 1


def test_reverse_on_a_thin_book_closes_first_and_opens_with_what_is_left() -> None:
    lane = thin([[(100, 9), (99, 9)]] * 2 + [[(100, 3), (99, 1)]] * 5, unit_lots=3)
    lane.act(A.OPEN_LONG)
    out = lane.act(A.REVERSE)
    assert (out.done.item(), lane.lanes.lots.item()) == (True, -1)
    assert out.trades.exit_ticks[0, 0].item() == 100.0, "the close comes first in the walk"
    assert lane.lanes.unit_entry_ticks[0].tolist() == [99.0, 0.0, 0.0, 0.0]
    assert counted(lane, "partial_fills") == 1


def test_reverse_that_only_closes_leaves_the_lane_flat() -> None:
    lane = thin([[(100, 9), (99, 9)]] * 2 + [[(100, 2), (99, 1)]] * 5, unit_lots=3)
    lane.act(A.OPEN_LONG)
    out = lane.act(A.REVERSE)
    assert (out.done.item(), lane.lanes.lots.item()) == (True, 0)
    assert lane.allowed() == {A.HOLD, A.OPEN_LONG, A.OPEN_SHORT}


def test_worth_of_a_position_and_its_stop_see_the_lots_already_sold() -> None:
    lane = thin([[(100, 1), (95, 9)]] * 8, unit_lots=2, fee_ticks=0.0)
    lane.act(A.OPEN_LONG)
    assert lane.lanes.open_pnl_ticks.item() == 100 + 95 - 2 * 101
    lane.act(A.HALF_FLAT)
    assert lane.lanes.open_pnl_ticks.item() == 100 + 95 - 2 * 101, "the bid at 100 is used up"


def test_a_level_keeps_its_memory_while_another_level_changes() -> None:
    asks = [[(101, 3), (102, 9)]] * 2 + [[(101, 3), (102, 8)]] * 4
    lane = Replay(record([10 * r for r in range(6)], [[(100, 9), (99, 9)]] * 6, asks, unit_lots=2))
    lane.act(A.OPEN_LONG)
    assert lane.act(A.ADD_LONG).fill_notional_ticks.item() == 101 + 102


def test_entry_at_the_limit_of_the_price_column_is_counted() -> None:
    top = 2**31 - 1
    lane = Replay(record([10 * r for r in range(6)], [[(top - 1, 5)]] * 6, [[(top, 5)]] * 6, unit_lots=2))
    lane.act(A.OPEN_LONG)
    assert counted(lane, "bad_entry_prices") == 1
    assert lane.lanes.cash_ticks.item() == -2 * top


def test_an_ordinary_round_trip_counts_no_defect() -> None:
    lane = Replay(steady(30))
    for action in (A.OPEN_LONG, A.ADD_LONG, A.HALF_FLAT, A.REVERSE, A.FLAT_FROM_SHORT):
        lane.act(action)
    assert not lane.lanes.defects.any()


@pytest.mark.parametrize(("latency_ms", "row"), [(0, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_fill_is_strictly_after_the_decision_row_and_not_before_the_latency(
    latency_ms: int, row: int
) -> None:
    lane = Replay(steady(30, moves=range(30), latency_ns=latency_ms * 1_000_000))
    out = lane.act(A.OPEN_LONG)
    while not out.fill_lots.item():
        out = lane.act(A.HOLD)
    assert out.row.item() == row
    assert out.fill_notional_ticks.item() == 1001 + sum(range(row + 1))
