"""Acting in training: the risk stage comes after sampling and overrules it, from the first step on."""

import pytest
import torch

from benchmarks.step import new_runner, random_walk_tape
from trainer.learn.rollout import _chosen
from trainer.learn.runner import Runner
from trainer.presets import INSTRUMENTS, demo
from trainer.types import NUM_ACTIONS, Action


@pytest.fixture(scope="module")
def runner() -> Runner:
    config = demo().replaced(
        data={"window_rows": 4},
        agent={"hidden": 12, "buckets": (4, 4, 4), "ssd_heads": 2, "ssd_state": 4, "head_hidden": 8},
        learn={"n_backtests": 8, "per_capacity": 64, "batch_size": 8},
    )
    return new_runner(config, INSTRUMENTS["ES"], random_walk_tape(config, 4_000, torch.device("cpu")))


def certain(action: Action, num_lanes: int) -> torch.Tensor:
    """A log policy `[B, A]` that leaves the sampler no choice."""
    log_policy = torch.full((num_lanes, NUM_ACTIONS), -torch.inf)
    log_policy[:, int(action)] = 0.0
    return log_policy


@pytest.mark.parametrize("wanted", [Action.HOLD, Action.TRAIL_TIGHTEN, Action.REVERSE])
def test_a_stop_that_is_hit_overrules_the_sampled_action_and_only_there(
    runner: Runner, wanted: Action
) -> None:
    state, tape = runner.state, runner.learner.tape
    lanes = state.lanes
    # Lane 0 holds a long whose bid fell 50 ticks from its best, lane 1 a short likewise; the rest is flat.
    side = torch.tensor([1, -1] + [0] * 6)
    bid_ask = tape.book[lanes.cursor, :, 0, 0].long()
    price = torch.where(side > 0, bid_ask[:, 0], bid_ask[:, 1])
    held = lanes.unit_lots.clone()
    held[:, 0] = side.abs()
    trail = lanes.unit_trail_ticks.clone()
    trail[:, 0] = 2.0 * side.abs()
    stopped = lanes._replace(
        lots=side, unit_lots=held, unit_trail_ticks=trail, high_water_ticks=side * price + 50 * side.abs()
    )
    assert state.step.item() == 0
    chosen = _chosen(runner.learner, state._replace(lanes=stopped), certain(wanted, 8))
    assert chosen.tolist() == [Action.FLAT_FROM_LONG, Action.FLAT_FROM_SHORT] + [wanted] * 6
