"""What a step reports: one row of float32 in a ring on the device, drained in blocks by the host."""

import torch
from torch import Tensor

from trainer.types import NUM_ACTIONS, Action

RECORD_RING = 512
"""Rows of the ring; the host drains at least this often."""

SHARE_NAMES = tuple(f"share_{action.name.lower()}" for action in Action)
"""Columns of the executed actions' shares."""

METRIC_NAMES = (
    "wr", "hold", "ent", "ent_share", "trades", "wins", "pnl_ticks", "reward_mean", "in_market", "forced",
    "l_label", "l_size", "l_return", "l_q", "l_pi", "l_v", "l_distill", "l_ent",
    "lr_bce", "lr_aux", "lr_q", "lr_pi", "lr_v", "grad_norm", "skipped",
    "gamma", "target_tau", "ppo_clip", "entropy_coef", "per_alpha", "reward_scale", "atom_span",
    "q_divergence", "policy_kl", "td_kurtosis", "mean_abs_trade", "trade_duration", "filled", "defects",
    "h_short", "h_medium", "h_long",
    *SHARE_NAMES,
)  # fmt: skip
"""Columns of a record, in order; `hold` and shares are fractions, P&L is in ticks over all lanes."""


def action_shares(action: Tensor) -> list[Tensor]:
    """`[A]` share of lanes that executed each action."""
    counts = (action[:, None] == torch.arange(NUM_ACTIONS, device=action.device)).float().mean(0)
    return list(counts.unbind(0))


def record_row(values: dict[str, Tensor]) -> Tensor:
    """`[len(METRIC_NAMES)] float32`; every name must be given."""
    return torch.stack([values[name].to(torch.float32).reshape(()) for name in METRIC_NAMES])
