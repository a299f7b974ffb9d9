"""The training objective of one step: supervised losses on fresh states, RL losses on replayed ones.

SYSTEM.md section 6 and LEARNING.md: TD target R_n + gamma^n (1 - cut) Q_target(s', best feasible action),
advantage at every step with the bootstrap running through a close; only a truncation cuts it.
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
from trainer.learn.replay import Batch


class SupervisedLosses(NamedTuple):
    """Scalars with gradient into the encoder."""

    labels: Tensor
    sizes: Tensor
    returns: Tensor

    def total(self) -> Tensor:
        return self.labels + self.sizes + self.returns


class ReplayLosses(NamedTuple):
    """Scalars with gradient into the heads only, and what the controllers and the replay need to see."""

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


def _best_next(agent: Agent, target: Weights, batch: Batch, span: Tensor) -> Tensor:
    """`[S, Z]` target distribution of the best *feasible* action of s'."""
    logits = agent.q_distribution(target, batch.next_x)
    expected = torch.where(batch.next_feasible, agent.expected_q(logits, span), NEGATIVE)
    best = expected.argmax(-1)[:, None, None].expand(-1, 1, logits.shape[-1])
    return torch.softmax(logits.gather(1, best)[:, 0], -1)


def _critic(
    agent: Agent, w: Weights, target: Weights, batch: Batch, span: Tensor, reward: Tensor, discount: Tensor
) -> _Critic:
    """`reward, discount [S]` in units of the reward scale, discount 0 where there is no successor."""
    atoms = support(span, agent.cfg.atoms)
    logits = agent.q_distribution(w, batch.x)
    expected = agent.expected_q(logits, span)
    with torch.no_grad():
        wanted = project_distribution(_best_next(agent, target, batch, span), atoms, reward, discount)
        old_expected = agent.expected_q(agent.q_distribution(target, batch.x), span)
        own_entropy = -torch.where(wanted > 0, wanted * wanted.clamp(min=1e-12).log(), 0.0).sum(-1)
    taken = batch.action[:, None, None].expand(-1, 1, logits.shape[-1])
    error = categorical_loss(logits.gather(1, taken)[:, 0], wanted)
    return _Critic(expected, old_expected, wanted, own_entropy, error)


def _actor(
    agent: Agent,
    w: Weights,
    batch: Batch,
    expected: Tensor,
    reward: Tensor,
    discount: Tensor,
    slots: dict[str, Tensor],
) -> _Actor:
    """`expected [S, A]` E[Q], from which the policy is distilled as from a constant."""
    value = agent.value(w, batch.x)
    with torch.no_grad():
        bootstrapped = reward + discount * agent.value(w, batch.next_x)
        advantage = bootstrapped - value
    log_policy = agent.policy(w, batch.x, batch.feasible)
    log_prob = log_policy.gather(1, batch.action[:, None])[:, 0]
    clip, temperature = slots["ppo_clip"].clamp(0.01, 0.9), slots["distill_temperature"].clamp(min=1e-3)
    surrogate = clipped_surrogate(log_prob, batch.log_prob, advantage, clip)
    distill = distillation_loss(log_policy, expected, batch.feasible, temperature, NEGATIVE)
    return _Actor(value, bootstrapped, log_policy, log_prob, surrogate, distill)


def _kurtosis(values: Tensor) -> Tensor:
    """Fourth over squared second central moment; 3 for a normal distribution."""
    centred = values - values.mean()
    return centred.pow(4).mean() / centred.square().mean().square().clamp(min=1e-12)


def replay_losses(
    agent: Agent, w: Weights, target: Weights, batch: Batch, slots: dict[str, Tensor]
) -> ReplayLosses:
    """Losses of Q, policy and value on a batch; all zero while the replay is empty."""
    span, scale = slots["atom_span"], slots["reward_scale"].clamp(min=1e-3)
    reward = batch.returns / scale
    discount = torch.where(batch.cut, 0.0, batch.discount)
    pick = batch.action[:, None]
    critic = _critic(agent, w, target, batch, span, reward, discount)
    actor = _actor(agent, w, batch, critic.expected, reward, discount, slots)

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
        supervised.total()
        + replayed.q
        + replayed.policy
        + cfg.value_weight * replayed.value
        + slots["distill_weight"].clamp(0.0, 10.0) * replayed.distill
        - slots["entropy_coef"].clamp(1e-4, 1.0) * replayed.entropy
    )


def fresh_distillation(
    agent: Agent, w: Weights, x: Tensor, feasible: Tensor, slots: dict[str, Tensor]
) -> Tensor:
    """Distillation of Q into the policy on fresh `x [B, D + C]`: its gradient reaches the encoder."""
    with torch.no_grad():
        expected = agent.expected_q(agent.q_distribution(w, x), slots["atom_span"])
    log_policy = agent.policy(w, x, feasible)
    temperature = slots["distill_temperature"].clamp(min=1e-3)
    return distillation_loss(log_policy, expected, feasible, temperature, NEGATIVE).mean()
