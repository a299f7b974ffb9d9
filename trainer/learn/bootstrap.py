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
# An autocorrelation inside this many standard errors (times sqrt(log10 T)) counts as none.
_ACF_ERRORS = 2.0


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


def dependence_block(series: NDArray[Any]) -> int:
    """The block length, in values, that the dependence of `series` `[T]` asks for; 1 where it shows none.

    Automatic selection for the circular block bootstrap: Politis and White (2004) with the correction of
    Patton, Politis and White (2009). Never so long that fewer than `MIN_BLOCKS` blocks are left, and 1 for a
    series that is constant, not finite or too short to tell.
    """
    values = np.asarray(series, np.float64)
    total = len(values)
    longest = min(total // MIN_BLOCKS, math.ceil(3.0 * math.sqrt(total)))
    if longest < 2 or not np.isfinite(values).all() or np.ptp(values) == 0:
        return 1
    patience = max(5, math.ceil(math.sqrt(math.log10(total))))
    num_lags = min(math.ceil(math.sqrt(total)) + patience, total - 1)
    covariance = _autocovariance(values, num_lags)
    band = _ACF_ERRORS * math.sqrt(math.log10(total) / total) * covariance[0]
    width = min(2 * (_last_lag(np.abs(covariance[1:]) >= band, patience) + 1), num_lags)
    lags = np.arange(1, width + 1)
    tapered = 2.0 * np.minimum(1.0, 2.0 * (1.0 - lags / width)) * covariance[1 : width + 1]
    spectrum = float(covariance[0] + tapered.sum())
    if spectrum <= 0:
        return 1
    slope = float((lags * tapered).sum())
    # 2 g^2 / (4/3 s^2), the ratio of the bias of a block's variance to its spread.
    optimum = math.cbrt(1.5 * (slope / spectrum) ** 2 * total)
    return max(1, min(math.ceil(optimum), longest))


def _autocovariance(values: NDArray[np.float64], num_lags: int) -> NDArray[np.float64]:
    """`[num_lags + 1]`, divided by T at every lag."""
    total = len(values)
    transform = np.fft.rfft(values - values.mean(), 2 * total)
    found = np.fft.irfft(transform * np.conj(transform), 2 * total)[: num_lags + 1]
    return np.asarray(found / total, np.float64)


def _last_lag(significant: NDArray[np.bool_], patience: int) -> int:
    """The last lag before `patience` insignificant ones in a row; `significant[k]` is of lag k + 1."""
    quiet = 0
    for lag, found in enumerate(significant.tolist(), start=1):
        quiet = 0 if found else quiet + 1
        if quiet == patience:
            return lag - patience
    return int(np.flatnonzero(significant).max(initial=-1)) + 1


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
