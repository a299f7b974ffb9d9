"""How an account divides: by time, by holding time and by outcome (SYSTEM.md section 10)."""

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from trainer.learn.account import Decisions, Trades

_NS_PER_DAY = 86_400_000_000_000


class DurationBin(BaseModel):
    """Trades held for `low` to `high` decisions, both included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: int
    high: int
    count: int


def trading_days(decisions: Decisions) -> NDArray[np.int64]:
    """`[T] int64` index from 0 of each decision's trading session, or of its UTC date where none is given."""
    named = decisions.ts_ns // _NS_PER_DAY if decisions.session is None else decisions.session
    return np.unique(named, return_inverse=True)[1].astype(np.int64)


def time_buckets(decisions: Decisions, num_buckets: int) -> NDArray[np.float64]:
    """`[num_buckets] float64` P&L in buckets of equal *session* time.

    Time runs only between decisions of one tile, so closed hours are no part of a bucket. Where no time
    passes at all (one decision, or equal stamps) decisions are counted instead. With fewer decisions than
    buckets there is a bucket for each decision.
    """
    total = len(decisions)
    num_buckets = min(num_buckets, total)
    within = np.diff(decisions.tile, prepend=decisions.tile[0]) == 0
    elapsed = np.cumsum(np.where(within, np.diff(decisions.ts_ns, prepend=decisions.ts_ns[0]), 0))
    if elapsed[-1] == 0:
        elapsed = np.arange(total)
    # In floats: nanoseconds times buckets may pass 2^63.
    bucket = np.minimum((elapsed / max(1, int(elapsed[-1])) * num_buckets).astype(np.int64), num_buckets - 1)
    return np.bincount(bucket, decisions.pnl_ticks, minlength=num_buckets).astype(np.float64)


def duration_histogram(age: NDArray[np.int32]) -> tuple[DurationBin, ...]:
    """Trades by decisions held, in bins 0-1, 2, 3-4, 5-8, 9-16, ... up to the longest."""
    bins, low, high = [], 0, 1
    longest = int(age.max(initial=-1))
    while low <= longest:
        bins.append(DurationBin(low=low, high=high, count=int(np.sum((age >= low) & (age <= high)))))
        low, high = high + 1, 2 * high
    return tuple(bins)


def outcome_classes(trades: Trades) -> dict[str, int]:
    """Counts of disjoint classes that cover every trade, by net and gross P&L and by R (net over initial
    risk).

    win_above_1r: net > 0 and R >= 1. win: other net > 0. lost_to_fees: net <= 0 < gross. loss_beyond_1r:
    other R <= -1, the stop did not hold. loss: the rest.
    """
    win = trades.pnl_ticks > 0
    fees = ~win & (trades.gross_ticks > 0)
    large, beyond = trades.r >= 1, trades.r <= -1
    classes = {
        "win_above_1r": win & large,
        "win": win & ~large,
        "lost_to_fees": fees,
        "loss_beyond_1r": ~win & ~fees & beyond,
        "loss": ~win & ~fees & ~beyond,
    }
    return {name: int(members.sum()) for name, members in classes.items()}
