"""AdamW on the flat parameter vector (Loshchilov & Hutter 2019, algorithm 2), step count on the device."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import LearnConfig


class Moments(NamedTuple):
    """Adam's state for the flat vector."""

    m: Tensor  # [P]
    v: Tensor  # [P]
    step: Tensor  # [] int64


class Update(NamedTuple):
    """Result of one optimizer step."""

    params: Tensor  # [P]
    moments: Moments
    grad_norm: Tensor  # []
    applied: Tensor  # [] bool: False when the gradient was not finite and nothing moved


def adamw(params: Tensor, grad: Tensor, moments: Moments, rate: Tensor, cfg: LearnConfig) -> Update:
    """One step with element-wise learning rates `rate [P]` after a global norm clip.

    A non-finite gradient leaves parameters, moments and the step count as they were.
    """
    norm = grad.square().sum().sqrt()
    applied = torch.isfinite(norm)
    clean = (
        torch.where(applied, grad, 0.0) * (cfg.max_grad_norm / norm.clamp(min=cfg.max_grad_norm)).nan_to_num()
    )
    beta_1, beta_2 = cfg.adam_betas
    step = moments.step + applied.to(torch.int64)
    m = torch.where(applied, beta_1 * moments.m + (1.0 - beta_1) * clean, moments.m)
    v = torch.where(applied, beta_2 * moments.v + (1.0 - beta_2) * clean.square(), moments.v)
    count = step.clamp(min=1).to(torch.float32)
    m_hat = m / (1.0 - torch.pow(torch.full_like(count, beta_1), count))
    v_hat = v / (1.0 - torch.pow(torch.full_like(count, beta_2), count))
    moved = params * (1.0 - rate * cfg.weight_decay) - rate * m_hat / (v_hat.sqrt() + cfg.adam_eps)
    return Update(torch.where(applied, moved, params), Moments(m, v, step), norm, applied)


def polyak(target: Tensor, online: Tensor, tau: Tensor) -> Tensor:
    """`(1 - tau) target + tau online`; tau 0 keeps, tau 1 copies, exactly."""
    return target * (1.0 - tau) + online * tau
