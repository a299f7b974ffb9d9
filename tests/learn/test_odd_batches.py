"""Batches at the ends of what can be sampled, through the losses of the replay in float32."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.learn.test_controllers import COLD, LEARN, WARM, seen, start
from tests.learn.test_objective import S, agent, batch_of, gradient, live, slots
from trainer.agent.agent import Agent, support
from trainer.agent.losses import project_distribution
from trainer.learn.controllers import (
    Observations,
    blend_ema,
    update_averages,
    update_learning_rates,
    update_outputs,
)
from trainer.learn.objective import ReplayLosses, SupervisedLosses, replay_losses, total_loss
from trainer.learn.optimizer import Moments, adamw
from trainer.learn.replay import Batch
from trainer.types import NUM_ACTIONS, Action

__all__ = ["agent"]  # the fixture

EVERY = torch.ones(S, dtype=torch.bool)


def losses_of(agent: Agent, batch: Batch, **values: float) -> tuple[Tensor, ReplayLosses, Tensor]:
    """Flat weights, losses and the gradient of their total."""
    flat, w = live(agent, 0)
    found = replay_losses(agent, w, live(agent, 1)[1], batch, slots(**values), LEARN)
    none = SupervisedLosses(*(torch.zeros(()) for _ in range(3)))
    return flat, found, gradient(total_loss(none, found, slots(**values), LEARN), flat)


def finite(losses: ReplayLosses) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in losses)


@pytest.mark.parametrize("successor", [0.0, 7.0, 1e18])
def test_a_batch_of_ends_alone_is_a_regression_on_the_rewards(agent: Agent, successor: float) -> None:
    batch = batch_of(agent, cut=EVERY)
    batch = batch._replace(next_x=torch.full_like(batch.next_x, successor))
    _, found, grad = losses_of(agent, batch)
    assert finite(found)
    assert torch.isfinite(grad).all()
    # Without a successor the target is the reward itself, two neighbouring atoms of the support.
    mass = project_distribution(
        torch.full((S, 21), 1 / 21), support(torch.tensor(4.0), 21), batch.returns / 2.0, torch.zeros(S)
    )
    assert ((mass > 1e-6).sum(-1) <= 2).all()
    w = live(agent, 0)[1]
    taken = agent.q_distribution(w, batch.x).gather(1, batch.action[:, None, None].expand(-1, 1, 21))[:, 0]
    crossed = -(mass * torch.log_softmax(taken, -1)).sum(-1)
    assert found.q.item() == pytest.approx((crossed * batch.weight).mean().item(), rel=1e-5)
    assert found.value.item() == pytest.approx(
        (agent.value(w, batch.x) - batch.returns / 2.0).square().mean().item(), rel=1e-5
    )


@pytest.mark.parametrize("reward", [0.0, 5.0, 1e6, -1e6, 1e12])
def test_equal_rewards_however_large_give_finite_losses_and_gradients(agent: Agent, reward: float) -> None:
    scale = max(abs(reward), 1.0)  # as the controller would have it
    _, found, grad = losses_of(agent, batch_of(agent, returns=torch.full((S,), reward)), reward_scale=scale)
    assert finite(found)
    assert torch.isfinite(grad).all()
    assert found.value.item() < 1e3


def test_one_transition_repeated_is_learned_until_nothing_is_left_to_learn(agent: Agent) -> None:
    batch = batch_of(agent, cut=EVERY, weight=torch.ones(S), returns=torch.full((S,), 1.7))
    one = {
        name: value[:1].expand_as(value).contiguous()
        for name, value in batch._asdict().items()
        if isinstance(value, Tensor)
    }
    batch = batch._replace(**one)
    flat, _ = live(agent, 0)
    moments = Moments(torch.zeros_like(flat), torch.zeros_like(flat), torch.zeros((), dtype=torch.int64))
    params, errors, values = flat.detach(), [], []
    for _ in range(150):
        params = params.requires_grad_()
        w = agent.layout.unflatten(params)
        found = replay_losses(agent, w, live(agent, 1)[1], batch, slots(), LEARN)
        assert finite(found)
        (grad,) = torch.autograd.grad(found.q + found.value, params)
        update = adamw(params.detach(), grad, moments, torch.full_like(grad, 1e-2), LEARN)
        params, moments = update.params, update.moments
        errors.append(found.error.max().item())
        values.append(found.value.item())
        assert found.td_kurtosis.item() == pytest.approx(0.0, abs=1e-6)
    assert errors[-1] < 0.02 * errors[0]
    assert values[-1] < 1e-3 * values[0]
    expected = agent.expected_q(agent.q_distribution(w, batch.x), torch.tensor(4.0))
    assert expected[0, batch.action[0]].item() == pytest.approx(1.7 / 2.0, abs=0.05)


def test_a_batch_that_could_only_hold_teaches_the_policy_nothing(agent: Agent) -> None:
    hold = torch.zeros(S, NUM_ACTIONS, dtype=torch.bool)
    hold[:, Action.HOLD] = True
    batch = batch_of(
        agent, feasible=hold, next_feasible=hold, action=torch.zeros(S, dtype=torch.int64),
        log_prob=torch.zeros(S),
    )  # fmt: skip
    _, found, grad = losses_of(agent, batch)
    assert finite(found)
    parts = agent.layout.unflatten(grad)
    assert not any(grad.any() for name, grad in parts.items() if name.startswith("pi."))
    assert all(grad.any() for name, grad in parts.items() if name.startswith(("q.", "v.")))
    assert (found.entropy.item(), found.distill.item(), found.policy_kl.item()) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("size", [1e3, 1e8, 1e30, 3e38])
def test_probabilities_that_underflow_to_zero_leave_losses_and_gradients_finite(
    agent: Agent, size: float
) -> None:
    flat, w = live(agent, 0)
    bias = torch.full((NUM_ACTIONS,), -size)
    bias[Action.HOLD] = 0.0
    sure = w | {"pi.weight": w["pi.weight"] * 0.0, "pi.bias": bias.requires_grad_()}
    batch = batch_of(agent)
    log_policy = agent.policy(sure, batch.x, batch.feasible)
    away = batch.action != Action.HOLD
    assert away.any()
    chances = log_policy.gather(1, batch.action[:, None])[:, 0].exp()
    assert (chances[away] == 0).all(), "they do not underflow"
    for log_prob in (batch.log_prob, torch.full((S,), -1e9), log_policy.detach().min(-1).values):
        found = replay_losses(agent, sure, w, batch._replace(log_prob=log_prob), slots(), LEARN)
        assert math.isfinite(found.policy.item())
        assert math.isfinite(found.entropy.item())
        (grad,) = torch.autograd.grad(found.policy - found.entropy, bias)
        assert torch.isfinite(grad).all()
    assert flat.requires_grad


FLOATS = st.floats(width=32) | st.sampled_from([0.0, 1e-42, 1e6, 1e38, -3e38, 3e38, math.nan, math.inf])
READINGS = [name for name in Observations._fields if name not in ("num_trades", "num_wins", "learned")]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(FLOATS, min_size=1, max_size=30))
def test_an_average_of_anything_stays_finite(readings: list[float]) -> None:
    average = torch.tensor(0.0)
    for reading in readings:
        average = blend_ema(average, torch.tensor(reading), torch.tensor(True))
        assert torch.isfinite(average), reading


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    st.lists(st.fixed_dictionaries(dict.fromkeys(READINGS, FLOATS)), min_size=1, max_size=4),
    st.booleans(),
)
def test_controllers_that_see_anything_hand_on_a_finite_bus_within_its_bounds(
    steps: list[dict[str, float]], warm: bool
) -> None:
    values, counts = start()
    for number, readings in enumerate(steps):
        observed = seen(**readings, num_trades=torch.tensor(3), learned=torch.tensor(True))
        counts = counts | {"updates": torch.tensor(50 * (number + 1)), "lr_observations": torch.tensor(5000)}
        losses = torch.tensor([readings[name] for name in READINGS[:5]])
        values, counts = update_learning_rates(values, counts, losses, LEARN)
        values = update_averages(values, observed, LEARN)
        values = update_outputs(values, counts, WARM if warm else COLD, LEARN)
    assert [name for name, value in values.items() if not torch.isfinite(value)] == []
    bounds = {"gamma": (0.9, 0.999), "target_tau": (0.001, 0.02), "ppo_clip": (0.05, 0.5),
              "entropy_coef": (1e-3, 1.0), "per_alpha": (0.2, 0.8), "atom_span": (4.0, 12.0)}  # fmt: skip
    for name, (low, high) in bounds.items():
        assert low - 1e-6 <= values[name].item() <= high + 1e-6, name
