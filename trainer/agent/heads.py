"""Heads on the encoder's state: supervised heads per horizon, C51 Q, policy and value.

| head      | reads                              | its gradient reaches        |
|-----------|------------------------------------|-----------------------------|
| labels    | fresh h at all K rows, own bucket  | itself and the encoder      |
| returns   | fresh h at the newest row          | itself and the encoder      |
| Q         | replayed [h, context]              | itself                      |
| policy    | replayed [h, context]              | itself                      |
| value     | replayed [h, context]              | itself                      |

With `learn.encoder_rl` > 0 the last three train the encoder too; with `learn.encoder_distill` > 0 so does the
policy's distillation on fresh h.

LEARNING.md: heads that do not read the context cannot see the position and lose money. `agent.rl_heads =
"linear"` are the documents' heads, which read h alone.
"""

import torch
from torch import Tensor

from trainer.agent.cfc import bucket_of_channel
from trainer.agent.layout import Parameter, Weights
from trainer.config import AgentConfig
from trainer.types import NUM_ACTIONS, NUM_CONTEXT, NUM_LABEL_SOURCES

NEGATIVE = -1e9
"""Logit of an infeasible action: large and finite, because log-softmax of an all -inf row is NaN."""


def head_parameters(cfg: AgentConfig, num_horizons: int, return_classes: int) -> list[Parameter]:
    """Weights of all heads."""
    d, hidden = cfg.hidden, cfg.head_hidden
    found = [
        Parameter("labels.weight", (d, num_horizons * NUM_LABEL_SOURCES), "bce", "head"),
        Parameter("labels.bias", (num_horizons * NUM_LABEL_SOURCES,), "bce", "zeros"),
        Parameter("returns.hidden", (d, num_horizons * hidden), "aux", "xavier"),
        Parameter("returns.hidden_bias", (num_horizons * hidden,), "aux", "zeros"),
        Parameter("returns.weight", (num_horizons, hidden, return_classes), "aux", "head"),
        Parameter("returns.bias", (num_horizons, return_classes), "aux", "zeros"),
    ]
    for name, width in (("q", NUM_ACTIONS * cfg.atoms), ("pi", NUM_ACTIONS), ("v", 1)):
        if cfg.rl_heads == "linear":
            found += [
                Parameter(f"{name}.weight", (d, width), name, "head"),
                Parameter(f"{name}.bias", (width,), name, "zeros"),
            ]
            continue
        found += [
            Parameter(f"{name}.hidden", (d + NUM_CONTEXT, hidden), name, "xavier"),
            Parameter(f"{name}.hidden_bias", (hidden,), name, "zeros"),
            Parameter(f"{name}.weight", (hidden, width), name, "head"),
            Parameter(f"{name}.bias", (width,), name, "zeros"),
        ]
    return found


def bucket_mask(cfg: AgentConfig, width: int, device: torch.device) -> Tensor:
    """`[D, H * width] float32`: a horizon's columns see its own bucket's channels only."""
    bucket = bucket_of_channel(cfg, device)
    horizon = torch.arange(len(cfg.buckets), device=device).repeat_interleave(width)
    return (bucket[:, None] == horizon[None, :]).float()


def label_logits(w: Weights, h: Tensor, mask: Tensor) -> Tensor:
    """`h [B, K, D] -> [B, K, H, S]`: logits of direction and profits, sizes in sd of the horizon's move."""
    out = h @ (w["labels.weight"] * mask) + w["labels.bias"]
    logits: Tensor = out.unflatten(-1, (-1, NUM_LABEL_SOURCES))
    return logits


def return_logits(w: Weights, h: Tensor, mask: Tensor) -> Tensor:
    """`h [B, D] -> [B, H, classes]` logits of the forward-return class, newest row only."""
    hidden = torch.relu(h @ (w["returns.hidden"] * mask) + w["returns.hidden_bias"])
    by_horizon: Tensor = hidden.unflatten(-1, (w["returns.weight"].shape[0], -1)).transpose(0, 1)
    return (by_horizon @ w["returns.weight"]).transpose(0, 1) + w["returns.bias"]


def _head(w: Weights, name: str, x: Tensor) -> Tensor:
    """`x [B, D + C] -> [B, width]` through one hidden layer; a head without one is linear in h alone."""
    if f"{name}.hidden" not in w:
        return x[:, : w[f"{name}.weight"].shape[0]] @ w[f"{name}.weight"] + w[f"{name}.bias"]
    hidden = torch.relu(x @ w[f"{name}.hidden"] + w[f"{name}.hidden_bias"])
    return hidden @ w[f"{name}.weight"] + w[f"{name}.bias"]


def q_logits(w: Weights, x: Tensor, atoms: int) -> Tensor:
    """`x [B, D + C] -> [B, A, Z]` logits of the return distribution of every action (C51)."""
    return _head(w, "q", x).view(-1, NUM_ACTIONS, atoms)


def policy_logits(w: Weights, x: Tensor, feasible: Tensor) -> Tensor:
    """`x [B, D + C], feasible [B, A] -> [B, A]` with infeasible actions at `NEGATIVE`."""
    return torch.where(feasible, _head(w, "pi", x), NEGATIVE)


def state_value(w: Weights, x: Tensor) -> Tensor:
    """`x [B, D + C] -> [B]` in units of the reward scale."""
    return _head(w, "v", x)[:, 0]


def support(span: Tensor, atoms: int) -> Tensor:
    """`[Z] float32` atoms from -span to +span, units of the reward scale."""
    return torch.linspace(-1.0, 1.0, atoms, device=span.device) * span
