"""Losses of the heads. All are means over samples; validity is branched on (`where`), never multiplied."""

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.types import LabelSource

_BINARY = (LabelSource.DIRECTION, LabelSource.LONG_PROFIT, LabelSource.SHORT_PROFIT)
_SIZES = (LabelSource.LONG_SIZE, LabelSource.SHORT_SIZE)


def _masked_mean(values: Tensor, valid: Tensor) -> Tensor:
    """Mean of `values` where `valid`; zero where nothing is valid."""
    return torch.where(valid, values, 0.0).sum() / valid.sum().clamp(min=1)


def label_loss(logits: Tensor, labels: Tensor, valid: Tensor, move_sd: Tensor) -> tuple[Tensor, Tensor]:
    """Binary cross-entropy of direction and profits, and Huber loss of the move's sizes.

    `logits, labels [B, K, H, S]`, `valid [B, K, H] bool`, `move_sd [H]` ticks (sizes are divided by it).
    """
    labels = torch.where(valid[..., None], labels, 0.0)
    bce = F.binary_cross_entropy_with_logits(
        logits[..., : len(_BINARY)], labels[..., : len(_BINARY)], reduction="none"
    )
    sizes = labels[..., len(_BINARY) :] / move_sd[:, None]
    huber = F.smooth_l1_loss(logits[..., len(_BINARY) :], sizes, reduction="none")
    return _masked_mean(bce.mean(-1), valid), _masked_mean(huber.mean(-1), valid)


def return_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of the forward-return class: `logits [B, H, classes]`, `target [B, H]`, -1 = no label."""
    valid = target >= 0
    log_probability = torch.log_softmax(logits, -1)
    picked = log_probability.gather(-1, target.clamp(min=0)[..., None])[..., 0]
    return _masked_mean(-picked, valid)


def project_distribution(probability: Tensor, atoms: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
    """Categorical projection of `reward + discount * z` on the atoms (Bellemare et al. 2017, algorithm 1).

    `probability [B, Z]`, `atoms [Z]`, `reward, discount [B] -> [B, Z]`. Dense form: each shifted atom
    spreads by a triangular kernel, so there is one writer per cell and no scatter.
    """
    spacing = atoms[1] - atoms[0]
    shifted = (reward[:, None] + discount[:, None] * atoms).clamp(atoms[0], atoms[-1])
    weight = (1.0 - (shifted[:, :, None] - atoms).abs() / spacing).clamp(min=0.0)  # [B, from, to]
    return (probability[:, None, :] @ weight)[:, 0]


def categorical_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy `[B]` of `logits [B, Z]` against `target [B, Z]` (C51's loss and priority)."""
    return -(target * torch.log_softmax(logits, -1)).sum(-1)


def clipped_surrogate(
    log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip: Tensor, max_log_ratio: float = 2.0
) -> Tensor:
    """PPO's clipped surrogate `[B]`, as a loss (Schulman et al. 2017, eq. 7), log-ratio clamped first."""
    ratio = (log_prob - old_log_prob).clamp(-max_log_ratio, max_log_ratio).exp()
    gain, bounded = ratio * advantage, torch.maximum(torch.minimum(ratio, 1.0 + clip), 1.0 - clip) * advantage
    # `where`, as the minimum of equals halves its gradient, and at a bound that has been halved once before.
    return -torch.where(gain <= bounded, gain, bounded)


def policy_entropy(log_policy: Tensor, feasible: Tensor) -> Tensor:
    """`[B]` entropy (nats) over feasible actions of `log_policy [B, A]`."""
    return -torch.where(feasible, log_policy.exp() * log_policy, 0.0).sum(-1)


def distillation_loss(
    log_policy: Tensor, expected_q: Tensor, feasible: Tensor, temperature: Tensor, negative: float
) -> Tensor:
    """KL(softmax(E[Q] / T) || policy) `[B]` over feasible actions; Q is a constant here."""
    scores = torch.where(feasible, expected_q.detach() / temperature, negative)
    log_teacher = torch.log_softmax(scores, -1)
    gap = torch.where(feasible, log_teacher - log_policy, 0.0)
    return (log_teacher.exp() * gap).sum(-1)
