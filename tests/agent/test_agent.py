"""The agent as one value: what it refuses, and that what acts is what its parts say."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.agent.heads import support
from trainer.config import Config
from trainer.errors import InputError
from trainer.presets import demo
from trainer.types import NUM_ACTIONS, NUM_CONTEXT

MakeWeights = Callable[..., dict[str, Tensor]]
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("buckets", "horizons"),
    [((32, 32), (1, 2, 4)), ((22, 21, 21), (1, 2)), ((32, 32), (1, 2)), ((22, 21, 21), (0, 1, 2))],
)
def test_horizons_without_a_bucket_of_their_own_are_refused(
    buckets: tuple[int, ...], horizons: tuple[int, ...]
) -> None:
    config = demo().replaced(agent={"buckets": buckets}, data={"horizons": horizons})
    with pytest.raises(InputError, match=r"agent\.buckets: buckets .* do not fit horizons"):
        Agent.build(config, CPU)


def test_greedy_is_the_most_probable_action_of_the_policy(agent: Agent, make_weights: MakeWeights) -> None:
    w, generator = make_weights(torch.float32), torch.Generator().manual_seed(0)
    x = torch.randn(64, agent.cfg.hidden + NUM_CONTEXT, generator=generator)
    feasible = torch.rand(64, NUM_ACTIONS, generator=generator) < 0.5
    feasible[:, 0] = True
    assert torch.equal(agent.greedy(w, x, feasible), agent.policy(w, x, feasible).argmax(-1))


def test_expected_q_equals_a_loop_over_the_atoms(agent: Agent) -> None:
    logits = torch.randn(2, NUM_ACTIONS, agent.cfg.atoms, generator=torch.Generator().manual_seed(0))
    atoms = support(torch.tensor(6.0), agent.cfg.atoms).tolist()
    found = agent.expected_q(logits, torch.tensor(6.0))
    for b in range(2):
        for a in range(NUM_ACTIONS):
            chances = logits[b, a].double().exp()
            expected = sum(p * z for p, z in zip((chances / chances.sum()).tolist(), atoms, strict=True))
            assert found[b, a].item() == pytest.approx(expected, abs=1e-5)


def test_two_builds_of_one_configuration_are_the_same_agent(config: Config, agent: Agent) -> None:
    again = Agent.build(config, CPU)
    assert again.layout == agent.layout
    assert torch.equal(again.layout.initial(5), agent.layout.initial(5))
    assert torch.equal(again.constants.time_scale, agent.constants.time_scale)
