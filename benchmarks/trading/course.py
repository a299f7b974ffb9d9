"""The course of trades: what they earn by the time they are held, and how the mid moves around orders."""

from itertools import pairwise

import numpy as np

from benchmarks.trading.account import Floats, Ints, Trader, mean
from benchmarks.trading.fold import TradedFold

HOLDS = (1, 2, 3, 4, 6, 9, 17)  # decisions, lower ends of the groups by holding time
HOLD_NAMES = (*(f"{a}" if b == a + 1 else f"{a}-{b - 1}" for a, b in pairwise(HOLDS)), f"{HOLDS[-1]}+")
AROUND = np.arange(-6, 9)  # decisions around an order


def by_hold(trader: Trader) -> dict[str, dict[str, float]]:
    """By decisions held: share of the trades, and net ticks a decision of the whole window."""
    trades = trader.trades
    group = np.digitize(trader.exits - trader.entries, HOLDS) - 1
    net = np.bincount(group, trades.pnl_ticks, minlength=len(HOLDS)) / len(trader.decisions)
    return {
        name: {"share": mean(group == index), "net_per_decision": float(net[index])}
        for index, name in enumerate(HOLD_NAMES)
    }


def mid_around(fold: TradedFold, trader: Trader, orders: Ints) -> Floats:
    """Mean mid at AROUND decisions from each trade's order `[M]`, ticks in the trade's favour against that of
    the order's row. Of the trades around whose order all lies in one segment; NaN where there are none."""
    kept = (orders + AROUND[0] >= 0) & (orders + AROUND[-1] < len(fold.rows))
    rows = fold.rows[orders[kept][:, None] + AROUND]
    whole = fold.segment_start[rows[:, 0]] == fold.segment_start[rows[:, -1]]
    if not whole.any():
        return np.full(len(AROUND), np.nan)
    moves = fold.mid_ticks[rows] - fold.mid_ticks[rows[:, -AROUND[0]]][:, None]
    return np.asarray((moves * trader.trades.side[kept][:, None])[whole].mean(axis=0), np.float64)


def mid_after(fold: TradedFold, trader: Trader) -> dict[str, dict[int, float]]:
    """`mid_around` one to three decisions after entries and exits."""
    return {
        what: {int(after): float(mid_around(fold, trader, at)[after - AROUND[0]]) for after in (1, 2, 3)}
        for what, at in (("entry", trader.entries), ("exit", trader.exits))
    }
