"""Is the policy's entropy stable, or is it collapsing? (SYSTEM.md section 10)"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from trainer.config import GateConfig
from trainer.learn.jsonfloat import JsonFloat

NUM_BLOCKS = 20
TREND_P_VALUE = 0.01


class EntropyStability(BaseModel):
    """Judgement of the executed entropy over the last half of training.

    minimum, mean: of block means, as shares of ln(#feasible). relative_fall: Theil-Sen fall over the half
    divided by the mean; negative when it rises. reason: empty when stable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stable: bool
    mean: JsonFloat
    minimum: JsonFloat
    relative_fall: JsonFloat
    reason: str = ""


def block_means(series: NDArray[Any], num_blocks: int = NUM_BLOCKS) -> NDArray[np.float64]:
    """Means of at most `num_blocks` nearly equal consecutive blocks of `series` `[T]`."""
    values = np.asarray(series, np.float64)
    if len(values) == 0:
        return values
    return np.array([block.mean() for block in np.array_split(values, min(num_blocks, len(values)))])


def relative_fall(blocks: NDArray[np.float64]) -> float:
    """Theil-Sen fall from the first to the last block over their mean; NaN for fewer than two."""
    mean = float(blocks.mean()) if len(blocks) else math.nan
    if len(blocks) < 2 or not math.isfinite(mean):
        return math.nan
    from scipy import stats  # slow to load; the gate reads judgements without making any

    slope = float(stats.theilslopes(blocks).slope)
    fall = -slope * (len(blocks) - 1)
    # A policy without any entropy cannot fall further; its minimum is what is judged.
    return fall / mean if mean > 0 else 0.0


def entropy_stability(series: NDArray[Any], cfg: GateConfig) -> EntropyStability:
    """Judge the normalised executed entropy of *all* training steps, `[steps]`, entropy / ln(#feasible) in
    [0, 1].

    Only the last half counts, as means over 20 blocks. Unstable when a block mean is under `cfg.min_entropy`,
    or when the blocks fall: Kendall's tau is negative with p < 0.01 and the Theil-Sen fall over the half
    exceeds `cfg.max_entropy_fall` of the mean; or when they drop by more than that late and for good, which
    leaves the median slope at zero (`late_drop`). A series that is not finite or has under two steps in the
    half is unstable.
    """
    values = np.asarray(series, np.float64)
    blocks = block_means(values[len(values) // 2 :])
    fall = relative_fall(blocks)
    mean, minimum = (float(blocks.mean()), float(blocks.min())) if len(blocks) else (math.nan, math.nan)
    reason = ""
    if not math.isfinite(fall):
        reason = "the entropy of training is missing or not finite"
    elif minimum < cfg.min_entropy:
        reason = f"entropy fell to {minimum:.3f} of ln(#feasible), under {cfg.min_entropy}"
    elif fall > cfg.max_entropy_fall and _falls(blocks):
        reason = f"entropy falls by {fall:.0%} over the last half, more than {cfg.max_entropy_fall:.0%}"
    elif (drop := late_drop(blocks)) > cfg.max_entropy_fall:
        reason = f"entropy drops by {drop:.0%} late in training, more than {cfg.max_entropy_fall:.0%}"
    return EntropyStability(stable=not reason, mean=mean, minimum=minimum, relative_fall=fall, reason=reason)


def late_drop(blocks: NDArray[np.float64]) -> float:
    """Largest drop to a tail of blocks that all lie under every earlier block, over the earlier mean; or 0.

    Tails of up to half the blocks for which such an order has p < 0.01 by chance: 1 / C(blocks, tail). A step
    down at nine tenths of the training is one; so is a decline that only begins there.
    """
    count = len(blocks)
    drops = [
        1.0 - float(blocks[-tail:].mean() / blocks[:-tail].mean())
        for tail in range(1, count // 2 + 1)
        if blocks[-tail:].max() < blocks[:-tail].min() and math.comb(count, tail) * TREND_P_VALUE > 1.0
    ]
    return max(drops, default=0.0)


def _falls(blocks: NDArray[np.float64]) -> bool:
    from scipy import stats

    tau = stats.kendalltau(np.arange(len(blocks)), blocks)
    return bool(tau.statistic < 0 and tau.pvalue < TREND_P_VALUE)
