"""The hidden signal and price path behind the synthetic market (design pages SYSTEM.md 12, LEARNING.md 9).

The price has a slow component whose increments `u` are autocorrelated from row to row. The signal of row `i`
is the standardised sum of the next `signal_rows` increments: the book's participants know the drift of the
coming decision and show it. So `E[move over the next decision | signal] = drift_sd_ticks * signal` with
nothing but the own noise left, from whichever row the decision is made, and the autocorrelation of the signal
over one decision is `memory`. (An AR(1) drift per row would hide half of the move from anybody: an optimal
trader would win 57 % of his trades, not 80 %.) The mid of row `i` holds no increment after `i`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.signal import lfilter

from trainer.config import Config
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS

Floats = npt.NDArray[np.float64]

WIDE_SHARE = 0.09  # rows whose spread is 2 ticks; the others have 1
MEAN_SPREAD_TICKS = 1.0 + WIDE_SHARE
VOLATILITY_SD = 0.4  # of the log scale of the mid's own noise
VOLATILITY_DECISIONS = 16.0  # over which it forgets


@dataclass(frozen=True)
class LatentPath:
    """One realisation; all `[n] float64`."""

    signal: Floats  # unit variance
    mid_ticks: Floats  # off the grid
    log_volatility: Floats  # log of the own noise's scale against its root mean square


@dataclass(frozen=True)
class LatentModel:
    """Parameters of the path, per decision of `signal_rows` rows."""

    signal_rows: int
    memory: float
    drift_sd_ticks: float  # sd of the predictable move; 0 in the martingale
    noise_sd_ticks: float  # sd of the rest
    cost_ticks: float  # mean round trip: spread and two fees

    @classmethod
    def from_config(cls, config: Config) -> "LatentModel":
        """The model that `config.synthetic` and `config.market_source` describe.

        The martingale has the total variance of the planted market, all of it noise.

        Raises InputError where the config names no synthetic market.
        """
        if config.market_source is None:
            raise InputError(
                "no synthetic market is chosen", where="market_source", do="set it to planted or martingale"
            )
        cost = MEAN_SPREAD_TICKS + 2.0 * INSTRUMENTS["synthetic"].fee_ticks
        drift, noise = config.synthetic.drift_cost_ratio * cost, config.synthetic.noise_ticks
        if config.market_source == "martingale":
            drift, noise = 0.0, float(np.hypot(drift, noise))
        return cls(config.signal_rows, config.synthetic.memory, drift, noise, cost)

    def path(self, num_rows: int, rng: np.random.Generator, start_ticks: float = 0.0) -> LatentPath:
        """`num_rows` rows of signal and mid. The signal is drawn alike in both markets."""
        span = self.signal_rows
        memory = row_memory(self.memory, span)
        increments = persistent(num_rows + span, memory, rng)
        sums = np.concatenate([[0.0], np.cumsum(increments)])
        scale = np.sqrt(block_moments(memory, span)[0])
        signal = (sums[span:] - sums[:-span])[:num_rows] / scale
        moves = self.drift_sd_ticks / scale * increments[:num_rows]
        noise = rng.standard_normal(num_rows)
        log_volatility = volatility(num_rows, span, rng)
        moves += self.noise_sd_ticks / np.sqrt(span) * np.exp(log_volatility) * noise
        mid = start_ticks + np.concatenate([[0.0], np.cumsum(moves)[:-1]])
        return LatentPath(signal, mid, log_volatility)


def volatility(num_rows: int, span: int, rng: np.random.Generator) -> Floats:
    """Log scale of the noise `[num_rows]`: persistent, with a mean of 1 of the squared scale.

    So volatility clusters, and the variance of a decision's noise, which the oracle's income hangs on, is as
    asked for.
    """
    memory = np.exp(-1.0 / (VOLATILITY_DECISIONS * span))
    return VOLATILITY_SD * persistent(num_rows, float(memory), rng) - VOLATILITY_SD**2


def block_moments(memory: float, span: int) -> tuple[float, float]:
    """Variance of the sum of `span` steps of a unit AR(1), and its covariance with the next such sum."""
    lags = np.arange(-2 * span, 2 * span + 1)
    decay = memory ** np.abs(lags).astype(np.float64)
    own = np.clip(span - np.abs(lags), 0, None)
    following = np.clip(span - np.abs(lags - span), 0, None)
    return float((own * decay).sum()), float((following * decay).sum())


def row_memory(memory: float, span: int) -> float:
    """AR(1) coefficient per row that gives sums over `span` rows the autocorrelation `memory`."""
    if memory == 0.0:
        return 0.0

    def excess(row: float) -> float:
        variance, covariance = block_moments(row, span)
        return covariance / variance - memory

    return float(brentq(excess, 0.0, 1.0 - 1e-9, xtol=1e-14))


def persistent(num_rows: int, memory: float, rng: np.random.Generator, width: int = 0) -> Floats:
    """A stationary unit-variance AR(1), `[num_rows]` or `[num_rows, width]`, with `memory` per row."""
    shocks = rng.standard_normal((num_rows, width) if width else num_rows)
    shocks[1:] *= np.sqrt(1.0 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], shocks, axis=0))
