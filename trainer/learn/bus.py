"""The bus: one float32 vector of named slots that every adaptive quantity lives in (SYSTEM.md section 7).

Consumers read slots by name through `Slots`, controllers (`controllers.py`) write them once per step, and the
host never reads it inside a step. A checkpoint stores slots by name, so a bus that grew still loads. Counts
live beside it in int64: a float32 count stalls at 2^24.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from trainer.agent.layout import GROUPS
from trainer.config import Config
from trainer.learn.reward import CLOSE_SLOTS

COUNTS = (
    "updates",
    "skipped_updates",
    "trades",
    "wins",
    "lr_observations",
    *(f"lr_stale.{g}" for g in GROUPS),
)
"""Names of the int64 counters."""

EMAS = (
    "ema.trade_duration",
    "ema.q_divergence",
    "ema.policy_kl",
    "ema.entropy",
    "ema.entropy_target",
    "ema.entropy_share",
    "ema.td_kurtosis",
    "ema.abs_trade",
    "ema.win",
    "ema.order_share",
    "ema.return_square",
    *(f"ema.loss.{g}" for g in GROUPS),
)
"""Inputs of the controllers: exponential averages, exactly 0 until their first non-zero observation."""


def slot_starts(config: Config) -> dict[str, float]:
    """Every slot with its start value, in order."""
    starts = dict.fromkeys(EMAS, 0.0)
    starts |= {f"loss_best.{g}": 0.0 for g in GROUPS}
    starts |= {f"lr.{g}": config.learn.learning_rate for g in GROUPS}
    starts |= {
        "gamma": 0.90,
        "target_tau": 0.005,
        "ppo_clip": 0.2,
        "entropy_coef": 0.035,
        "per_alpha": 0.4,
        "per_beta": config.learn.importance_beta,
        "reward_scale": 1.0,
        "atom_span": 4.0,
        "distill_weight": config.learn.distill_weight,
        "distill_temperature": config.learn.distill_temperature,
        "stop_loss_ratio": config.market.stop_loss_ratio,
    }
    if config.learn.reward == "at_close":
        starts |= CLOSE_SLOTS
    return starts


class Slots:
    """Names and positions of the slots of one configuration."""

    def __init__(self, config: Config) -> None:
        self.starts = slot_starts(config)
        self.index = {name: i for i, name in enumerate(self.starts)}
        self.count_index = {name: i for i, name in enumerate(COUNTS)}

    def initial(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """The bus `[M] float32` and its counts `int64` at their starts."""
        bus = torch.tensor(list(self.starts.values()), dtype=torch.float32, device=device)
        return bus, torch.zeros(len(COUNTS), dtype=torch.int64, device=device)

    def read(self, bus: Tensor) -> dict[str, Tensor]:
        """Scalar views of all slots by name."""
        return dict(zip(self.index, bus.unbind(0), strict=True))

    def read_counts(self, counts: Tensor) -> dict[str, Tensor]:
        """Scalar views of all counts by name."""
        return dict(zip(self.count_index, counts.unbind(0), strict=True))

    def write(self, slots: Mapping[str, Tensor]) -> Tensor:
        """The vector of all slots again."""
        return torch.stack([slots[name].to(torch.float32) for name in self.index])

    def write_counts(self, counts: Mapping[str, Tensor]) -> Tensor:
        """The vector of all counts again."""
        return torch.stack([counts[name] for name in self.count_index])
