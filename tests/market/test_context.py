"""The 16 context features."""

import pytest
import torch

from tests.market.recorded import Replay, steady
from trainer.market import CONTEXT_NAMES, context_features
from trainer.types import NUM_CONTEXT, Action

A = Action


def context(lane: Replay, mean: float = 0.0) -> dict[str, float]:
    m = lane.market
    values = context_features(m.tape, lane.lanes, torch.tensor(mean), m.config.market, m.instrument)
    assert values.shape == (1, NUM_CONTEXT)
    assert values.dtype == torch.float32
    return dict(zip(CONTEXT_NAMES, values[0].tolist(), strict=True))


def test_fresh_lane_knows_only_clock_and_cost() -> None:
    got = context(Replay(steady(30, fee_ticks=0.25), left=100))
    known = {"log_session_left", "log_episode_left", "round_trip_cost"}
    assert all(value == 0.0 for name, value in got.items() if name not in known)
    assert got["round_trip_cost"] == pytest.approx(torch.log1p(torch.tensor(1.5)).item())


def test_position_shows_r_peak_and_what_was_given_back() -> None:
    lane = Replay(steady(30, moves=[0, 0, 4, -2], fee_ticks=0.0, trail_range_multiple=1e-9))
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    lane.act(A.HOLD)
    got = context(lane)
    assert got["unrealized_r"] == pytest.approx((1002.5 - 1001) / 2)
    assert got["peak_r"] == pytest.approx((1004.5 - 1001) / 2)
    assert got["given_back_r"] == pytest.approx(1.0)
    assert got["inventory"] == got["units_used"] == 0.25
    assert got["stop_distance"] == 0.0, "1004 - 2 is where the bid stands"


def test_nearest_stop_may_be_the_stop_loss() -> None:
    lane = Replay(steady(30, fee_ticks=0.0, trail_min_ticks=40.0))
    lane.act(A.OPEN_LONG)
    far, near = context(lane)["stop_distance"], context(lane, mean=3.0)["stop_distance"]
    assert far == pytest.approx(torch.log1p(torch.tensor(40.0)).item())
    assert near == pytest.approx(torch.log1p(torch.tensor(2 * 3.0 - 1.0)).item()), "1 tick is already lost"


def test_order_in_flight_and_recent_shares_show() -> None:
    lane = Replay(steady(30, latency_ns=25_000_000, recent_rate=0.5))
    lane.act(A.OPEN_LONG)
    got = context(lane)
    assert (got["order_pending"], got["order_share"], got["inventory"]) == (1.0, 0.5, 0.0)


def test_losses_show_in_win_share_and_last_trade() -> None:
    lane = Replay(steady(30, moves=[0, 0, 5], fee_ticks=0.0, recent_rate=0.5))
    lane.act(A.OPEN_LONG)
    lane.act(A.FLAT_FROM_LONG)
    assert context(lane)["win_share"] == 0.5
    lane.act(A.OPEN_LONG)
    lane.act(A.FLAT_FROM_LONG)
    got = context(lane)
    assert got["win_share"] == 0.25
    assert got["last_trade_r"] < 0
    lane.act(A.HOLD)
    assert context(lane)["log_since_close"] == pytest.approx(torch.log1p(torch.tensor(1.0)).item() / 2)


def test_values_are_finite_and_bounded_in_an_extreme_market() -> None:
    lane = Replay(steady(30, moves=[0, 0, -(10**6)], fee_ticks=1e6), left=10**9)
    lane.act(A.OPEN_LONG)
    lane.act(A.HOLD)
    for mean in (0.0, 1e-30, 1e30):
        assert all(abs(value) <= 5.0 for value in context(lane, mean).values())
