"""How often the gate passes traders of known worth: through the real metrics, bootstrap and verdict."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.gate_bound import LENGTHS, TAUS, Coverage, Dependence, coverage, dependence
from benchmarks.gate_paths import (
    COSTS,
    FREE,
    MARKET,
    Costs,
    Paths,
    Size,
    Trader,
    account,
    best_trader,
    coin,
    draw_paths,
    market,
    random_pnl,
    take_profit,
    trade,
)
from benchmarks.intervals import clopper_pearson
from trainer.config import Config
from trainer.learn.account import Trades
from trainer.learn.entropy import EntropyStability
from trainer.learn.gate import Outcome, judge
from trainer.learn.metrics import RANDOM, FoldMetrics, fold_metrics

STEADY = EntropyStability(stable=True, mean=0.6, minimum=0.6, relative_fall=0.0)
BATCH = 250  # paths in memory at a time


@dataclass(frozen=True)
class Passes:
    """What the gate said to one trader."""

    trader: str
    runs: int
    passed: int
    interval: tuple[float, float]  # 95 %, exact, of the share of runs that pass
    outcomes: dict[str, int]
    win_rate: float  # mean over folds
    hold_percent: float
    net_ticks_per_decision: float
    fold_wins: float  # share of folds whose win rate exceeds .55
    fold_earns: float  # of those whose lower bound of net P&L exceeds 0
    fold_beats_random: float
    fold_passes: float  # every criterion
    runs_win: float  # share of runs all of whose folds win
    runs_earn: float  # share of runs all of whose folds earn and beat random


def folds_of(
    config: Config, paths: Paths, trader: Trader, costs: Costs, rng: np.random.Generator
) -> list[FoldMetrics]:
    """The metrics of every path, against the mean random trader of equal turnover on it."""
    book = trade(paths, trader, costs)
    accounts = [account(paths, book, k, costs) for k in range(len(book.side))]
    turnover = [
        (len(trades), int((~decisions.in_market).sum()), _age(trades)) for decisions, trades in accounts
    ]
    count, flat, age = (np.array(column, np.float64) for column in zip(*turnover, strict=True))
    enter, leave = np.minimum(1.0, count / np.maximum(flat + count, 1)), 1.0 / np.maximum(age, 1.0)
    random = random_pnl(paths, enter, leave, costs, config.evaluate.random_traders, rng)
    return [
        fold_metrics(
            k, *one, baselines={RANDOM: random[k]}, training_entropy=STEADY, instrument=MARKET,
            cfg=config.evaluate,
        )
        for k, one in enumerate(accounts)
    ]  # fmt: skip


def _age(trades: Trades) -> float:
    return float(trades.age.mean()) if len(trades) else 1.0


def passes(
    name: str,
    config: Config,
    make: Callable[[np.random.Generator], Trader],
    costs: Costs,
    runs: int,
    size: Size,
) -> Passes:
    """`runs` walk-forward runs of one trader through metrics and gate."""
    rng = np.random.default_rng([size.seed, runs])
    found: list[FoldMetrics] = []
    while len(found) < runs * size.folds:
        num = min(BATCH, runs * size.folds - len(found))
        paths = draw_paths(config, num, size.decisions, int(rng.integers(1 << 31)))
        found += folds_of(config, paths, make(rng), costs, rng)
    return _summary(name, config, [found[k : k + size.folds] for k in range(0, len(found), size.folds)])


def _summary(name: str, config: Config, runs: Sequence[Sequence[FoldMetrics]]) -> Passes:
    verdicts = [judge(run, config.gate) for run in runs]
    folds = [fold for run in runs for fold in run]
    kinds: list[Outcome] = ["pass", "fail", "reject", "inconclusive"]
    outcomes = {str(kind): sum(v.outcome == kind for v in verdicts) for kind in kinds}
    met = np.array([[all(c.passed for c in row) for row in v.folds] for v in verdicts])
    wins = np.array([[f.win_rate > config.gate.pass_win_rate for f in run] for run in runs])
    earns = np.array([[f.net_lower_ticks > 0 for f in run] for run in runs])
    beats = np.array([[f.excess_lower_ticks > 0 for f in run] for run in runs])
    return Passes(
        trader=name,
        runs=len(runs),
        passed=outcomes["pass"],
        interval=clopper_pearson(outcomes["pass"], len(runs)),
        outcomes=outcomes,
        win_rate=float(np.nanmean([f.win_rate for f in folds])),
        hold_percent=float(np.mean([f.hold_percent for f in folds])),
        net_ticks_per_decision=float(np.mean([f.net_ticks_per_decision for f in folds])),
        fold_wins=float(wins.mean()),
        fold_earns=float(earns.mean()),
        fold_beats_random=float(beats.mean()),
        fold_passes=float(met.mean()),
        runs_win=float(wins.all(1).mean()),
        runs_earn=float((earns & beats).all(1).mean()),
    )


def power(config: Config, size: Size) -> list[Passes]:
    """One trader, the default market's optimal one, on markets of every strength."""
    trader = best_trader(market(config, 1.0))
    return [
        passes(f"alpha x {s:g}", market(config, s), lambda rng: trader, COSTS, size.power_runs, size)
        for s in size.strengths
    ]


def false_passes(config: Config, size: Size) -> list[Passes]:
    """Traders without an edge on a martingale; without costs their expectation is exactly zero."""
    nothing, orders = market(config, 0.0), best_trader(market(config, 1.0))
    traders: list[tuple[str, Callable[[np.random.Generator], Trader], Costs]] = [
        ("coin", lambda rng: coin(0.5, 0.4, rng), COSTS),
        ("orders of the planted market", lambda rng: orders, COSTS),
        ("take-profit 0.1, stop 8", lambda rng: take_profit(0.1, 8.0, rng), COSTS),
        ("take-profit 0.1, stop 80", lambda rng: take_profit(0.1, 80.0, rng), COSTS),
        ("coin, no costs", lambda rng: coin(0.5, 0.4, rng), FREE),
        ("take-profit 0.1, stop 8, no costs", lambda rng: take_profit(0.1, 8.0, rng), FREE),
    ]
    return [passes(name, nothing, make, costs, size.runs, size) for name, make, costs in traders]


@dataclass(frozen=True)
class Study:
    """All of it."""

    size: Size
    power: list[Passes]
    false_passes: list[Passes]
    dependence: list[Dependence]
    coverage: list[Coverage]

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return asdict(self)


def study(config: Config, size: Size, log: Callable[[str], None]) -> Study:
    """Everything, in minutes on one core; `log` hears what comes next."""
    log(f"power: {len(size.strengths)} strengths, {size.power_runs} runs each")
    by_strength = power(config, size)
    log(f"traders without an edge: {size.runs} runs each")
    noise = false_passes(config, size)
    log("dependence and coverage")
    covered = [coverage(config, size, tau, length) for length in LENGTHS for tau in TAUS]
    return Study(size, by_strength, noise, dependence(config, size), covered)
