"""How far P&L per decision depends on itself, and how well the gate's bound covers a mean that is known."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from benchmarks.gate_paths import (
    COSTS,
    Floats,
    Size,
    account,
    best_trader,
    coin,
    draw_paths,
    market,
    take_profit,
    trade,
)
from trainer.config import Config
from trainer.learn.bootstrap import dependence_block, lower_bound

TAUS = (0, 2, 10, 50, 200)  # decisions over which the P&L of the coverage study forgets
BLOCKS = (1, 5, 20, 50, 100, 200)  # decisions
AUTOMATIC = "gate"  # the block that the gate takes: 50, or the longer one that the series asks for
LENGTHS = (2048, 8192)  # decisions of a series: a small fold, and one of the demo preset


@dataclass(frozen=True)
class Coverage:
    """Share of series whose lower bound lies under the true mean, by block length; the bound says 95 %."""

    tau: int
    decisions: int
    series: int
    by_block: dict[str, float]


@dataclass(frozen=True)
class Dependence:
    """How far the P&L per decision of a trader depends on itself."""

    trader: str
    mean_holding: float  # decisions
    acf: tuple[float, float, float]  # at lags 1, 2 and 5, mean over folds
    block: tuple[float, float]  # automatic length: median and 95 % quantile over folds, decisions


def dependence(config: Config, size: Size) -> list[Dependence]:
    """Holding time, autocorrelation and automatic block of traders on markets of the default strength."""
    rng, num = np.random.default_rng(size.seed), max(20, size.series // 4)
    cases = {
        "optimal, planted": (market(config, 1.0), best_trader(market(config, 1.0))),
        "take-profit 0.1, stop 8, martingale": (market(config, 0.0), take_profit(0.1, 8.0, rng)),
        "coin held 100 decisions, martingale": (market(config, 0.0), coin(0.5, 0.01, rng)),
    }
    found = []
    for name, (where, trader) in cases.items():
        paths = draw_paths(where, num, size.decisions, size.seed)
        book = trade(paths, trader, COSTS)
        ages = np.concatenate([account(paths, book, k, COSTS)[1].age for k in range(num)])
        acf = tuple(float(np.mean([_acf(row, lag) for row in book.pnl])) for lag in (1, 2, 5))
        blocks = np.quantile([dependence_block(row) for row in book.pnl], [0.5, 0.95])
        found.append(Dependence(name, float(ages.mean()), acf, (float(blocks[0]), float(blocks[1]))))  # type: ignore[arg-type]
    return found


def _acf(values: Floats, lag: int) -> float:
    return float(np.corrcoef(values[lag:], values[:-lag])[0, 1])


def coverage(config: Config, size: Size, tau: int, num_decisions: int) -> Coverage:
    """Lower bounds of zero-mean AR(1) series that forget over `tau` decisions."""
    rho = math.exp(-1.0 / tau) if tau else 0.0
    shocks = np.random.default_rng([size.seed, tau]).standard_normal((size.series, num_decisions))
    shocks[:, 1:] *= math.sqrt(1.0 - rho**2)
    series = lfilter([1.0], [1.0, -rho], shocks, axis=1)
    cfg, found = config.evaluate, {}
    for block in (*BLOCKS, AUTOMATIC):
        covered = [
            lower_bound(
                row, block=_block(block, row, cfg.bootstrap_block_decisions), num_resamples=400,
                confidence=cfg.confidence, seed=k,
            ).lower < 0.0
            for k, row in enumerate(series)
        ]  # fmt: skip
        found[str(block)] = float(np.mean(covered))
    return Coverage(tau, num_decisions, size.series, found)


def _block(block: int | str, series: Floats, configured: int) -> int:
    return block if isinstance(block, int) else max(configured, dependence_block(series))
