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
