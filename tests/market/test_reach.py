"""What the oracle comparison's random markets reach: agreement on paths never taken would prove nothing."""

import numpy as np
import pytest
import torch

from tests.market.recorded import random_market
from trainer.errors import InputError
from trainer.market import DEFECTS, feasible_actions, reset_lanes, step_lanes
from trainer.types import Action

NUM_MARKETS, NUM_LANES, NUM_STEPS = 14, 16, 22


@pytest.fixture(scope="module")
def reached() -> dict[str, int]:
    """How often each action, defect and kind of exit occurred, over seeded markets."""
    rng, counts = np.random.default_rng(3), dict.fromkeys(DEFECTS, 0)
    for seed in range(NUM_MARKETS):
        try:
            m = random_market(seed)
        except InputError:
            continue
        starts = torch.from_numpy(rng.choice(m.tape.anchors.numpy(), NUM_LANES))
        lanes = reset_lanes(m.tape, starts, None, torch.full_like(starts, 12), m.config.market)
        for _ in range(NUM_STEPS):
            mask = feasible_actions(m.tape, lanes, m.config.market).double()
            weight = torch.tensor([1.0, 2, 2, 0.3, 0.3, 3, 3, 1, 1, 1, 1]).double()
            chosen = (mask * weight).numpy()
            action = torch.tensor([int(rng.choice(11, p=row / row.sum())) for row in chosen])
            before = lanes
            lanes, out = step_lanes(m.tape, lanes, action, starts, m.config, m.instrument)
            ended = out.truncated & (out.forced_lots != 0)
            gap = m.tape.exit_is_gap[before.cursor] & (out.row == m.tape.exit_row[before.cursor])
            announced = ~m.tape.exit_is_gap[before.cursor] & (out.row == m.tape.exit_row[before.cursor])
            happened = {
                "forced at a gap": ended & gap,
                "forced at an announced end": ended & announced,
                "forced at an episode's end": ended & ~gap & ~announced,
                "closed by fill and by exit in one step": out.trades.closed.all(1),
                "filled in a later decision": out.fill_delay > 0,
            } | {Action(a).name: action == a for a in range(11)}
            for name, where in happened.items():
                counts[name] = counts.get(name, 0) + int(where.sum())
        for index, name in enumerate(DEFECTS):
            counts[name] += int(lanes.defects[:, index].sum())
    return counts


@pytest.mark.parametrize("action", Action)
def test_every_action_is_executed(reached: dict[str, int], action: Action) -> None:
    assert reached[action.name] > 0


@pytest.mark.parametrize("name", DEFECTS)
def test_every_defect_occurs(reached: dict[str, int], name: str) -> None:
    assert reached[name] > 0


@pytest.mark.parametrize(
    "name",
    [
        "forced at a gap",
        "forced at an announced end",
        "forced at an episode's end",
        "closed by fill and by exit in one step",
        "filled in a later decision",
    ],
)
def test_every_kind_of_exit_and_a_late_fill_occur(reached: dict[str, int], name: str) -> None:
    assert reached[name] > 0
