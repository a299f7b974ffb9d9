"""What a trader's account says in figures: costs, timing, exits, sides, and what more lots would earn."""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from benchmarks.trading.account import Floats, Ints, Trader, mean
from benchmarks.trading.fold import ORACLE, TradedFold
from trainer.learn.ratios import max_drawdown
from trainer.types import Action

SOON = 2  # decisions within which a trade that comes back on its side was left for nothing
CAPACITY_LOTS = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class Findings:
    """One trader on one fold. Money in ticks, shares in [0, 1], times in decisions unless named otherwise.

    max_drawdown: of the marked equity, whose start is a peak too. best_tenth: net of the best tenth of trades
    over that of all.
    mid_per_trade: what a trade gains from mid to mid; spread_per_trade, fee_per_trade: what of it is paid.
    long_*, short_*: by side. long_by_reversal, short_by_reversal: trades of that side that a reversal ends.
    by_stop, forced: trades that a stop or an announced end closes; by_stop is known of the agent only.
    came_back: trades followed by another on the same side within SOON decisions.
    flat, trail_moves: share of decisions that want nothing held, and that only move the trail.
    Where the truth is known, else NaN: signal_at_entry, signal_at_exit: planted signal in the trade's
    direction at the opening and at the closing order, standard deviations; on_time, late, early: entries that
    the oracle too would make from the same position at this decision, else at the one before, else at the
    next. promised_per_decision: the move that the signal of the order's row promised to the sides held;
    before_fill_per_decision: what of it came before the order filled; luck_per_decision: what the mid gave
    beyond the rest.
    """

    trades: int
    net_per_decision: float
    win_rate: float
    hold_percent: float
    max_drawdown: float
    best_tenth: float
    net_per_trade: float
    mid_per_trade: float
    spread_per_trade: float
    fee_per_trade: float
    long_share: float
    long_net_per_trade: float
    short_net_per_trade: float
    held_mean: float
    held_median_s: float
    long_by_reversal: float
    short_by_reversal: float
    by_stop: float
    forced: float
    came_back: float
    flat: float
    trail_moves: float
    signal_at_entry: float
    signal_at_exit: float
    on_time: float
    late: float
    early: float
    promised_per_decision: float
    before_fill_per_decision: float
    luck_per_decision: float


def findings(fold: TradedFold, name: str) -> Findings:
    """The figures of trader `name` of the fold; NaN where there is nothing to take a mean of."""
    trader = fold.traders[name]
    decisions, trades = trader.decisions, trader.trades
    spread = np.zeros(len(trades)) if trades.spread_ticks is None else trades.spread_ticks
    long, ends = trades.side > 0, np.minimum(trader.exits, len(decisions) - 1)
    turned = ~trades.forced & (decisions.action[ends] == Action.REVERSE)
    gap = trader.entries[1:] - trader.exits[:-1]
    return Findings(
        trades=len(trades),
        net_per_decision=mean(decisions.pnl_ticks),
        win_rate=mean(trades.pnl_ticks > 0),
        hold_percent=100.0 * mean(~decisions.ordered),
        max_drawdown=max_drawdown(decisions.pnl_ticks),
        best_tenth=best_tenth(trades.pnl_ticks),
        net_per_trade=mean(trades.pnl_ticks),
        mid_per_trade=mean(trades.gross_ticks + spread),
        spread_per_trade=mean(spread),
        fee_per_trade=mean(trades.fee_ticks),
        long_share=mean(long),
        long_net_per_trade=mean(trades.pnl_ticks[long]),
        short_net_per_trade=mean(trades.pnl_ticks[~long]),
        held_mean=mean(trader.exits - trader.entries),
        held_median_s=float(np.median(trader.held_s)) if len(trades) else math.nan,
        long_by_reversal=mean(turned[long]),
        short_by_reversal=mean(turned[~long]),
        by_stop=math.nan if name == ORACLE else mean(~trades.forced & fold.stopped[ends]),
        forced=mean(trades.forced),
        came_back=mean((gap <= SOON) & (trades.side[1:] == trades.side[:-1])),
        flat=mean(trader.side == 0),
        trail_moves=mean(np.isin(decisions.action, (Action.TRAIL_TIGHTEN, Action.TRAIL_LOOSEN))),
        **_against_the_truth(fold, trader),
    )


def _against_the_truth(fold: TradedFold, trader: Trader) -> dict[str, float]:
    names = [field.name for field in fields(Findings)][-8:]
    if fold.signal is None or fold.fill_signal is None or fold.oracle is None:
        return dict.fromkeys(names, math.nan)
    signal, side, trades = fold.signal, trader.side, trader.trades
    drift = fold.config.synthetic.drift_cost_ratio * fold.oracle.cost_ticks
    if fold.config.market_source == "martingale":
        drift = 0.0
    promised = mean(side * drift * signal)
    gone = promised - mean(side * drift * fold.fill_signal)
    total_mid = trades.gross_ticks.sum() + (0.0 if trades.spread_ticks is None else trades.spread_ticks.sum())
    at, left = trader.entries, trader.exits[~trades.forced]
    held = trader.side_before[at]
    wants = fold.oracle.act(signal) - 1  # [T, 3]
    this, earlier, later = (
        wants[np.clip(at + lag, 0, len(signal) - 1), held + 1] == trades.side for lag in (0, -1, 1)
    )
    return {
        "signal_at_entry": mean(trades.side * signal[at]),
        "signal_at_exit": mean(trades.side[~trades.forced] * signal[left]),
        "on_time": mean(this),
        "late": mean(~this & earlier),
        "early": mean(~this & ~earlier & later),
        "promised_per_decision": promised,
        "before_fill_per_decision": gone,
        "luck_per_decision": float(total_mid) / len(signal) - promised + gone,
    }


def best_tenth(net_ticks: Floats) -> float:
    """What the best tenth of trades, one at least, earn over the net of all; NaN where all earn nothing."""
    best = np.sort(net_ticks)[::-1][: max(1, round(len(net_ticks) / 10))]
    return float(best.sum() / net_ticks.sum()) if net_ticks.sum() > 0 else math.nan


def best_lots(fold: TradedFold) -> float:
    """Lots at the best ask where orders fill, median over the decisions."""
    return float(np.median(fold.book[fold.fill_rows, 1, 1, 0]))


def capacity(fold: TradedFold, trader: Trader) -> dict[int, float]:
    """Net ticks a decision, all lots together, if every order had been so many lots instead of one.

    Each order walks the book of its fill row; what exceeds its levels pays a tick more than the last. Nobody
    reacts, and every level is full again at the next order: no real market is as kind. For one-lot traders.
    """
    kept = ~trader.trades.forced
    side = trader.trades.side[kept].astype(np.int64)
    found = {}
    for lots in CAPACITY_LOTS:
        slip = _slip(fold, trader.entries[kept], side, lots) + _slip(fold, trader.exits[kept], -side, lots)
        net = lots * trader.trades.pnl_ticks[kept] - slip
        found[lots] = float(net.sum()) / len(trader.decisions)
    return found


def _slip(fold: TradedFold, sent: Ints, direction: Ints, lots: int) -> Any:
    """Ticks that orders of `lots` pay beyond the best price for all of them, `[M]`."""
    levels = fold.book[fold.fill_rows[sent], (direction > 0).astype(np.int64)].astype(np.int64)
    px, sz = levels[:, 0], levels[:, 1]
    taken = np.diff(np.minimum(np.cumsum(sz, axis=1), lots), axis=1, prepend=0)
    beyond = direction[:, None] * (px - px[:, :1])
    rest = lots - taken.sum(axis=1)
    return (taken * beyond).sum(axis=1) + rest * (beyond[:, -1] + 1)
