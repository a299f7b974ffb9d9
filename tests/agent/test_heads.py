"""Heads: masks of actions and of horizon buckets, and shapes of the outputs."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.agent.heads import NEGATIVE, bucket_mask, policy_logits, support
from trainer.config import Config
from trainer.learn.random import Stream, uniform
from trainer.presets import default, seed
from trainer.types import NUM_ACTIONS, NUM_CONTEXT, NUM_LABEL_SOURCES, Action

MakeWeights = Callable[..., dict[str, Tensor]]
CPU = torch.device("cpu")


def heads_input(agent: Agent, rows: int, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, agent.cfg.hidden + NUM_CONTEXT, generator=generator)


def every_mask() -> Tensor:
    """`[1024, A]`: all masks in which Hold is feasible."""
    bits = torch.arange(1 << (NUM_ACTIONS - 1))[:, None] >> torch.arange(NUM_ACTIONS - 1) & 1
    return torch.cat([torch.ones(len(bits), 1), bits], 1).bool()


def test_infeasible_actions_are_never_the_greedy_choice(agent: Agent, make_weights: MakeWeights) -> None:
    w, feasible = make_weights(torch.float32, scale=3.0), every_mask()
    action = agent.greedy(w, heads_input(agent, len(feasible)), feasible)
    assert feasible.gather(1, action[:, None]).all()
    assert len(action.unique()) > 5, "one action everywhere would prove nothing"


def test_infeasible_actions_are_never_sampled(agent: Agent, make_weights: MakeWeights) -> None:
    w, feasible = make_weights(torch.float32), every_mask()
    log_policy = agent.policy(w, heads_input(agent, len(feasible)), feasible)
    for step in range(20):
        noise = uniform(torch.tensor(0), torch.tensor(step), Stream.ACTION, tuple(log_policy.shape))
        action = (log_policy - torch.log(-torch.log(noise))).argmax(-1)
        assert feasible.gather(1, action[:, None]).all()


def test_the_policy_sums_to_one_over_feasible_actions(agent: Agent, make_weights: MakeWeights) -> None:
    w, feasible = make_weights(torch.float32, scale=3.0), every_mask()
    probability = agent.policy(w, heads_input(agent, len(feasible)), feasible).exp()
    torch.testing.assert_close(torch.where(feasible, probability, 0.0).sum(-1), torch.ones(len(feasible)))
    assert (probability[~feasible] == 0).all()


def test_only_hold_feasible_gives_hold_with_log_probability_zero(
    agent: Agent, make_weights: MakeWeights
) -> None:
    w = make_weights(torch.float32, scale=3.0)
    feasible = torch.zeros(4, NUM_ACTIONS, dtype=torch.bool)
    feasible[:, Action.HOLD] = True
    x = heads_input(agent, 4)
    assert agent.greedy(w, x, feasible).tolist() == [Action.HOLD] * 4
    log_policy = agent.policy(w, x, feasible)
    assert log_policy[:, Action.HOLD].tolist() == [0.0] * 4
    assert torch.isfinite(log_policy).all()


def test_a_mask_without_any_action_gives_no_nan(agent: Agent, make_weights: MakeWeights) -> None:
    none = torch.zeros(2, NUM_ACTIONS, dtype=torch.bool)
    log_policy = agent.policy(make_weights(torch.float32), heads_input(agent, 2), none)
    torch.testing.assert_close(log_policy, torch.full((2, NUM_ACTIONS), -math.log(NUM_ACTIONS)))


def test_infeasible_logits_carry_no_gradient(agent: Agent, make_weights: MakeWeights) -> None:
    w = make_weights(torch.float32)
    bias = w["pi.bias"].clone().requires_grad_()
    feasible = torch.ones(3, NUM_ACTIONS, dtype=torch.bool)
    feasible[:, 4] = False
    logits = policy_logits(w | {"pi.bias": bias}, heads_input(agent, 3), feasible)
    assert (logits[:, 4] == NEGATIVE).all()
    (grad,) = torch.autograd.grad(torch.log_softmax(logits, -1)[:, 0].sum(), bias)
    assert grad[4] == 0
    assert torch.isfinite(grad).all()
    assert (grad != 0).sum() == NUM_ACTIONS - 1


def test_the_default_q_head_has_11_by_21_outputs() -> None:
    agent = Agent.build(default(), CPU)
    w = agent.layout.unflatten(agent.layout.initial(0))
    assert agent.q_distribution(w, torch.zeros(2, 128 + NUM_CONTEXT)).shape == (2, 11, 21)
    assert w["q.weight"].shape[1] == w["q.bias"].shape[0] == 231


def test_heads_that_act_read_the_context(agent: Agent, make_weights: MakeWeights) -> None:
    w, x = make_weights(torch.float32), heads_input(agent, 2)
    other = x.clone()
    other[:, -NUM_CONTEXT:] += 1.0
    feasible = torch.ones(2, NUM_ACTIONS, dtype=torch.bool)
    assert not torch.equal(agent.q_distribution(w, x), agent.q_distribution(w, other))
    assert not torch.equal(agent.policy(w, x, feasible), agent.policy(w, other, feasible))
    assert not torch.equal(agent.value(w, x), agent.value(w, other))
    assert agent.value(w, x).shape == (2,)


def test_expected_q_is_the_mean_over_the_atoms(agent: Agent) -> None:
    atoms = support(torch.tensor(4.0), agent.cfg.atoms)
    logits = torch.full((1, NUM_ACTIONS, agent.cfg.atoms), -1e4)
    for action in range(NUM_ACTIONS):
        logits[0, action, action] = 0.0  # all mass on atom number `action`
    torch.testing.assert_close(agent.expected_q(logits, torch.tensor(4.0))[0], atoms[:NUM_ACTIONS])
    even = agent.expected_q(torch.zeros(1, NUM_ACTIONS, agent.cfg.atoms), torch.tensor(4.0))
    torch.testing.assert_close(even, torch.zeros(1, NUM_ACTIONS), rtol=0, atol=1e-6)


@pytest.mark.parametrize("span", [1.0, 4.0, 12.0])
def test_the_support_is_symmetric_even_and_reaches_the_span(span: float) -> None:
    atoms = support(torch.tensor(span), 21)
    assert atoms[0].item() == -span
    assert atoms[-1].item() == span
    torch.testing.assert_close(atoms, -atoms.flip(0), rtol=0, atol=1e-7 * span)
    torch.testing.assert_close(atoms.diff(), torch.full((20,), span / 10), rtol=1e-5, atol=0)


def test_each_horizons_outputs_depend_on_its_own_bucket_only(
    agent: Agent, config: Config, make_weights: MakeWeights, generator: torch.Generator
) -> None:
    w, d = make_weights(), agent.cfg.hidden
    h = torch.randn(2, 3, d, generator=generator, dtype=torch.float64, requires_grad=True)
    masks = agent.label_mask.double(), agent.return_mask.double()
    chosen = Agent(agent.cfg, agent.layout, agent.constants, *masks)
    labels, returns = chosen.supervised(w, h)
    assert labels.shape == (2, 3, 3, NUM_LABEL_SOURCES)
    assert returns.shape == (2, 3, config.data.return_classes)
    edges = [0, *torch.tensor(agent.cfg.buckets).cumsum(0).tolist()]
    for horizon, (start, end) in enumerate(pairwise(edges)):
        for outputs in (labels[:, -1, horizon], returns[:, horizon]):
            (grad,) = torch.autograd.grad(outputs.square().sum(), h, retain_graph=True)
            touched = (grad[:, -1] != 0).any(0)
            assert touched[start:end].all()
            assert not touched[:start].any()
            assert not touched[end:].any()


def test_return_logits_read_the_newest_row_only(
    agent: Agent, make_weights: MakeWeights, generator: torch.Generator
) -> None:
    w = make_weights(torch.float32)
    h = torch.randn(2, 3, agent.cfg.hidden, generator=generator, requires_grad=True)
    (grad,) = torch.autograd.grad(agent.supervised(w, h)[1].square().sum(), h)
    assert (grad[:, :-1] == 0).all()
    assert (grad[:, -1] != 0).any()


def test_the_bucket_mask_gives_each_channel_one_horizon(config: Config) -> None:
    mask = bucket_mask(config.agent, 4, CPU)
    assert mask.shape == (10, 12)
    assert (mask.sum(1) == 4).all()
    assert mask.unflatten(1, (3, 4)).sum((0, 2)).tolist() == [20.0, 12.0, 8.0]


@pytest.fixture(scope="module")
def linear(config: Config) -> Agent:
    return Agent.build(config.replaced(agent={"rl_heads": "linear"}), CPU)


def test_the_documents_heads_are_one_matrix_on_h_and_never_see_the_context(linear: Agent) -> None:
    generator, d = torch.Generator().manual_seed(0), linear.cfg.hidden
    w = linear.layout.unflatten(torch.randn(linear.layout.size, generator=generator))
    x = heads_input(linear, 6)
    other = torch.cat([x[:, :d], torch.randn(6, NUM_CONTEXT, generator=generator)], -1)
    feasible = torch.ones(6, NUM_ACTIONS, dtype=torch.bool)
    for found, moved, name in (
        (linear.q_distribution(w, x).flatten(1), linear.q_distribution(w, other).flatten(1), "q"),
        (policy_logits(w, x, feasible), policy_logits(w, other, feasible), "pi"),
        (linear.value(w, x)[:, None], linear.value(w, other)[:, None], "v"),
    ):
        torch.testing.assert_close(found, x[:, :d] @ w[f"{name}.weight"] + w[f"{name}.bias"])
        assert torch.equal(found, moved), f"{name} read the context"
    names = {p.name for p in linear.layout.parameters if p.group in ("q", "pi", "v")}
    assert names == {f"{name}.{part}" for name in ("q", "pi", "v") for part in ("weight", "bias")}


def test_the_defaults_heads_see_the_context(agent: Agent, make_weights: MakeWeights) -> None:
    w, x = make_weights(torch.float32), heads_input(agent, 6)
    other = torch.cat([x[:, : agent.cfg.hidden], -x[:, agent.cfg.hidden :]], -1)
    assert not torch.allclose(agent.value(w, x), agent.value(w, other))
    assert not torch.allclose(agent.q_distribution(w, x), agent.q_distribution(w, other))


def test_the_documents_q_head_has_128_times_231_weights() -> None:
    layout = Agent.build(seed(), CPU).layout
    assert next(p for p in layout.parameters if p.name == "q.weight").shape == (128, 231)
