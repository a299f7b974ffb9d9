"""Mamba2's state-space duality (SSD) block for short windows, as one masked matmul per head.

Dao & Gu 2024, "Transformers are SSMs", eq. 16: y = (L o C B^T) x with L[i, j] = exp(sum_{j<k<=i} a_k dt_k).
For K <= 64 the quadratic form is the fastest on a GPU (GPU.md lever 3). The short convolution of the
published block is left out, as in the documents' block: the window is short and the selection gates come
first.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from trainer.agent.layout import Parameter, Weights
from trainer.config import AgentConfig

_DT_PAD = 16  # columns reserved for dt, so that the projection stays a multiple of 16 wide (GPU.md)


def ssd_parameters(prefix: str, cfg: AgentConfig) -> list[Parameter]:
    """Weights of one block named `prefix.*`."""
    inner, heads = cfg.hidden * cfg.ssd_expand, cfg.ssd_heads
    width = 2 * inner + 2 * cfg.ssd_state + _DT_PAD
    # Decay rates and step sizes spread geometrically over heads: memories from ~2 to ~64 rows from the start.
    steps = [math.log(math.expm1(0.5 / 4.0**i)) for i in range(heads)]
    return [
        Parameter(f"{prefix}.norm", (cfg.hidden,), "bce", "ones"),
        Parameter(f"{prefix}.in", (cfg.hidden, width), "bce", "xavier"),
        Parameter(f"{prefix}.log_a", (heads,), "bce", "zeros"),
        Parameter(f"{prefix}.skip", (heads,), "bce", "ones"),
        Parameter(f"{prefix}.dt_bias", (heads,), "bce", "values", tuple(steps)),
        Parameter(f"{prefix}.out", (inner, cfg.hidden), "bce", "xavier"),
    ]


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Root-mean-square normalisation over the last axis (Zhang & Sennrich 2019)."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def decay_matrix(log_decay: Tensor) -> Tensor:
    """`[B, K, H] -> [B, H, K, K]`: exp of the decay summed over j < k <= i, zero above the diagonal.

    The sums are masked additions, not a matmul (TF32 would cost 4e-3) and not `cumsum` (not deterministic on
    CUDA). The mask is applied inside the exponent: masking afterwards would give inf * 0.
    """
    k = log_decay.shape[1]
    row = torch.arange(k, device=log_decay.device)
    until = (row[None, :] <= row[:, None])[None, None]  # [1, 1, i, k]
    total = torch.where(until, log_decay.transpose(1, 2)[:, :, None, :], 0.0).sum(
        -1
    )  # [B, H, K] inclusive sums
    span = total[..., :, None] - total[..., None, :]
    return torch.where(until, span, -torch.inf).exp()


def ssd_block(w: Weights, prefix: str, x: Tensor, cfg: AgentConfig) -> Tensor:
    """Residual block `[B, K, D] -> [B, K, D]`, causal over K."""
    b, k, _ = x.shape
    inner, heads, state = cfg.hidden * cfg.ssd_expand, cfg.ssd_heads, cfg.ssd_state
    projected = rms_norm(x, w[f"{prefix}.norm"]) @ w[f"{prefix}.in"]
    pieces: tuple[Tensor, ...] = projected.split([inner, inner, state, state, _DT_PAD], -1)
    gate, value, key, query, dt = pieces
    dt = F.softplus(dt[..., :heads] + w[f"{prefix}.dt_bias"])  # [B, K, H]
    decay = decay_matrix(-torch.exp(w[f"{prefix}.log_a"]) * dt)
    mixing = (query @ key.transpose(1, 2))[:, None] * decay * dt.transpose(1, 2)[:, :, None, :]
    v = F.silu(value).view(b, k, heads, inner // heads).transpose(1, 2)
    y = mixing @ v + w[f"{prefix}.skip"][None, :, None, None] * v
    y = y.transpose(1, 2).reshape(b, k, inner) * F.silu(gate)
    return x + y @ w[f"{prefix}.out"]
