"""The training objective: targets by loop, and which loss reaches which weights."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.step import new_runner, random_walk_tape
from trainer.agent.agent import Agent, support
from trainer.agent.layout import GROUPS
from trainer.config import Config
from trainer.learn.objective import (
    ReplayLosses,
    SupervisedLosses,
    fresh_distillation,
    replay_losses,
    supervised_losses,
    total_loss,
)
from trainer.learn.replay import Batch
from trainer.learn.runner import Runner
from trainer.learn.step import Parts
from trainer.presets import INSTRUMENTS, demo
from trainer.types import NUM_ACTIONS, NUM_CONTEXT, NUM_LABEL_SOURCES

CPU = torch.device("cpu")
LEARN = demo().learn
S = 12
Weights = dict[str, Tensor]


def small() -> Config:
    agent = {"hidden": 12, "buckets": (5, 4, 3), "ssd_state": 3, "head_hidden": 8}
    learn = {"n_backtests": 8, "per_capacity": 64, "batch_size": 32, "n_step": 3}
    return demo().replaced(agent=agent, learn=learn, data={"window_rows": 5, "decision_rows": 4})


@pytest.fixture(scope="module")
def agent() -> Agent:
    torch.set_num_threads(1)
    return Agent.build(small(), CPU)


def live(agent: Agent, seed: int) -> tuple[Tensor, Weights]:
    """A flat vector with gradient, and its views: every weight random."""
    flat = torch.randn(agent.layout.size, generator=torch.Generator().manual_seed(seed)) * 0.4
    flat.requires_grad_()
    return flat, agent.layout.unflatten(flat)


def slots(**values: float) -> Weights:
    plain = {
        "atom_span": 4.0, "reward_scale": 2.0, "ppo_clip": 0.2, "distill_temperature": 0.5,
        "distill_weight": 1.0, "entropy_coef": 0.035,
    }  # fmt: skip
    return {name: torch.tensor(value) for name, value in (plain | values).items()}


def batch_of(agent: Agent, **replaced: Any) -> Batch:
    generator = torch.Generator().manual_seed(11)
    width = agent.cfg.hidden + NUM_CONTEXT
    feasible = torch.rand(2, S, NUM_ACTIONS, generator=generator) < 0.5
    feasible[..., 0] = True
    action = torch.multinomial(feasible[0].float(), 1, generator=generator)[:, 0]
    batch = Batch(
        slot=torch.arange(S),
        weight=torch.linspace(0.2, 1.0, S),
        x=torch.randn(S, width, generator=generator),
        next_x=torch.randn(S, width, generator=generator),
        feasible=feasible[0],
        next_feasible=feasible[1],
        action=action,
        returns=torch.randn(S, generator=generator) * 3,
        discount=torch.full((S,), 0.7),
        log_prob=torch.full((S,), -1.1),
        cut=torch.arange(S) % 4 == 0,
    )
    return batch._replace(**replaced)


def gradient(loss: Tensor, flat: Tensor) -> Tensor:
    (grad,) = torch.autograd.grad(loss, flat, retain_graph=True, allow_unused=True)
    return torch.zeros_like(flat) if grad is None else grad


def touched(agent: Agent, grad: Tensor) -> set[str]:
    return {name for name, view in agent.layout.unflatten(grad).items() if view.any()}


def group_of(agent: Agent, group: str) -> set[str]:
    return {p.name for p in agent.layout.parameters if p.group == group}


def target_by_loop(
    agent: Agent, target: Weights, batch: Batch, span: float, scale: float, i: int
) -> list[float]:
    """C51's projected target of sample i, the best action chosen among feasible ones only."""
    atoms = support(torch.tensor(span), agent.cfg.atoms).tolist()
    chances = torch.softmax(agent.q_distribution(target, batch.next_x[i : i + 1])[0], -1).tolist()
    means = [sum(p * z for p, z in zip(row, atoms, strict=True)) for row in chances]
    best = max((a for a in range(NUM_ACTIONS) if batch.next_feasible[i, a]), key=lambda a: means[a])
    discount = 0.0 if batch.cut[i] else batch.discount[i].item()
    out, spacing = [0.0] * len(atoms), atoms[1] - atoms[0]
    for p, z in zip(chances[best], atoms, strict=True):
        place = min(max(batch.returns[i].item() / scale + discount * z, -span), span)
        position = min(max((place + span) / spacing, 0.0), len(atoms) - 1.0)
        lower = min(int(position), len(atoms) - 2)
        out[lower] += p * (1 - (position - lower))
        out[lower + 1] += p * (position - lower)
    return out


def test_q_loss_and_priorities_equal_a_loop_over_samples(agent: Agent) -> None:
    _, w = live(agent, 0)
    _, target = live(agent, 1)
    batch = batch_of(agent)
    found = replay_losses(agent, w, target, batch, slots(), LEARN)
    losses, errors = [], []
    for i in range(S):
        wanted = target_by_loop(agent, target, batch, 4.0, 2.0, i)
        log_chance = torch.log_softmax(
            agent.q_distribution(w, batch.x[i : i + 1])[0, batch.action[i]], -1
        ).tolist()
        crossed = -sum(p * lp for p, lp in zip(wanted, log_chance, strict=True))
        losses.append(crossed * batch.weight[i].item())
        errors.append(crossed + sum(p * math.log(p) for p in wanted if p > 0))
    assert found.q.item() == pytest.approx(sum(losses) / S, rel=1e-4)
    torch.testing.assert_close(found.error, torch.tensor(errors).clamp(min=0.0), rtol=1e-3, atol=1e-4)


def test_value_and_policy_losses_equal_a_loop_over_samples(agent: Agent) -> None:
    _, w = live(agent, 0)
    batch = batch_of(agent)
    found = replay_losses(agent, w, w, batch, slots(), LEARN)
    value, after = agent.value(w, batch.x).tolist(), agent.value(w, batch.next_x).tolist()
    log_policy = agent.policy(w, batch.x, batch.feasible)
    squares, surrogates, gaps, entropies = [], [], [], []
    for i in range(S):
        discount = 0.0 if batch.cut[i] else 0.7
        ret = batch.returns[i].item() / 2.0 + discount * after[i]
        log_ratio = log_policy[i, batch.action[i]].item() + 1.1
        ratio = math.exp(min(max(log_ratio, -2.0), 2.0))
        advantage = ret - value[i]
        squares.append((value[i] - ret) ** 2)
        surrogates.append(-min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage))
        gaps.append(ratio - 1 - min(max(log_ratio, -2.0), 2.0))
        chances = [
            lp for lp, ok in zip(log_policy[i].tolist(), batch.feasible[i].tolist(), strict=True) if ok
        ]
        entropies.append(-sum(math.exp(lp) * lp for lp in chances))
    means = {
        name: sum(v) / S for name, v in (("value", squares), ("policy", surrogates), ("entropy", entropies))
    }
    assert {name: getattr(found, name).item() for name in means} == pytest.approx(means, rel=1e-4)
    assert found.policy_kl.item() == pytest.approx(sum(gaps) / S, rel=1e-4)
    assert found.divergence.item() == pytest.approx(0.0, abs=1e-6)
    assert found.return_square.item() == pytest.approx(batch.returns.square().mean().item())


def test_a_truncated_sample_ignores_its_successor(agent: Agent) -> None:
    _, w = live(agent, 0)
    batch = batch_of(agent, cut=torch.ones(S, dtype=torch.bool))
    clean = replay_losses(agent, w, w, batch, slots(), LEARN)
    other = replay_losses(agent, w, w, batch._replace(next_x=batch.next_x * 0 + 7.0), slots(), LEARN)
    for name, one, two in zip(ReplayLosses._fields, clean, other, strict=True):
        # Equal but for the rounding of a softmax's sum.
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5, msg=name)
    open_ended = batch._replace(cut=torch.zeros(S, dtype=torch.bool))
    assert (clean.q - replay_losses(agent, w, w, open_ended, slots(), LEARN).q).abs() > 1e-2


def test_infeasible_actions_of_the_next_state_never_set_the_target(agent: Agent) -> None:
    _, w = live(agent, 0)
    _, target = live(agent, 1)
    only_hold = torch.zeros(S, NUM_ACTIONS, dtype=torch.bool)
    only_hold[:, 0] = True
    batch = batch_of(agent, next_feasible=only_hold)
    before = replay_losses(agent, w, target, batch, slots(), LEARN).q
    bias = target["q.bias"].detach().clone().view(NUM_ACTIONS, -1)
    bias[1:, -1] += 50.0  # every other action now promises the largest return
    after = replay_losses(agent, w, target | {"q.bias": bias.flatten()}, batch, slots(), LEARN).q
    torch.testing.assert_close(before, after)


def test_each_replayed_loss_reaches_its_own_head_only(agent: Agent) -> None:
    flat, w = live(agent, 0)
    target_flat, target = live(agent, 1)
    losses = replay_losses(agent, w, target, batch_of(agent), slots(), LEARN)
    reaches = {"q": "q", "policy": "pi", "value": "v", "distill": "pi", "entropy": "pi"}
    for name, group in reaches.items():
        assert touched(agent, gradient(getattr(losses, name), flat)) == group_of(agent, group), name
        assert not gradient(getattr(losses, name), target_flat).any()
    measured = set(ReplayLosses._fields) - set(reaches)
    assert not [name for name in measured if getattr(losses, name).requires_grad]


def test_supervised_losses_reach_encoder_and_supervised_heads_only(agent: Agent) -> None:
    flat, w = live(agent, 0)
    generator = torch.Generator().manual_seed(2)
    b, k = 4, 5
    h = agent.encode(
        w, torch.randn(b, k, 40, generator=generator), torch.rand(b, k, generator=generator),
        torch.randn(b, NUM_CONTEXT, generator=generator),
    )  # fmt: skip
    labels = (torch.rand(b, k, 3, NUM_LABEL_SOURCES, generator=generator) > 0.5).float()
    valid, classes = torch.ones(b, k, 3, dtype=torch.bool), torch.zeros(b, 3, dtype=torch.int64)
    losses = supervised_losses(agent, w, h, labels, valid, classes, torch.ones(3))
    reached = touched(agent, gradient(losses.total(), flat))
    assert reached == group_of(agent, "bce") | group_of(agent, "aux")
    encoder = {name for name in group_of(agent, "bce") if not name.startswith("labels")}
    assert encoder <= touched(agent, gradient(losses.returns, flat)), "return heads train the encoder too"


def test_fresh_distillation_teaches_encoder_input_and_policy_but_not_q(agent: Agent) -> None:
    flat, w = live(agent, 0)
    x = batch_of(agent).x.requires_grad_()
    loss = fresh_distillation(agent, w, x, batch_of(agent).feasible, slots())
    assert touched(agent, gradient(loss, flat)) == group_of(agent, "pi")
    (grad,) = torch.autograd.grad(loss, x)
    assert grad[:, : agent.cfg.hidden].any()


def test_an_empty_replay_gives_zero_losses_and_no_gradient(agent: Agent) -> None:
    flat, w = live(agent, 0)
    losses = replay_losses(agent, w, w, batch_of(agent, weight=torch.zeros(S)), slots(), LEARN)
    summed = ("q", "policy", "value", "distill", "entropy", "divergence", "policy_kl")
    assert {name: getattr(losses, name).item() for name in summed} == dict.fromkeys(summed, 0.0)
    none = SupervisedLosses(*(torch.zeros(()) for _ in range(3)))
    assert not gradient(total_loss(none, losses, slots(), small().learn), flat).any()


@pytest.mark.parametrize("returns", [1e30, -1e30])
def test_absurd_returns_give_finite_q_losses(agent: Agent, returns: float) -> None:
    _, w = live(agent, 0)
    losses = replay_losses(agent, w, w, batch_of(agent, returns=torch.full((S,), returns)), slots(), LEARN)
    assert torch.isfinite(losses.q)
    assert torch.isfinite(losses.error).all()


def test_the_total_is_the_weighted_sum_and_rewards_entropy(agent: Agent) -> None:
    parts = [torch.tensor(float(2**i)) for i in range(8)]
    supervised = SupervisedLosses(*parts[:3])
    zero = torch.zeros(())
    replayed = ReplayLosses(*parts[3:], *([zero] * 5))
    found = total_loss(supervised, replayed, slots(distill_weight=3.0, entropy_coef=0.1), small().learn)
    assert found.item() == pytest.approx(1 + 2 + 4 + 8 + 16 + 0.5 * 32 + 3.0 * 64 - 0.1 * 128)


@pytest.fixture(scope="module")
def runner() -> Runner:
    torch.set_num_threads(1)
    return new_runner(small(), INSTRUMENTS["ES"], random_walk_tape(small(), 4000, CPU))


def test_every_parameter_gets_a_gradient_in_a_training_step(runner: Runner) -> None:
    grads = []

    def spy(learner: Any, state: Any, grad: Tensor, *rest: Any) -> Any:
        grads.append(grad)
        return plain(learner, state, grad, *rest)

    plain = runner.parts.adapt
    runner.parts = Parts(adapt=spy)
    for _ in range(6):  # n = 3: the first transitions are stored in step 4
        runner.advance()
    layout = runner.learner.agent.layout
    first, last = layout.unflatten(grads[0]), layout.unflatten(grads[-1])
    missing = [name for name, grad in last.items() if not grad.any()]
    assert missing == []
    assert all(torch.isfinite(grad).all() for grad in grads)
    empty = {p.name for p in layout.parameters if p.group in GROUPS[2:]}
    assert {name for name, grad in first.items() if not grad.any()} == empty, (
        "an empty replay trains no RL head"
    )


def test_stored_actions_were_feasible_and_their_log_probabilities_are_the_policys(runner: Runner) -> None:
    config = runner.learner.config
    while int(runner.state.replay.filled) < config.learn.per_capacity:
        runner.advance()
    rows = runner.state.replay.rows[: config.learn.per_capacity]
    log_prob, action, feasible = rows[:, -6], rows[:, -5].long(), rows[:, -4].long()
    assert ((feasible >> action) & 1 == 1).all()
    assert (log_prob <= 0).all()
    assert (log_prob > -30).all()
    assert len(action.unique()) > 3
