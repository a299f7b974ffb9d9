"""Block bootstrap over time: how low the true mean of a dependent series may be (SYSTEM.md section 10)."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

# Fewer blocks say nothing about the spread of their means.
MIN_BLOCKS = 10
# Indices drawn at a time: 32 MB, however long the series.
_CHUNK_INDICES = 1 << 22


@dataclass(frozen=True)
class Bound:
    """A one-sided lower confidence bound of a series' mean, in the series' unit.

    `lower` is NaN where the series has fewer than `MIN_BLOCKS` blocks or is not finite: nothing can be said.
    """

    mean: float
    lower: float
    confidence: float
    block_decisions: int
    num_blocks: int
    num_resamples: int


def bootstrap_means(
    series: NDArray[Any], *, block: int, num_resamples: int, seed: int
) -> NDArray[np.float64]:
    """`[num_resamples] float64` means of circular-block resamples of `series` `[T]`.

    Blocks of `block` consecutive values start anywhere and wrap at the end, so every value is equally likely;
    the last block of a resample is cut so that each resample has exactly T values. Equal seeds give equal
    bits.
    """
    values = np.asarray(series, np.float64)
    total = len(values)
    if total == 0 or block < 1:
        raise ValueError(f"needs values and a block length, not {total} and {block}")
    block = min(block, total)
    num_blocks = -(-total // block)
    last = total - (num_blocks - 1) * block
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[:block]]))])
    full, cut = sums[block : block + total] - sums[:total], sums[last : last + total] - sums[:total]
    generator = np.random.default_rng(seed)
    means = np.empty(num_resamples)
    step = max(1, _CHUNK_INDICES // num_blocks)
    for begin in range(0, num_resamples, step):
        end = min(begin + step, num_resamples)
        starts = generator.integers(0, total, (end - begin, num_blocks))
        means[begin:end] = (full[starts[:, :-1]].sum(axis=1) + cut[starts[:, -1]]) / total
    return means


def lower_bound(
    series: NDArray[Any], *, block: int, num_resamples: int, confidence: float, seed: int
) -> Bound:
    """Lower bound of the mean of `series` `[T]` at one-sided `confidence`; `block` in decisions.

    The bootstrap quantile, with its distance from the mean widened for few blocks: overlapping blocks
    understate the variance by (k - 1) / k, and k blocks have a Student, not a normal, spread.
    """
    values = np.asarray(series, np.float64)
    total = len(values)
    num_blocks = -(-total // block)
    mean = float(values.mean()) if total else math.nan
    lower = math.nan
    if num_blocks >= MIN_BLOCKS and np.isfinite(values).all():
        means = bootstrap_means(values, block=block, num_resamples=num_resamples, seed=seed)
        student = stdtrit(num_blocks - 1, confidence) / ndtri(confidence)
        widening = student * math.sqrt(num_blocks / (num_blocks - 1))
        lower = mean - widening * (mean - float(np.quantile(means, 1.0 - confidence)))
    return Bound(mean, lower, confidence, block, num_blocks, num_resamples)


def excess_bound(
    series: NDArray[Any],
    baseline: NDArray[Any],
    *,
    block: int,
    num_resamples: int,
    confidence: float,
    seed: int,
) -> Bound:
    """Lower bound of the mean of `series - baseline`, both `[T]` over the same decisions.

    The same blocks are drawn from both, so what moves both at once cancels.
    """
    if np.shape(series) != np.shape(baseline):
        raise ValueError(f"series {np.shape(series)} and baseline {np.shape(baseline)} differ in length")
    difference = np.asarray(series, np.float64) - np.asarray(baseline, np.float64)
    return lower_bound(difference, block=block, num_resamples=num_resamples, confidence=confidence, seed=seed)
