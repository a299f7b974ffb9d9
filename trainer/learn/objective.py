"""The training objective of one step: supervised losses on fresh states, RL losses on replayed ones.

SYSTEM.md section 6 and LEARNING.md: TD target R_n + gamma^n (1 - cut) Q_target(s', best feasible action),
advantage at every step with the bootstrap running through a close; only a truncation cuts it. The documents'
forms of each rule are branches on `LearnConfig`, taken in Python while a step is traced.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.agent.agent import NEGATIVE, Agent, support
from trainer.agent.layout import Weights
from trainer.agent.losses import (
    categorical_loss,
    clipped_surrogate,
    distillation_loss,
    label_loss,
    policy_entropy,
    project_distribution,
    return_loss,
)
from trainer.config import LearnConfig
from trainer.learn.replay import Batch, StepClose, UntilClose
from trainer.learn.reward import SPAN_BOUNDS, unit_ticks


class SupervisedLosses(NamedTuple):
    """Scalars with gradient into the encoder."""

    labels: Tensor
    sizes: Tensor
    returns: Tensor

    def total(self) -> Tensor:
        return self.labels + self.sizes + self.returns


class ReplayLosses(NamedTuple):
    """Scalars with gradient into the heads, with `encoder_rl` into the encoder too, and what controllers and
    replay need to see."""

    q: Tensor
    policy: Tensor
    value: Tensor
    distill: Tensor
    entropy: Tensor
    error: Tensor  # [S] C51 cross-entropy above the target's own entropy: the priority
    divergence: Tensor  # mean |E[Q] - E[Q_target]|
    policy_kl: Tensor
    td_kurtosis: Tensor
    return_square: Tensor


def supervised_losses(
    agent: Agent, w: Weights, h: Tensor, labels: Tensor, valid: Tensor, classes: Tensor, move_sd: Tensor
) -> SupervisedLosses:
    """`h [B, K, D], labels [B, K, H, S], valid [B, K, H], classes [B, H]` of the same rows."""
    label_logits, return_logits = agent.supervised(w, h)
    direction, size = label_loss(label_logits, labels, valid, move_sd)
    return SupervisedLosses(direction, size, return_loss(return_logits, classes))


class _Critic(NamedTuple):
    """Q on a batch, and what it is trained towards."""

    expected: Tensor  # [S, A] E[Q], with gradient
    old_expected: Tensor  # [S, A] E[Q] of the target network
    wanted: Tensor  # [S, Z] the projected target distribution
    own_entropy: Tensor  # [S] of `wanted`: what even a perfect prediction has as cross-entropy
    error: Tensor  # [S] C51 cross-entropy of the taken action, with gradient


class _Actor(NamedTuple):
    """Policy and value on a batch, with gradient but for the value's target."""

    value: Tensor  # [S] units of the reward scale
    bootstrapped: Tensor  # [S] its target
    log_policy: Tensor  # [S, A]
    log_prob: Tensor  # [S] of the taken action
    surrogate: Tensor  # [S] PPO's clipped loss
    distill: Tensor  # [S] KL from the policy that Q would have


class _Units(NamedTuple):
    """Rewards of a batch in units of the reward scale; discount 0 where there is no successor, all `[S]`."""

    returns: Tensor
    discount: Tensor
    until_close: Tensor  # Q's own pair: the two above unless a close ends its return
    close_discount: Tensor
    reward: Tensor  # of the step alone; `returns` unless a rule reads it


def _in_units(batch: Batch, slots: dict[str, Tensor], cfg: LearnConfig) -> _Units:
    ticks = unit_ticks(slots, cfg)

    def scaled(values: Tensor) -> Tensor:
        return values if ticks is None else values / ticks

    returns, discount = scaled(batch.returns), torch.where(batch.cut, 0.0, batch.discount)
    until_close, close_discount, reward = returns, discount, returns
    if isinstance(batch.until_close, UntilClose):
        until_close = scaled(batch.until_close.returns)
        close_discount = torch.where(batch.until_close.closes, 0.0, discount)
    if isinstance(batch.step_close, StepClose):
        reward = scaled(batch.step_close.reward)
    return _Units(returns, discount, until_close, close_discount, reward)


def _best_next(agent: Agent, target: Weights, batch: Batch, span: Tensor, cfg: LearnConfig) -> Tensor:
    """`[S, Z]` target distribution of the best action of s', by default of the *feasible* ones."""
    logits = agent.q_distribution(target, batch.next_x)
    expected = agent.expected_q(logits, span)
    if cfg.target_max == "feasible":
        expected = torch.where(batch.next_feasible, expected, NEGATIVE)
    best = expected.argmax(-1)[:, None, None].expand(-1, 1, logits.shape[-1])
    return torch.softmax(logits.gather(1, best)[:, 0], -1)


def _critic(
    agent: Agent, w: Weights, target: Weights, batch: Batch, span: Tensor, units: _Units, cfg: LearnConfig
) -> _Critic:
    atoms = support(span, agent.cfg.atoms)
    logits = agent.q_distribution(w, batch.x)
    expected = agent.expected_q(logits, span)
    with torch.no_grad():
        best = _best_next(agent, target, batch, span, cfg)
        wanted = project_distribution(best, atoms, units.until_close, units.close_discount)
        old_expected = agent.expected_q(agent.q_distribution(target, batch.x), span)
        own_entropy = -torch.where(wanted > 0, wanted * wanted.clamp(min=1e-12).log(), 0.0).sum(-1)
    taken = batch.action[:, None, None].expand(-1, 1, logits.shape[-1])
    error = categorical_loss(logits.gather(1, taken)[:, 0], wanted)
    return _Critic(expected, old_expected, wanted, own_entropy, error)


def _bootstrapped(value: Tensor, next_value: Tensor, batch: Batch, units: _Units) -> tuple[Tensor, Tensor]:
    """The value's target and the advantage, `[S]`.

    By default the return runs through a close and every step has an advantage. `done_only`: the return of a
    closing step is its reward alone, and only such a step has an advantage.
    """
    bootstrapped = units.returns + units.discount * next_value
    if not isinstance(batch.step_close, StepClose):
        return bootstrapped, bootstrapped - value
    done = batch.step_close.done
    bootstrapped = torch.where(done, units.reward, bootstrapped)
    return bootstrapped, torch.where(done, bootstrapped - value, 0.0)


def _actor(
    agent: Agent,
    w: Weights,
    batch: Batch,
    expected: Tensor,
    units: _Units,
    slots: dict[str, Tensor],
    cfg: LearnConfig,
) -> _Actor:
    """`expected [S, A]` E[Q], from which the policy is distilled as from a constant."""
    value = agent.value(w, batch.x)
    with torch.no_grad():
        bootstrapped, advantage = _bootstrapped(value, agent.value(w, batch.next_x), batch, units)
    log_policy = agent.policy(w, batch.x, batch.feasible)
    log_prob = log_policy.gather(1, batch.action[:, None])[:, 0]
    clip, temperature = slots["ppo_clip"].clamp(0.01, 0.9), slots["distill_temperature"].clamp(min=1e-3)
    if cfg.policy_weight > 0:
        surrogate = clipped_surrogate(log_prob, batch.log_prob, advantage, clip)
    else:
        surrogate = torch.zeros_like(log_prob)
    if cfg.distill_weight > 0:
        distill = distillation_loss(log_policy, expected, batch.feasible, temperature, NEGATIVE)
    else:
        distill = torch.zeros_like(log_prob)
    return _Actor(value, bootstrapped, log_policy, log_prob, surrogate, distill)


def _kurtosis(values: Tensor) -> Tensor:
    """Fourth over squared second central moment; 3 for a normal distribution."""
    centred = values - values.mean()
    return centred.pow(4).mean() / centred.square().mean().square().clamp(min=1e-12)


def replay_losses(
    agent: Agent, w: Weights, target: Weights, batch: Batch, slots: dict[str, Tensor], cfg: LearnConfig
) -> ReplayLosses:
    """Losses of Q, policy and value on a batch; all zero while the replay is empty.

    `slots` are the bus by name, `target` the target network's weights of Q, `cfg` the rules.
    """
    span, pick = slots["atom_span"].clamp(*SPAN_BOUNDS), batch.action[:, None]
    units = _in_units(batch, slots, cfg)
    critic = _critic(agent, w, target, batch, span, units, cfg)
    actor = _actor(agent, w, batch, critic.expected, units, slots, cfg)

    def mean(values: Tensor) -> Tensor:
        return torch.where(batch.weight > 0, values, 0.0).mean()

    with torch.no_grad():
        mean_wanted = (critic.wanted * support(span, agent.cfg.atoms)).sum(-1)
        kurtosis = _kurtosis(mean_wanted - critic.expected.gather(1, pick)[:, 0])
        ratio = (actor.log_prob - batch.log_prob).clamp(-2.0, 2.0)
        lag = (critic.expected - critic.old_expected).gather(1, pick)[:, 0].abs()
    return ReplayLosses(
        q=mean(critic.error * batch.weight),
        policy=mean(actor.surrogate),
        value=mean((actor.value - actor.bootstrapped).square()),
        distill=mean(actor.distill),
        entropy=mean(policy_entropy(actor.log_policy, batch.feasible)),
        error=(critic.error.detach() - critic.own_entropy).clamp(min=0.0),
        divergence=mean(lag),
        policy_kl=mean(ratio.exp() - 1.0 - ratio),
        td_kurtosis=kurtosis,
        return_square=mean(batch.returns.square()),
    )


def total_loss(
    supervised: SupervisedLosses, replayed: ReplayLosses, slots: dict[str, Tensor], cfg: LearnConfig
) -> Tensor:
    """The weighted sum that is differentiated once."""
    return (
        _weighted(cfg.supervised_weight, supervised.total())
        + replayed.q
        + _weighted(cfg.policy_weight, replayed.policy)
        + cfg.value_weight * replayed.value
        + slots["distill_weight"].clamp(0.0, 10.0) * replayed.distill
        - slots["entropy_coef"].clamp(1e-4, 1.0) * replayed.entropy
    )


def _weighted(weight: float, loss: Tensor) -> Tensor:
    """`weight * loss`; without a multiplication by 1."""
    return loss if weight == 1.0 else weight * loss


def fresh_distillation(
    agent: Agent, w: Weights, x: Tensor, feasible: Tensor, slots: dict[str, Tensor]
) -> Tensor:
    """Distillation of Q into the policy on fresh `x [B, D + C]`: its gradient reaches the encoder."""
    with torch.no_grad():
        expected = agent.expected_q(agent.q_distribution(w, x), slots["atom_span"].clamp(*SPAN_BOUNDS))
    log_policy = agent.policy(w, x, feasible)
    temperature = slots["distill_temperature"].clamp(min=1e-3)
    return distillation_loss(log_policy, expected, feasible, temperature, NEGATIVE).mean()
