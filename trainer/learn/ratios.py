"""Risk-adjusted ratios and intervals of a P&L series (DATA.md "Walk-forward and metrics")."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

DAYS_PER_YEAR = 252
EULER_GAMMA = 0.5772156649015329


def sharpe(pnl: NDArray[Any]) -> float:
    """Mean over standard deviation (ddof 1) of `pnl` `[n]`; NaN for n < 2, infinite without spread."""
    return _ratio(float(np.mean(pnl)), float(np.std(pnl, ddof=1))) if len(pnl) > 1 else math.nan


def sortino(pnl: NDArray[Any]) -> float:
    """Mean over the root mean square of the losses per period; the mean is over all n, gains counting as 0.

    NaN for n < 2; infinite when no period loses.
    """
    if len(pnl) < 2:
        return math.nan
    downside = float(np.sqrt(np.mean(np.minimum(pnl, 0.0) ** 2)))
    return _ratio(float(np.mean(pnl)), downside)


def probabilistic_sharpe(pnl: NDArray[Any], benchmark: float = 0.0) -> float:
    """PSR: probability that the true Sharpe ratio per period exceeds `benchmark` (Bailey, Lopez de Prado
    2012).

    Phi((SR - SR*) sqrt(n - 1) / sqrt(1 - g3 SR + (g4 - 1) / 4 SR^2)), g3 skewness, g4 non-excess kurtosis.
    NaN where the Sharpe ratio is not finite.
    """
    ratio = sharpe(pnl)
    if not math.isfinite(ratio):
        return math.nan
    centred = np.asarray(pnl, np.float64) - np.mean(pnl)
    variance = float(np.mean(centred**2))
    skewness = float(np.mean(centred**3)) / variance**1.5
    kurtosis = float(np.mean(centred**4)) / variance**2
    # Never negative, because kurtosis >= 1 + skewness^2; rounding may still take it under 0.
    spread = math.sqrt(max(0.0, 1.0 - skewness * ratio + (kurtosis - 1.0) / 4.0 * ratio**2))
    return float(ndtr(_ratio((ratio - benchmark) * math.sqrt(len(pnl) - 1), spread)))


def deflated_sharpe(pnl: NDArray[Any], num_trials: int = 1, trial_sd: float | None = None) -> float:
    """DSR: PSR against the Sharpe ratio that the best of `num_trials` skill-less configurations would show.

    SR0 = sd (1 - g) PhiInv(1 - 1/N) + sd g PhiInv(1 - 1/(N e)) with g Euler's constant; `trial_sd` is the
    standard deviation of the trials' ratios per period, None = the standard error of a skill-less ratio,
    1/sqrt(n - 1). With one trial it is PSR against 0.
    """
    if num_trials == 1 or len(pnl) < 2:
        return probabilistic_sharpe(pnl)
    sd = 1.0 / math.sqrt(len(pnl) - 1) if trial_sd is None else trial_sd
    first = float(ndtri(1.0 - 1.0 / num_trials))
    second = float(ndtri(1.0 - 1.0 / (num_trials * math.e)))
    return probabilistic_sharpe(pnl, sd * ((1.0 - EULER_GAMMA) * first + EULER_GAMMA * second))


def wilson_interval(num_wins: int, num_trades: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided Wilson score interval of a win rate; (NaN, NaN) without trades."""
    if num_trades == 0:
        return math.nan, math.nan
    z = float(ndtri(0.5 + confidence / 2.0))
    rate, z2 = num_wins / num_trades, z * z / num_trades
    centre = (rate + z2 / 2.0) / (1.0 + z2)
    half = z / (1.0 + z2) * math.sqrt(rate * (1.0 - rate) / num_trades + z2 / (4.0 * num_trades))
    return max(0.0, centre - half), min(1.0, centre + half)


def max_drawdown(pnl: NDArray[Any]) -> float:
    """Largest fall of the equity curve from an earlier peak, >= 0, in the unit of `pnl`.

    The starting equity counts as a peak: an account that only loses draws down all it lost.
    """
    equity = np.concatenate([[0.0], np.cumsum(np.asarray(pnl, np.float64))])
    return float(np.max(np.maximum.accumulate(equity) - equity))


def profit_factor(pnl: NDArray[Any]) -> float:
    """Sum of wins over sum of losses; infinite without losses, NaN without both (no trades, or all zero)."""
    values = np.asarray(pnl, np.float64)
    return _ratio(float(values[values > 0].sum()), -float(values[values < 0].sum()))


def _ratio(numerator: float, denominator: float) -> float:
    if denominator != 0:
        return numerator / denominator
    return math.copysign(math.inf, numerator) if numerator != 0 else math.nan
