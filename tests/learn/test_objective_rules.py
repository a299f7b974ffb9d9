"""The documents' forms of the objective, each switched alone, against loops; and that no other loss moves."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.learn.test_objective import (
    LEARN,
    S,
    agent,
    batch_of,
    gradient,
    group_of,
    live,
    slots,
    target_by_loop,
    touched,
)
from trainer.agent.agent import Agent
from trainer.config import LearnConfig
from trainer.learn.objective import ReplayLosses, SupervisedLosses, replay_losses, total_loss
from trainer.learn.replay import Batch, StepClose, UntilClose
from trainer.types import NUM_ACTIONS

__all__ = ["agent"]  # the fixture


def ruled(**rules: Any) -> LearnConfig:
    return LEARN.model_copy(update=rules)


def losses_of(agent: Agent, batch: Batch, learn: LearnConfig = LEARN) -> ReplayLosses:
    return replay_losses(agent, live(agent, 0)[1], live(agent, 1)[1], batch, slots(), learn)


def changed(one: ReplayLosses, other: ReplayLosses) -> set[str]:
    """Fields that differ in any bit."""
    return {
        name for name in ReplayLosses._fields if not torch.equal(getattr(one, name), getattr(other, name))
    }


DONE = torch.arange(S) % 3 == 0
REWARD = torch.linspace(-3.0, 3.0, S)


def test_done_only_teaches_the_policy_at_closes_alone_and_ends_their_return_there(agent: Agent) -> None:
    batch = batch_of(agent, step_close=StepClose(REWARD, DONE))
    found = losses_of(agent, batch, ruled(advantage="done_only"))
    w = live(agent, 0)[1]
    value, after = agent.value(w, batch.x).tolist(), agent.value(w, batch.next_x).tolist()
    log_prob = agent.policy(w, batch.x, batch.feasible).gather(1, batch.action[:, None])[:, 0].tolist()
    squares, surrogates = [], []
    for i in range(S):
        discount = 0.0 if batch.cut[i] else 0.7
        ret = (REWARD[i].item() if DONE[i] else batch.returns[i].item()) / 2.0
        ret += 0.0 if DONE[i] else discount * after[i]
        advantage = ret - value[i] if DONE[i] else 0.0
        ratio = math.exp(min(max(log_prob[i] + 1.1, -2.0), 2.0))
        squares.append((value[i] - ret) ** 2)
        surrogates.append(-min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage))
    assert found.value.item() == pytest.approx(sum(squares) / S, rel=1e-4)
    assert found.policy.item() == pytest.approx(sum(surrogates) / S, rel=1e-4)
    assert changed(found, losses_of(agent, batch_of(agent))) == {"policy", "value"}


def test_done_only_gives_an_entry_no_gradient_of_the_policy(agent: Agent) -> None:
    flat, w = live(agent, 0)
    never = StepClose(REWARD, torch.zeros(S, dtype=torch.bool))
    batch = batch_of(agent, step_close=never)
    losses = replay_losses(agent, w, w, batch, slots(), ruled(advantage="done_only"))
    assert not gradient(losses.policy, flat).any(), "LEARNING.md 1: entries are never taught"
    default = replay_losses(agent, w, w, batch_of(agent), slots(), LEARN)
    assert gradient(default.policy, flat).any()


def test_an_infinite_value_of_the_successor_never_reaches_a_close(agent: Agent) -> None:
    # A mask that multiplies would make 0 x inf = NaN of it.
    batch = batch_of(agent, step_close=StepClose(REWARD, torch.ones(S, dtype=torch.bool)))
    w = live(agent, 0)[1] | {"v.bias": torch.tensor([math.inf])}
    at_infinity = replay_losses(agent, w, w, batch, slots(), ruled(advantage="done_only"))
    assert not torch.isnan(at_infinity.value)


def test_the_done_cut_ends_q_targets_at_the_close_and_nothing_else(agent: Agent) -> None:
    close = UntilClose(REWARD, DONE)
    batch = batch_of(agent, until_close=close)
    found = losses_of(agent, batch, ruled(td_cut="done"))
    w, target = live(agent, 0)[1], live(agent, 1)[1]
    # By the loop of the default: returns up to the close, and a cut wherever there is one.
    same = batch._replace(returns=close.returns, cut=batch.cut | DONE)
    crossed = []
    for i in range(S):
        wanted = target_by_loop(agent, target, same, 4.0, 2.0, i)
        logits = agent.q_distribution(w, batch.x[i : i + 1])[0, batch.action[i]]
        log_chance = torch.log_softmax(logits, -1).tolist()
        crossed.append(
            -sum(p * lp for p, lp in zip(wanted, log_chance, strict=True)) * batch.weight[i].item()
        )
    assert found.q.item() == pytest.approx(sum(crossed) / S, rel=1e-4)
    assert changed(found, losses_of(agent, batch_of(agent))) == {"q", "error", "td_kurtosis"}


def test_the_documents_target_takes_actions_that_cannot_be_taken(agent: Agent) -> None:
    w, target = live(agent, 0)[1], live(agent, 1)[1]
    only_hold = torch.zeros(S, NUM_ACTIONS, dtype=torch.bool)
    only_hold[:, 0] = True
    batch = batch_of(agent, next_feasible=only_hold, cut=torch.zeros(S, dtype=torch.bool))
    every = batch._replace(next_feasible=torch.ones_like(only_hold))
    found = replay_losses(agent, w, target, batch, slots(), ruled(target_max="all"))
    assert torch.equal(found.q, replay_losses(agent, w, target, every, slots(), LEARN).q)
    assert changed(found, replay_losses(agent, w, target, batch, slots(), LEARN)) == {
        "q", "error", "td_kurtosis",
    }  # fmt: skip


def test_returns_paid_at_close_are_not_divided_by_the_scale_again(agent: Agent) -> None:
    w = live(agent, 0)[1]
    stored = batch_of(agent)
    found = replay_losses(agent, w, w, stored, slots(reward_scale=2.0), ruled(reward="at_close"))
    plain = replay_losses(agent, w, w, stored, slots(reward_scale=1.0), LEARN)
    assert changed(found, plain) == set()


@pytest.mark.parametrize(("weight", "name"), [("policy_weight", "policy"), ("distill_weight", "distill")])
def test_a_weight_of_zero_switches_its_loss_off_and_no_other(agent: Agent, weight: str, name: str) -> None:
    found, plain = (
        losses_of(agent, batch_of(agent), ruled(**{weight: 0.0})),
        losses_of(agent, batch_of(agent)),
    )
    assert changed(found, plain) == {name}
    assert getattr(found, name).item() == 0.0
    assert not getattr(found, name).requires_grad


def test_weights_scale_their_loss_in_the_total() -> None:
    parts = [torch.tensor(float(2**i)) for i in range(8)]
    zero = torch.zeros(())
    supervised, replayed = SupervisedLosses(*parts[:3]), ReplayLosses(*parts[3:], *([zero] * 5))
    learn = ruled(supervised_weight=0.25, policy_weight=3.0)
    found = total_loss(supervised, replayed, slots(distill_weight=0.0, entropy_coef=1e-4), learn)
    assert found.item() == pytest.approx(0.25 * 7 + 8 + 3.0 * 16 + 0.5 * 32 - 1e-4 * 128)


def test_without_policy_gradient_the_policy_still_learns_from_q(agent: Agent) -> None:
    flat, w = live(agent, 0)
    learn = ruled(policy_weight=0.0)
    losses = replay_losses(agent, w, w, batch_of(agent), slots(), learn)
    none = SupervisedLosses(*(torch.zeros(()) for _ in range(3)))
    reached: Tensor = gradient(total_loss(none, losses, slots(), learn), flat)
    assert group_of(agent, "pi") <= touched(agent, reached)
