"""The documents' stop-loss (lifetime peak equity minus realized P&L) as the policy sees it."""

import math

import pytest
import torch

from tests.market.recorded import Replay, steady
from trainer.market import CONTEXT_NAMES, context_features
from trainer.types import Action


def stop_distance(lane: Replay, mean: float) -> float:
    m = lane.market
    values = context_features(m.tape, lane.lanes, torch.tensor(mean), m.config.market, m.instrument)
    return values[0, CONTEXT_NAMES.index("stop_distance")].item()


@pytest.mark.parametrize(
    ("measure", "left"),
    [("open_trade", 2 * 3.0 - 1.0), ("lifetime_peak", 2 * 3.0 - 2.0)],
)
def test_the_distance_to_the_stop_is_that_of_the_stop_in_use(measure: str, left: float) -> None:
    lane = Replay(steady(30, fee_ticks=0.0, trail_min_ticks=40.0, stop_loss_measure=measure))
    for action in (Action.OPEN_LONG, Action.FLAT_FROM_LONG) * 2:  # each round trip loses the spread of 1 tick
        lane.act(action)
    lane.act(Action.OPEN_LONG)
    assert lane.lanes.realized_ticks.item() == -2.0
    assert stop_distance(lane, mean=3.0) == pytest.approx(math.log1p(left)), "lost: 1 tick open, 2 over all"


def test_a_locked_out_lane_stands_behind_its_stop_the_moment_it_opens() -> None:
    lane = Replay(steady(60, fee_ticks=0.0, trail_min_ticks=40.0, stop_loss_measure="lifetime_peak"))
    for action in (Action.OPEN_LONG, Action.FLAT_FROM_LONG) * 8:
        lane.act(action)
    lane.act(Action.OPEN_LONG)
    assert lane.risk(Action.HOLD, mean=1.0) == (Action.FLAT_FROM_LONG, True)
    lost = -lane.lanes.realized_ticks.item()
    assert lost >= 8.0
    assert stop_distance(lane, mean=1.0) == pytest.approx(-math.log1p(lost - 2.0))
