"""A trader's account: which order opened and closed each trade, and what was held when."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.learn.account import Decisions, Trades

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Trader:
    """The account of one trader on the fold's T decisions, M trades."""

    decisions: Decisions
    trades: Trades

    @cached_property
    def equity_ticks(self) -> Floats:
        """Net ticks up to the end of each decision, marked at what a close would get, `[T]`."""
        return np.cumsum(self.decisions.pnl_ticks)

    @cached_property
    def entries(self) -> Ints:
        """The decision that sent each trade's opening order, `[M]`."""
        return self._senders(self.trades.entry_ns)

    @cached_property
    def exits(self) -> Ints:
        """The decision that sent each closing order, `[M]`; the one after its last, of a forced close."""
        last = np.searchsorted(self.decisions.ts_ns, self.trades.exit_ns, "left")
        return np.where(self.trades.forced, last, self._senders(self.trades.exit_ns))

    @cached_property
    def side(self) -> Ints:
        """What each decision wants held, `[T]`: -1, 0 or +1 from the opening order to the closing one."""
        change = np.zeros(len(self.decisions) + 1, np.int64)
        np.add.at(change, self.entries, self.trades.side)
        np.subtract.at(change, self.exits, self.trades.side)
        return np.cumsum(change)[:-1]

    @cached_property
    def side_before(self) -> Ints:
        """The side held when each decision is made, `[T]`: tiles begin flat."""
        held = np.concatenate([[0], self.side[:-1]])
        return np.where(np.diff(self.decisions.tile, prepend=-1) != 0, 0, held)

    @cached_property
    def held_s(self) -> Floats:
        """Seconds from the opening fill to the closing one, `[M]`."""
        return (self.trades.exit_ns - self.trades.entry_ns).astype(np.float64) * 1e-9

    def unexplained_ticks(self) -> float:
        """Largest difference between account and closed trades at any moment without a position.

        Both are the same money then. A decision's P&L reaches until the next decision's time.
        """
        until_ns = np.append(self.decisions.ts_ns[1:], np.iinfo(np.int64).max)
        opened = np.searchsorted(self.trades.entry_ns, until_ns, "right")
        closed = np.searchsorted(self.trades.exit_ns, until_ns, "right")
        money = np.concatenate([[0.0], np.cumsum(self.trades.pnl_ticks)])
        return float(np.abs(self.equity_ticks - money[closed])[opened == closed].max(initial=0.0))

    def _senders(self, filled_ns: Ints) -> Ints:
        """The last decision with an order before each fill: a lane has one order in flight at a time."""
        before = np.searchsorted(self.decisions.ts_ns, filled_ns, "left")
        orders = np.flatnonzero(self.decisions.ordered)
        return np.asarray(orders[np.searchsorted(orders, before, "left") - 1])


def mean(values: Any) -> float:
    """NaN without any."""
    return float(np.mean(values)) if len(values) else math.nan
