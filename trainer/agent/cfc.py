"""Closed-form continuous-time (CfC) recurrence, stepped by the real time between rows.

Hasani et al. 2022, "Closed-form continuous-time neural networks", eq. 10, in the gated form:
h' = tanh(f) (1 - s) + tanh(g) s with s = sigmoid(t_a dt + t_b). Channels recur inside their horizon bucket
only, and each bucket sees time on its own scale (SYSTEM.md section 4, GPU.md "second prototype").
"""

import math

import torch
from torch import Tensor

from trainer.agent.layout import Parameter, Weights
from trainer.config import AgentConfig


def cfc_parameters(prefix: str, cfg: AgentConfig) -> list[Parameter]:
    """Weights of the recurrence: one input and one block-diagonal recurrent matrix for all four gates."""
    d = cfg.hidden
    return [
        Parameter(f"{prefix}.norm", (d,), "bce", "ones"),
        Parameter(f"{prefix}.in", (d, 4 * d), "bce", "xavier"),
        Parameter(f"{prefix}.bias", (4 * d,), "bce", "zeros"),
        Parameter(f"{prefix}.recurrent", (d, 4 * d), "bce", "xavier"),
    ]


def bucket_of_channel(cfg: AgentConfig, device: torch.device) -> Tensor:
    """`[D] int64` horizon bucket of every channel; buckets cover all channels (config validation)."""
    sizes = torch.tensor(cfg.buckets, device=device)
    return torch.repeat_interleave(
        torch.arange(len(cfg.buckets), device=device), sizes, output_size=cfg.hidden
    )


def recurrent_mask(cfg: AgentConfig, device: torch.device) -> Tensor:
    """`[D, 4D] float32`, 1 where both channels lie in one bucket."""
    bucket = bucket_of_channel(cfg, device)
    return (bucket[:, None] == bucket[None, :]).float().repeat(1, 4)


def time_scale(cfg: AgentConfig, horizons: tuple[int, ...], device: torch.device) -> Tensor:
    """`[D] float32`: a bucket of horizon h sees elapsed time over sqrt(h), so slow buckets forget slowly."""
    scale = torch.tensor([1.0 / math.sqrt(h) for h in horizons], device=device)
    return scale[bucket_of_channel(cfg, device)]


def cfc(w: Weights, prefix: str, x: Tensor, elapsed: Tensor, mask: Tensor, scale: Tensor) -> Tensor:
    """`x [B, K, D], elapsed [B, K] -> h [B, K, D]`: the state after each row, from rows up to that one."""
    d = x.shape[-1]
    inputs = x @ w[f"{prefix}.in"] + w[f"{prefix}.bias"]
    recurrent = w[f"{prefix}.recurrent"] * mask
    h = torch.zeros_like(x[:, 0])
    states = []
    # unbind, not indexing: the backward of an index fills a whole [B, K, 4D] with zeros for every row.
    for now, passed in zip(inputs.unbind(1), (elapsed[..., None] * scale).unbind(1), strict=True):
        f, g, t_a, t_b = (now + h @ recurrent).split(d, -1)
        s = torch.sigmoid(t_a * passed + t_b)
        f = torch.tanh(f)
        h = f + (torch.tanh(g) - f) * s
        states.append(h)
    return torch.stack(states, 1)
