"""The agent as one value: configuration, weight layout, constants. Its weights travel beside it, flat."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.agent.encoder import EncoderConstants, encode, encoder_parameters
from trainer.agent.heads import (
    NEGATIVE,
    bucket_mask,
    head_parameters,
    label_logits,
    policy_logits,
    q_logits,
    return_logits,
    state_value,
    support,
)
from trainer.agent.layout import Layout, Weights
from trainer.config import AgentConfig, Config
from trainer.errors import InputError
from trainer.types import NUM_LABEL_SOURCES


@dataclass(frozen=True)
class Agent:
    """Static parts of the agent on one device."""

    cfg: AgentConfig
    layout: Layout
    constants: EncoderConstants
    label_mask: Tensor  # [D, H * S]
    return_mask: Tensor  # [D, H * hidden]

    @staticmethod
    def build(config: Config, device: torch.device) -> "Agent":
        """The agent of a run. Raises InputError unless there are 3 label horizons with one bucket each."""
        cfg, horizons = config.agent, config.data.horizons
        # Three, because the records name a short, a medium and a long one.
        if not len(cfg.buckets) == len(horizons) == 3 or min(horizons) < 1:
            raise InputError(
                f"buckets {cfg.buckets} do not fit horizons {horizons}",
                where="agent.buckets",
                do="use 3 horizons of at least 1 decision and one bucket for each",
            )
        parameters = encoder_parameters(cfg) + head_parameters(cfg, len(horizons), config.data.return_classes)
        return Agent(
            cfg,
            Layout(tuple(parameters)),
            EncoderConstants.build(cfg, horizons, device),
            bucket_mask(cfg, NUM_LABEL_SOURCES, device),
            bucket_mask(cfg, cfg.head_hidden, device),
        )

    def encode(self, w: Weights, features: Tensor, elapsed: Tensor, context: Tensor) -> Tensor:
        """`[B, K, D]` states; see `encoder.encode`."""
        return encode(w, features, elapsed, context, self.cfg, self.constants)

    def supervised(self, w: Weights, h: Tensor) -> tuple[Tensor, Tensor]:
        """Label logits at all rows `[B, K, H, S]` and return logits at the newest `[B, H, classes]`."""
        return label_logits(w, h, self.label_mask), return_logits(w, h[:, -1], self.return_mask)

    def policy(self, w: Weights, x: Tensor, feasible: Tensor) -> Tensor:
        """Log-policy `[B, A]` over feasible actions, from `x [B, D + C]`."""
        return torch.log_softmax(policy_logits(w, x, feasible), -1)

    def q_distribution(self, w: Weights, x: Tensor) -> Tensor:
        """C51 logits `[B, A, Z]`."""
        return q_logits(w, x, self.cfg.atoms)

    def expected_q(self, logits: Tensor, span: Tensor) -> Tensor:
        """`[B, A]` mean of `[B, A, Z]` logits over the atoms, units of the reward scale."""
        return (torch.softmax(logits, -1) * support(span, self.cfg.atoms)).sum(-1)

    def value(self, w: Weights, x: Tensor) -> Tensor:
        """`[B]` state value, units of the reward scale."""
        return state_value(w, x)

    def greedy(self, w: Weights, x: Tensor, feasible: Tensor) -> Tensor:
        """`[B] int64` most probable feasible action."""
        return policy_logits(w, x, feasible).argmax(-1)


__all__ = ["NEGATIVE", "Agent", "support"]
