"""Forced exits, re-anchoring and lane independence."""

import pytest
import torch

from tests.market.recorded import MS, Recorded, Replay, record, steady
from trainer.market import Lanes, reset_lanes, step_lanes
from trainer.market.lanes import DEFECTS, LIFETIME
from trainer.market.schedule import Span
from trainer.types import Action

A = Action


def defect(lane: Replay, name: str) -> int:
    return int(lane.lanes.defects[0, DEFECTS.index(name)])


def gapped(**options: object) -> Recorded:
    """Ten rows, a minute without any, ten rows 7 ticks lower."""
    best = [1000] * 10 + [993] * 10
    ts = [10 * r for r in range(10)] + [60_000 + 10 * r for r in range(10)]
    spans = [Span(0, 10, 0, 10**9 * MS, True), Span(10, 20, 0, 10**9 * MS, False)]
    books = [[[(b + off, 5)] for b in best] for off in (0, 1)]
    return record(ts, *books, spans=spans, **options)  # type: ignore[arg-type]


def test_reset_lanes_are_flat_and_do_not_alias_their_inputs() -> None:
    starts, left = torch.tensor([3, 4]), torch.tensor([9, 9])
    lanes = reset_lanes(steady(30).tape, starts, None, left, steady(30).config.market)
    assert lanes.cursor.data_ptr() != starts.data_ptr()
    assert lanes.episode_left.data_ptr() != left.data_ptr()
    zero = set(Lanes._fields) - {"cursor", "episode_left", "limit_row"}
    assert all(not getattr(lanes, name).any() for name in zero)


def test_gap_is_left_on_the_first_row_after_it_and_counted() -> None:
    lane = Replay(gapped(), row=6)
    lane.act(A.OPEN_LONG)
    for _ in range(2):
        assert not lane.act(A.HOLD).truncated.item(), "nothing tells that a gap is near"
    out = lane.act(A.HOLD)
    assert (out.row.item(), out.truncated.item(), out.forced_lots.item()) == (10, True, -1)
    assert out.trades.forced[0].tolist() == [False, True]
    assert out.trades.exit_ticks[0, 1].item() == 993.0
    assert defect(lane, "gap_exits") == 1


def test_order_in_flight_over_a_gap_is_cancelled_and_counted() -> None:
    lane = Replay(gapped(), row=9)
    out = lane.act(A.OPEN_LONG)
    assert (out.row.item(), out.fill_lots.item(), out.truncated.item()) == (10, 0, True)
    assert lane.lanes.pending_action.item() == 0
    assert defect(lane, "cancelled_orders") == 1


def test_session_close_is_left_one_latency_early() -> None:
    lane = Replay(steady(30, end_ms=291, latency_ns=15 * MS), row=22)
    out = lane.act(A.OPEN_LONG)
    while not out.truncated.item():
        out = lane.act(A.HOLD)
    assert out.ts_ns.item() == 270 * MS, "the book standing at 291 - 15 ms"
    assert out.trades.closed[0].tolist() == [False, True]


def test_fill_and_forced_close_on_the_same_row_are_both_charged() -> None:
    lane = Replay(steady(30, latency_ns=0, fee_ticks=0.5), limit=6, row=5)
    out = lane.act(A.OPEN_LONG)
    assert (out.fill_lots.item(), out.forced_lots.item(), out.fee_lots.item()) == (1, -1, 2)
    assert out.trades.pnl_ticks[0].tolist() == [0.0, -2.0]
    assert (out.trades.age[0, 1].item(), out.reward_ticks.item()) == (0, -2.0)


def test_reverse_filled_on_the_exit_row_closes_two_trades() -> None:
    lane = Replay(steady(30, fee_ticks=0.0), limit=7, row=5)
    lane.act(A.OPEN_LONG)
    out = lane.act(A.REVERSE)
    assert out.trades.closed[0].tolist() == [True, True]
    assert out.trades.side[0].tolist() == [1, -1]
    assert out.trades.pnl_ticks[0].tolist() == [-1.0, -1.0]
    assert out.reward_ticks.item() == -1.5


def test_forced_close_beyond_the_visible_depth_pays_one_tick_more_and_is_flagged() -> None:
    bids = [[(100, 9), (98, 9)]] * 5 + [[(100, 1), (98, 1)]] * 3
    lane = Replay(
        record([10 * r for r in range(8)], bids, [[(101, 9), (102, 9)]] * 8, unit_lots=4), limit=5, row=3
    )
    lane.act(A.OPEN_LONG)
    out = lane.act(A.HOLD)
    assert out.trades.exit_ticks[0, 1].item() == (100 + 98 + 2 * 97) / 4
    assert defect(lane, "clamped_exits") == 1


def test_episode_end_closes_charges_and_keeps_the_account() -> None:
    lane = Replay(steady(60, fee_ticks=0.25, episode_decisions=16), left=4, row=5)
    lane.act(A.OPEN_LONG)
    lane.act(A.TRAIL_LOOSEN)
    lane.act(A.HOLD)
    out = lane.act(A.HOLD, anchor=40)
    assert (out.truncated.item(), out.done.item(), out.lots.item()) == (True, True, 0)
    fresh = reset_lanes(
        lane.market.tape, torch.tensor([40]), None, torch.tensor([16]), lane.market.config.market
    )
    for name in set(Lanes._fields) - LIFETIME:
        assert torch.equal(getattr(lane.lanes, name), getattr(fresh, name)), f"{name} is not fresh"
    assert (lane.lanes.cash_ticks.item(), lane.lanes.fee_lots.item()) == (-1, 2)
    assert lane.lanes.equity_ticks.item() == lane.lanes.realized_ticks.item() == -1.5


def test_flat_lane_is_truncated_without_a_trade() -> None:
    out = Replay(steady(60), left=1, row=5).act(A.HOLD)
    assert (out.truncated.item(), out.done.item(), out.reward_ticks.item()) == (True, False, 0.0)


def test_tile_ends_on_its_last_row_inclusive() -> None:
    lane = Replay(steady(60, decision_rows=4), limit=13, row=5)
    assert lane.act(A.HOLD).row.item() == 9
    out = lane.act(A.HOLD)
    assert (out.row.item(), out.truncated.item()) == (13, True)


def test_lane_parked_behind_its_tile_does_nothing() -> None:
    lane = Replay(steady(60), limit=13, row=12)
    lane.act(A.HOLD, anchor=20)
    before = lane.lanes.equity_ticks.item()
    out = lane.act(A.HOLD, anchor=20)
    assert (out.row.item(), out.truncated.item()) == (20, True)
    assert lane.lanes.equity_ticks.item() == before


@pytest.mark.parametrize("index", [0, 3])
def test_lane_alone_equals_the_same_lane_among_others(index: int) -> None:
    m = steady(200, moves=[1, -2, 3, 0, -1] * 40, size=2, unit_lots=3, decision_rows=2)
    generator = torch.Generator().manual_seed(5)
    starts = torch.randint(20, (5,), generator=generator)
    left, one = torch.full((5,), 30), slice(index, index + 1)
    many = reset_lanes(m.tape, starts, None, left, m.config.market)
    alone = reset_lanes(m.tape, starts[one], None, left[one], m.config.market)
    for actions in ([1, 2, 1, 2, 1], [5, 6, 5, 6, 5], [10, 9, 7, 10, 9], [9, 8, 9, 9, 0], [3, 0, 4, 3, 4]):
        action, anchors = torch.tensor(actions), starts + 1
        many, out = step_lanes(m.tape, many, action, anchors, m.config, m.instrument)
        alone, single = step_lanes(m.tape, alone, action[one], anchors[one], m.config, m.instrument)
        for name in Lanes._fields:
            assert torch.equal(getattr(many, name)[one], getattr(alone, name)), name
        assert torch.equal(out.reward_ticks[one], single.reward_ticks)
        assert torch.equal(out.trades.pnl_ticks[one], single.trades.pnl_ticks)
