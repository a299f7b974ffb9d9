"""What a trader chooses by position and signal, beside what the oracle would choose, and what that costs."""

import math

import numpy as np

from benchmarks.trading.account import Floats, Ints, Trader, mean
from benchmarks.trading.fold import ORACLE, TradedFold
from benchmarks.trading.truth import cells, regret_ticks

EDGES = (0.0, 0.25, 0.5, 1.0)  # standard deviations of the signal, between its bands
AGAINST = ("for the position", "0 to 0.25", "0.25 to 0.5", "0.5 to 1", "1 or more")
SIZES = ("under 0.25", *AGAINST[2:])


def shortfall(fold: TradedFold, name: str) -> dict[str, tuple[float, float]]:
    """Where a trader falls behind the oracle: by kind of choice, its share of decisions and what it costs in
    ticks a decision of the whole window. Empty where the truth is unknown.

    The oracle's choice is the one from the position that the trader himself held.
    """
    if fold.signal is None:
        return {}
    trader = fold.traders[name]
    held, wanted = trader.side_before, trader.side
    best, lost = _judged(fold, trader)
    kinds = {
        "no entry where one paid": (held == 0) & (wanted == 0) & (best != 0),
        "entry that did not pay": (held == 0) & (wanted != 0) & (best == 0),
        "entry on the wrong side": (held == 0) & (wanted * best < 0),
        "stayed where leaving paid": (held != 0) & (wanted == held) & (best == 0),
        "stayed where turning paid": (held != 0) & (wanted == held) & (best == -held),
        "left where staying paid": (held != 0) & (wanted == 0) & (best == held),
        "left where turning paid": (held != 0) & (wanted == 0) & (best == -held),
        "turned where another choice paid": (held != 0) & (wanted == -held) & (best != wanted),
    }
    return {kind: (mean(where), float(lost[where].sum()) / len(lost)) for kind, where in kinds.items()}


def shortfall_by_signal(fold: TradedFold, name: str) -> dict[str, float]:
    """What all kinds of `shortfall` cost together, ticks a decision of the whole window, by the size of the
    signal at the decision's row in standard deviations. Empty where the truth is unknown."""
    if fold.signal is None:
        return {}
    _, lost = _judged(fold, fold.traders[name])
    band = np.digitize(np.abs(fold.signal), EDGES[1:])
    cost = np.bincount(band, lost, minlength=len(SIZES)) / len(lost)
    return dict(zip(SIZES, cost.tolist(), strict=True))


def unexplained(fold: TradedFold, name: str) -> dict[str, float]:
    """How far `shortfall` explains the distance to the oracle, ticks a decision. Empty without an oracle.

    behind: net that the oracle earns more; rest: that less the cost of all choices; rest_se: the standard
    error of the rest, from its means over consecutive blocks as long as the gate's shortest.
    """
    if ORACLE not in fold.traders:
        return {}
    trader, oracle = fold.traders[name], fold.traders[ORACLE]
    behind = oracle.decisions.pnl_ticks - trader.decisions.pnl_ticks
    rest = behind - _judged(fold, trader)[1]
    error = block_error(rest, fold.config.evaluate.bootstrap_block_decisions)
    return {"behind": mean(behind), "rest": mean(rest), "rest_se": error}


def block_error(values: Floats, block: int) -> float:
    """Standard error of the mean of `values [T]` from those of its whole blocks; NaN with fewer than two."""
    num = len(values) // block
    if num < 2:
        return math.nan
    means = values[: num * block].reshape(num, block).mean(axis=1)
    return float(means.std(ddof=1) / math.sqrt(num))


def by_signal(fold: TradedFold, trader: Trader) -> dict[str, dict[str, float]]:
    """Of the decisions made in a position, by the signal that stands against it at the decision's row
    (standard deviations): how many, and which shares stay, go flat and turn. Empty where it is unknown."""
    if fold.signal is None:
        return {}
    held, wanted = trader.side_before, trader.side
    band = np.digitize(-held * fold.signal, EDGES)
    table = {}
    for index, name in enumerate(AGAINST):
        at = (held != 0) & (band == index)
        kinds = {"stays": held, "goes_flat": np.zeros_like(held), "turns": -held}
        shares = {kind: mean((wanted == side)[at]) for kind, side in kinds.items()}
        table[name] = {"decisions": int(at.sum()), **shares}
    return table


def after_flat(trader: Trader) -> dict[str, float]:
    """What the next decision wants after one that leaves for flat, a stop's included: shares of same_side,
    other_side and flat. Ends of tiles do not count: no decision follows."""
    side, tile = trader.side, trader.decisions.tile
    left: Ints = np.flatnonzero((trader.side_before != 0) & (side == 0))
    left = left[left + 1 < len(side)]
    left = left[tile[left + 1] == tile[left]]
    turned = side[left + 1] * trader.side_before[left]
    return {"same_side": mean(turned > 0), "other_side": mean(turned < 0), "flat": mean(turned == 0)}


def _judged(fold: TradedFold, trader: Trader) -> tuple[Ints, Floats]:
    """The oracle's side from each position held, and ticks that the choice made costs against it, `[T]`."""
    signal, fill_signal, oracle = fold.signal, fold.fill_signal, fold.oracle
    assert signal is not None
    assert fill_signal is not None
    assert oracle is not None
    held, cell = trader.side_before, cells(oracle, signal)
    # Of what a signal promises, the share still to come when an order fills.
    kept = float(signal @ fill_signal / (signal @ signal))
    lost = regret_ticks(oracle, fold.config, kept)[cell, held + 1, trader.side + 1]
    return oracle.policy[cell, held + 1] - 1, lost
