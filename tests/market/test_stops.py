"""Trailing stops and the stop-loss."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.market.recorded import Replay, record, steady
from trainer.market.stops import trail_ticks
from trainer.types import Action

A = Action


def test_tighten_and_loosen_undo_each_other_and_are_bounded() -> None:
    lane = Replay(steady(60))
    lane.act(A.OPEN_LONG)

    def trail() -> float:
        return trail_ticks(lane.lanes, lane.market.config.market)[0, 0].item()

    seen = [trail()]
    while A.TRAIL_TIGHTEN in lane.allowed():
        lane.act(A.TRAIL_TIGHTEN)
        seen.append(trail())
    assert seen[1] == pytest.approx(2.0 / 1.25)
    assert seen[-1] == 1.0, "half the initial trail"
    for expected in reversed(seen[:-1]):
        lane.act(A.TRAIL_LOOSEN)
        assert trail() == expected, "reciprocal, also from the bound"
    while A.TRAIL_LOOSEN in lane.allowed():
        lane.act(A.TRAIL_LOOSEN)
    assert trail() == 4.0, "twice the initial trail"


@pytest.mark.parametrize(("opens", "sign", "flat"), [(A.OPEN_LONG, 1, 3), (A.OPEN_SHORT, -1, 4)])
def test_trailing_stop_acts_only_strictly_beyond_its_level(opens: Action, sign: int, flat: int) -> None:
    lane = Replay(steady(20, moves=[0, 0, 3 * sign, -2 * sign, -1 * sign]))
    lane.act(opens)
    lane.act(A.HOLD)
    lane.act(A.HOLD)
    assert lane.risk(A.HOLD) == (A.HOLD, False), "2 ticks under the high-water mark: on the stop, not beyond"
    lane.act(A.HOLD)
    assert lane.risk(A.HOLD) == (Action(flat), True)


def test_risk_stage_replaces_whatever_the_policy_chose() -> None:
    lane = Replay(steady(20, moves=[0, 0, -9]))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    for action in (A.HOLD, A.ADD_LONG, A.REVERSE, A.HALF_FLAT):
        assert lane.risk(action) == (A.FLAT_FROM_LONG, True)


def test_stop_loss_is_strict_and_inactive_before_any_trade_closed() -> None:
    lane = Replay(steady(20, moves=[0, 0, -2], fee_ticks=0.0, trail_min_ticks=50.0))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    assert lane.lanes.open_pnl_ticks.item() == -3.0
    assert lane.risk(A.HOLD, mean=0.0) == (A.HOLD, False)
    assert lane.risk(A.HOLD, mean=1.5) == (A.HOLD, False), "3 / 1.5 is 2, not more"
    assert lane.risk(A.HOLD, mean=1.49) == (A.FLAT_FROM_LONG, True)
    assert lane.risk(A.HOLD, mean=0.01) == (A.FLAT_FROM_LONG, True), "3 / floor 1 > 2"
    assert lane.risk(A.HOLD, mean=0.01, ratio=3.0) == (A.HOLD, False), "the mean is floored at 1 tick a lot"


def test_stop_loss_counts_the_fees_so_far() -> None:
    lane = Replay(steady(20, moves=[0, 0, -2], fee_ticks=0.5, trail_min_ticks=50.0))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    assert lane.risk(A.HOLD, mean=1.5) == (A.FLAT_FROM_LONG, True), "3.5 / 1.5 > 2"


def test_flat_lane_is_never_stopped() -> None:
    lane = Replay(steady(20))
    assert lane.risk(A.OPEN_LONG, mean=0.001, ratio=0.0) == (A.OPEN_LONG, False)


def test_no_stop_while_an_order_is_in_flight() -> None:
    lane = Replay(steady(20, moves=[0, 0, 0, 0, -9], latency_ns=25_000_000))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    lane.act(A.HOLD)
    lane.act(A.FLAT_FROM_LONG)
    assert lane.risk(A.HOLD) == (A.HOLD, False)


def churn(measure: str) -> tuple[Replay, float]:
    """A lane that lost eight round trips and has just opened again, and its mean |trade P&L|."""
    lane = Replay(steady(60, stop_loss_measure=measure, trail_min_ticks=50.0))
    losses = []
    for _ in range(8):
        lane.act(A.OPEN_LONG)
        losses.append(lane.act(A.FLAT_FROM_LONG).trades.pnl_ticks[0, 0].abs().item())
    lane.act(A.OPEN_LONG)
    return lane, sum(losses) / len(losses)


def test_documents_stop_loss_locks_a_losing_lane_out_and_ours_does_not() -> None:
    lane, mean = churn("lifetime_peak")
    assert lane.risk(A.HOLD, mean=mean) == (A.FLAT_FROM_LONG, True), "a fresh entry is flattened at once"
    lane, mean = churn("open_trade")
    assert lane.risk(A.HOLD, mean=mean) == (A.HOLD, False)


@given(moves=st.lists(st.sampled_from([A.TRAIL_TIGHTEN, A.TRAIL_LOOSEN]), max_size=14))
@settings(max_examples=25, deadline=None)
def test_any_row_of_trail_moves_stays_bounded_and_each_move_can_be_undone(moves: list[Action]) -> None:
    lane = Replay(steady(60))
    lane.act(A.OPEN_LONG)

    def trail() -> float:
        return trail_ticks(lane.lanes, lane.market.config.market)[0, 0].item()

    for move in moves:
        if move not in lane.allowed():
            continue
        before = trail()
        lane.act(move)
        assert 1.0 <= trail() <= 4.0
        assert (trail() < before) == (move == A.TRAIL_TIGHTEN)
        lane.act(A.TRAIL_LOOSEN if move == A.TRAIL_TIGHTEN else A.TRAIL_TIGHTEN)
        assert trail() == before
        lane.act(move)


def test_a_later_unit_starts_at_its_own_trail_and_moves_past_a_unit_at_its_bound() -> None:
    lane = Replay(steady(60))
    lane.act(A.OPEN_LONG)
    while A.TRAIL_TIGHTEN in lane.allowed():
        lane.act(A.TRAIL_TIGHTEN)
    lane.act(A.ADD_LONG)
    lane.act(A.TRAIL_TIGHTEN)
    assert trail_ticks(lane.lanes, lane.market.config.market)[0, :2].tolist() == pytest.approx([1.0, 1.6])


def test_stop_of_the_tightest_unit_closes_the_whole_position() -> None:
    lane = Replay(steady(20, moves=[0, 0, 0, 0, 0, 0, 0, -2]))
    lane.act(A.OPEN_LONG)
    for _ in range(4):
        lane.act(A.TRAIL_TIGHTEN)
    lane.act(A.ADD_LONG)
    lane.act(A.HOLD)
    assert trail_ticks(lane.lanes, lane.market.config.market)[0, :2].tolist() == [1.0, 2.0]
    assert lane.risk(A.HOLD) == (A.FLAT_FROM_LONG, True), "2 ticks down: beyond 1, only at the other's 2"


def test_trailing_stop_acts_before_any_trade_has_closed_and_closes_by_a_fill() -> None:
    lane = Replay(steady(20, moves=[0, 0, -5]))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    action, stopped = lane.risk(A.ADD_LONG, mean=0.0)
    assert (action, stopped) == (A.FLAT_FROM_LONG, True)
    assert lane.lanes.lots.item() == 1, "the stage orders, it does not close"
    out = lane.act(action)
    assert (out.done.item(), out.fill_lots.item(), lane.lanes.lots.item()) == (True, -1, 0)


def test_stop_loss_of_a_short_closes_it_with_its_own_action() -> None:
    lane = Replay(steady(20, moves=[0, 0, 2], fee_ticks=0.0, trail_min_ticks=50.0))
    lane.act(A.OPEN_SHORT)
    lane.act(A.HOLD)
    assert lane.lanes.open_pnl_ticks.item() == 1000 - 1003
    assert lane.risk(A.HOLD, mean=1.5) == (A.HOLD, False)
    assert lane.risk(A.HOLD, mean=1.49) == (A.FLAT_FROM_SHORT, True)


def test_stop_loss_marks_at_the_levels_a_close_would_walk() -> None:
    bids = [[(100, 1), (90, 9)]] * 6
    lane = Replay(
        record(
            [10 * r for r in range(6)], bids, [[(101, 9), (102, 9)]] * 6,
            unit_lots=2, fee_ticks=0.0, trail_min_ticks=50.0,
        )
    )  # fmt: skip
    lane.act(A.OPEN_LONG)
    assert lane.lanes.open_pnl_ticks.item() == 100 + 90 - 202
    assert lane.risk(A.HOLD, mean=5.9) == (A.FLAT_FROM_LONG, True), "12 / 5.9 > 2; at the best bid 2 / 5.9"


def test_profit_given_back_is_no_loss_of_the_open_trade() -> None:
    lane = Replay(steady(20, moves=[0, 0, 30, -25], fee_ticks=0.0, trail_min_ticks=90.0))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    lane.act(A.HOLD)
    assert lane.lanes.peak_equity_ticks.item() - lane.lanes.equity_ticks.item() == 25.0
    assert lane.risk(A.HOLD, mean=1.0) == (A.HOLD, False)


def test_first_closed_trade_arms_the_stop_loss() -> None:
    lane = Replay(steady(20, moves=[0, 0, 0, 0, -7], fee_ticks=0.0, trail_min_ticks=50.0))
    lane.act(A.OPEN_LONG)
    assert lane.risk(A.HOLD, mean=0.0) == (A.HOLD, False)
    first = lane.act(A.FLAT_FROM_LONG).trades.pnl_ticks[0, 0].abs().item()
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    assert first == 1.0
    assert lane.risk(A.HOLD, mean=first) == (A.FLAT_FROM_LONG, True)
