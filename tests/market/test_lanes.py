"""Forced exits, re-anchoring and lane independence."""

import pytest
import torch

from tests.market.recorded import MS, Recorded, Replay, record, steady
from trainer.market import Lanes, reset_lanes, step_lanes
from trainer.market.lanes import DEFECTS, LIFETIME, defect_counts, defects_text
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


def ending(kind: str) -> Recorded:
    """Thirty rows 10 ms apart; the first twenty end at 205 ms by the calendar, in one of three ways."""
    far = 10**9 * MS
    first = Span(0, 20, 0, 205 * MS if kind == "session" else far, False)
    after = {"session": Span(20, 30, 1, far, False), "roll": Span(20, 30, 0, far, False)}
    if kind == "window":
        return steady(20, end_ms=205, latency_ns=15 * MS)
    ts = [10 * r for r in range(20)] + [205 + 10 * r for r in range(10)]
    best = [1000] * 20 + [400] * 10
    books = [[[(b + off, 5)] for b in best] for off in (0, 1)]
    return record(ts, *books, spans=[first, after[kind]], latency_ns=15 * MS)


@pytest.mark.parametrize("kind", ["session", "roll", "window"])
def test_announced_end_is_left_one_latency_early_charged_and_never_carried_over(kind: str) -> None:
    lane = Replay(ending(kind), row=10)
    out = lane.act(A.OPEN_LONG)
    while not out.truncated.item():
        out = lane.act(A.HOLD)
    assert out.ts_ns.item() == 190 * MS, "the last row at or before 205 - 15 ms"
    assert (out.forced_lots.item(), out.lots.item(), out.done.item()) == (-1, 0, True)
    assert out.trades.exit_ticks[0, 1].item() == 1000.0, "the book standing then, not the next contract's"
    assert out.trades.fee_lots[0, 1].item() == 2
    assert defect(lane, "gap_exits") == 0


@pytest.mark.parametrize("kind", ["session", "roll", "window"])
def test_an_order_that_cannot_fill_before_the_announced_end_is_masked(kind: str) -> None:
    market = ending(kind)
    for row in range(10, 19):
        left_ms = 205 - 10 * row
        assert (A.OPEN_LONG in Replay(market, row=row).allowed()) == (left_ms > 2 * 15)


@pytest.mark.parametrize("pending", [A.FLAT_FROM_LONG, A.REVERSE, A.ADD_LONG])
def test_a_position_over_a_gap_is_closed_once_and_its_order_in_flight_is_cancelled(pending: Action) -> None:
    lane = Replay(gapped(fee_ticks=0.5), row=7)
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    out = lane.act(pending)
    assert (out.row.item(), out.fill_lots.item(), out.forced_lots.item()) == (10, 0, -1)
    assert out.trades.closed[0].tolist() == [False, True]
    assert out.trades.pnl_ticks[0, 1].item() == 993 - 1001 - 2 * 0.5
    assert (defect(lane, "gap_exits"), defect(lane, "cancelled_orders")) == (1, 1)


def test_a_short_forced_out_beyond_the_visible_depth_pays_one_tick_above_the_worst_level() -> None:
    asks = [[(101, 9), (103, 9)]] * 5 + [[(101, 1), (103, 1)]] * 3
    lane = Replay(
        record([10 * r for r in range(8)], [[(100, 9), (99, 9)]] * 8, asks, unit_lots=4), limit=5, row=3
    )
    lane.act(A.OPEN_SHORT)
    out = lane.act(A.HOLD)
    assert out.trades.exit_ticks[0, 1].item() == (101 + 103 + 2 * 104) / 4
    assert defect(lane, "clamped_exits") == 1


@pytest.mark.parametrize("where", ["tile", "episode"])
def test_tile_and_episode_ends_close_what_is_held_at_the_book_and_charge_it(where: str) -> None:
    limit, left = (9, 100) if where == "tile" else (None, 4)
    lane = Replay(steady(60, fee_ticks=0.5), row=5, limit=limit, left=left)
    outs = [lane.act(action) for action in (A.OPEN_SHORT, A.HOLD, A.HOLD, A.HOLD)]
    assert [out.truncated.item() for out in outs] == [False, False, False, True]
    assert (outs[-1].row.item(), outs[-1].forced_lots.item(), outs[-1].fee_lots.item()) == (9, 1, 1)
    assert outs[-1].trades.pnl_ticks[0].tolist() == [0.0, 1000 - 1001 - 2 * 0.5]
    assert outs[-2].drawdown_penalty.item() < 0
    assert outs[-1].drawdown_penalty.item() == outs[-1].unrealized_r.item() == 0.0, "nothing is held any more"
    assert not lane.lanes.defects.any(), "a planned end is no defect"


def test_only_a_fill_or_a_forced_exit_is_done() -> None:
    lane = Replay(steady(60), row=5)
    moves = [A.OPEN_LONG, A.TRAIL_TIGHTEN, A.ADD_LONG, A.HALF_FLAT, A.HOLD, A.REVERSE, A.FLAT_FROM_SHORT]
    assert [lane.act(move).done.item() for move in moves] == [False] * 5 + [True] * 2


def test_defects_add_up_over_episodes() -> None:
    lane = Replay(gapped(), row=6)
    for _ in range(2):
        lane.act(A.OPEN_LONG)
        while not lane.act(A.HOLD, anchor=6).truncated.item():
            pass
    assert defect(lane, "gap_exits") == 2


def test_defects_are_told_by_name_over_all_lanes_and_none_without_any() -> None:
    m = steady(30)
    lanes = reset_lanes(m.tape, torch.tensor([3, 4]), None, torch.tensor([9, 9]), m.config.market)
    assert defects_text(defect_counts(lanes.defects)) == ""
    counts = lanes.defects.clone()
    counts[:, DEFECTS.index("gap_exits")] = 1
    counts[0, DEFECTS.index("partial_fills")] = 3
    assert defects_text(defect_counts(counts)) == "3 partial_fills, 2 gap_exits"
