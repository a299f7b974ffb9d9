"""The encoder: variable selection -> linear with context -> SSD blocks -> CfC -> h."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.agent.cfc import cfc, cfc_parameters, recurrent_mask, time_scale
from trainer.agent.layout import Parameter, Weights
from trainer.agent.ssd import rms_norm, ssd_block, ssd_parameters
from trainer.config import AgentConfig
from trainer.types import NUM_CONTEXT, NUM_FEATURES


def encoder_parameters(cfg: AgentConfig) -> list[Parameter]:
    """All weights of the encoder, in the group of the supervised direction heads that train it."""
    found = [
        Parameter("select.weight", (NUM_FEATURES, NUM_FEATURES), "bce", "head"),
        Parameter("select.bias", (NUM_FEATURES,), "bce", "zeros"),
        Parameter("embed.features", (NUM_FEATURES, cfg.hidden), "bce", "xavier"),
        Parameter("embed.context", (NUM_CONTEXT, cfg.hidden), "bce", "xavier"),
        Parameter("embed.bias", (cfg.hidden,), "bce", "zeros"),
    ]
    for block in range(cfg.ssd_blocks):
        found += ssd_parameters(f"ssd{block}", cfg)
    return found + cfc_parameters("cfc", cfg)


@dataclass(frozen=True)
class EncoderConstants:
    """Fixed tensors of the encoder on its device."""

    recurrent_mask: Tensor  # [D, 4D]
    time_scale: Tensor  # [D]

    @staticmethod
    def build(cfg: AgentConfig, horizons: tuple[int, ...], device: torch.device) -> "EncoderConstants":
        return EncoderConstants(recurrent_mask(cfg, device), time_scale(cfg, horizons, device))


def selection_gates(w: Weights, features: Tensor) -> Tensor:
    """`[..., F] -> [..., F]` variable-selection weights, mean 1, from one row's features alone."""
    return torch.softmax(features @ w["select.weight"] + w["select.bias"], -1) * NUM_FEATURES


def encode(
    w: Weights,
    features: Tensor,
    elapsed: Tensor,
    context: Tensor,
    cfg: AgentConfig,
    constants: EncoderConstants,
) -> Tensor:
    """`features [B, K, F], elapsed [B, K], context [B, C] -> h [B, K, D] float32`, causal over K.

    The context is the lane's own and constant over the window. `h[:, -1]` is the state that acts.
    """
    selected = selection_gates(w, features) * features
    x = selected @ w["embed.features"] + (context @ w["embed.context"] + w["embed.bias"])[:, None]
    for block in range(cfg.ssd_blocks):
        x = ssd_block(w, f"ssd{block}", x, cfg)
    return cfc(w, "cfc", rms_norm(x, w["cfc.norm"]), elapsed, constants.recurrent_mask, constants.time_scale)
