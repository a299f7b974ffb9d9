"""The queues of the synthetic order book and what orders do to them (SYSTEM.md section 12).

Zero-intelligence order flow (Smith, Farmer, Gillemot & Krishnamurthy 2003) whose rates depend on the queues
(queue-reactive: Huang, Lehalle & Rosenbaum 2015, section 2). Small orders join a queue when it is short and
leave it when it is long; re-quotes bring it to what its participants now want to show; queues that come into
reach hold what is usual there. The signal leans the two sides against each other.

A side is a list of `SLOTS` queues at consecutive ticks from its best price outwards. A queue is one integer,
`lots << ORDER_BITS | orders`, 0 where no order rests at that tick: a loop over events is fastest with those.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from trainer.data.latent import Floats

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SLOTS = 12  # ticks from the best price within which orders rest
TOUCHED_SLOTS = 10  # within which they come and go; the others wait for the price to come nearer
BID, ASK = 0, 1
LEAN = np.array([1.0, -1.0])  # of a side's lots with the signal
ORDER_BITS = 16
ORDER_MASK = (1 << ORDER_BITS) - 1


def _by_slot(*values: float) -> Floats:
    """One value a slot; the last one repeats."""
    return np.array([*values, *[values[-1]] * (SLOTS - len(values))])


# Shaped after an hour of ES (docs/synthetic-market.md).
LOG_LOTS = np.log(_by_slot(24.0, 42.0, 48.0, 50.0))  # median of a queue
TILT = _by_slot(0.75, 0.6, 0.5, 0.45, 0.4, 0.3)  # log lots per unit of signal
NOISE = _by_slot(0.25, 0.2)  # sd of a queue's log lots around that
LOG_ORDER_LOTS, ORDER_LOTS_NOISE = np.log(2.2), 0.15  # lots per order of a queue: log median, sd
EMPTY_SHARE = 0.025  # of the ticks behind the best one
REQUOTES = _by_slot(20.0, 14.0, 10.0, 8.0, 6.0, 3.0)  # of a queue per decision: so fast the book follows
ARRIVALS = 0.12 * 0.75 ** np.arange(SLOTS)  # small orders in and out of a queue per row
SMALL_LOTS = (0.0, 0.9)  # of a small order: log-normal, rounded up
TRADE_SHARE = 0.07  # rows with a trade inside a queue
TRADE_LEAN = 1.2  # log odds of a buyer per unit of signal
TRADE_LOTS = (0.0, 1.4)  # log-normal, rounded up


@dataclass(frozen=True)
class Touches:
    """Queues that a small order or a re-quote touches, in row order, each at most once a row; all `[t]`."""

    row: Ints
    side: Ints
    slot: Ints
    value: Ints  # the queue after a re-quote; -1 for a small order
    limit_lots: Floats  # a shorter queue is joined, a longer one left
    small_lots: Ints  # of the small order


def draw_queues(slot: Ints, lean: Floats, rng: np.random.Generator) -> Ints:
    """What a queue at `slot [m]` usually holds where `lean [m]` = side's LEAN x signal, `[m]` packed."""
    noise = rng.standard_normal((2, len(slot)))
    lots = np.ceil(np.exp(LOG_LOTS[slot] + TILT[slot] * lean + NOISE[slot] * noise[0]))
    orders = np.clip(np.round(lots / np.exp(LOG_ORDER_LOTS + ORDER_LOTS_NOISE * noise[1])), 1, lots)
    empty = (rng.random(len(slot)) < EMPTY_SHARE) & (slot > 0)
    packed = (lots.astype(np.int64) << ORDER_BITS) + orders.astype(np.int64)
    return np.where(empty, 0, packed)


def draw_touches(signal: Floats, signal_rows: int, wanted_lots: Ints, rng: np.random.Generator) -> Touches:
    """Touches of the rows of `signal [n]`; none at a best queue that a trade takes `wanted_lots [n]` from.

    A row that would see neither has one small order at a best queue.
    """
    num_rows, requote_share = len(signal), 1.0 - np.exp(-REQUOTES / signal_rows)
    # One draw says whether a queue is touched, and by what.
    draws = rng.random((num_rows, 2, TOUCHED_SLOTS), dtype=np.float32)
    touched = draws < (requote_share + ARRIVALS)[:TOUCHED_SLOTS]
    traded = np.flatnonzero(wanted_lots)
    touched[traded, np.where(wanted_lots[traded] > 0, ASK, BID), 0] = False
    idle = np.flatnonzero(~touched.reshape(num_rows, -1).any(axis=1) & (wanted_lots == 0))
    touched[idle, rng.integers(0, 2, len(idle)), 0] = True
    row, side, slot = np.nonzero(touched)
    lean = LEAN[side] * signal[row]
    requoted = draws[row, side, slot] < requote_share[slot]
    usual = np.exp(LOG_LOTS[slot] + TILT[slot] * lean)
    chance = 1.0 - rng.random(len(row))  # in (0, 1]
    return Touches(
        row, side, slot,
        value=np.where(requoted, draw_queues(slot, lean, rng), -1),
        # Joined with probability usual / (usual + lots), left otherwise.
        limit_lots=usual * (1.0 - chance) / chance,
        small_lots=np.ceil(rng.lognormal(*SMALL_LOTS, len(row))).astype(np.int64),
    )  # fmt: skip


def draw_trades(signal: Floats, rng: np.random.Generator) -> Ints:
    """Lots that an aggressor wants of a best queue in each row `[n]`: buyer +, seller -, mostly 0."""
    num_rows = len(signal)
    buyer = rng.random(num_rows) < 1.0 / (1.0 + np.exp(-TRADE_LEAN * signal))
    lots = np.ceil(rng.lognormal(*TRADE_LOTS, num_rows)).astype(np.int64)
    return np.where(rng.random(num_rows) < TRADE_SHARE, np.where(buyer, lots, -lots), 0)


def draw_entering(away: Ints, lean: Floats, rng: np.random.Generator) -> list[int]:
    """Queues that come into reach of one side where its best moves by `away [n]` ticks, row by row.

    As many as the ticks moved (at most SLOTS), best first, and one more best queue in case the tick that
    becomes the best one is empty.
    """
    row = np.flatnonzero(away)
    count = np.minimum(np.abs(away[row]), SLOTS) + 1
    index = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
    spare = index == np.repeat(count - 1, count)
    first = np.where(away[row] > 0, SLOTS + 1 - count, 0)
    slot = np.where(spare, 0, index + np.repeat(first, count))
    return list(draw_queues(slot, np.repeat(lean[row], count), rng).tolist())


def play(
    queues: tuple[list[int], ...],
    away: Ints,
    entering: tuple[list[int], ...],
    touches: Touches,
    wanted_lots: Ints,
) -> tuple[Ints, Ints]:
    """Lets the events of n rows happen to both sides' `queues`, in place.

    `away [2, n]` ticks by which a side's best goes away from the other side, `wanted_lots [n]` of the trade.
    Returns the queues after each row, `[2, n, SLOTS]` packed, and the lots really traded `[n]`.
    """
    shown: tuple[list[int], list[int]] = ([], [])
    traded = wanted_lots.copy()
    coming = tuple(iter(side) for side in entering)
    counts = np.bincount(touches.row, minlength=len(wanted_lots)).tolist()
    columns = (touches.slot, touches.value, touches.limit_lots, touches.small_lots)
    stream = zip(
        [queues[side] for side in touches.side.tolist()], *(c.tolist() for c in columns), strict=True
    )
    rows = zip(away[BID].tolist(), away[ASK].tolist(), counts, wanted_lots.tolist(), strict=True)
    bids, asks = queues
    for row, (bid_away, ask_away, count, wanted) in enumerate(rows):
        if bid_away:
            _shift(bids, bid_away, coming[BID])
        if ask_away:
            _shift(asks, ask_away, coming[ASK])
        for side, slot, value, limit, lots in islice(stream, count):
            side[slot] = value if value >= 0 else _touched(side[slot], limit, lots)
        if wanted:
            side = asks if wanted > 0 else bids
            side[0], taken = _traded(side[0], abs(wanted))
            traded[row] = taken if wanted > 0 else -taken
        shown[BID].extend(bids)
        shown[ASK].extend(asks)
    return np.stack([np.array(side, np.int64).reshape(-1, SLOTS) for side in shown]), traded


def _shift(side: list[int], away: int, coming: Iterator[int]) -> None:
    """Moves a side's best price by `away` ticks: lost queues leave in front, or new ones enter there."""
    if away > 0:
        del side[:away]
        side.extend(islice(coming, min(away, SLOTS)))
    else:
        side[:0] = islice(coming, min(-away, SLOTS))
        del side[SLOTS:]
    best = next(coming)
    if not side[0]:
        side[0] = best


def _touched(queue: int, limit_lots: float, small_lots: int) -> int:
    """The queue after a small order joined or left it; the last order of a queue never leaves."""
    lots, orders = queue >> ORDER_BITS, queue & ORDER_MASK
    if lots < limit_lots or lots <= 1:
        return queue + (small_lots << ORDER_BITS) + 1
    if orders > 1:
        # The orders that stay have a lot each, at least.
        return queue - (min(small_lots, lots - orders + 1) << ORDER_BITS) - 1
    return queue - (min(small_lots, lots - 1) << ORDER_BITS)


def _traded(queue: int, wanted_lots: int) -> tuple[int, int]:
    """The queue after a trade inside it, and the lots taken: one lot stays at least."""
    lots, orders = queue >> ORDER_BITS, queue & ORDER_MASK
    left = max(lots - wanted_lots, 1)
    # The oldest orders go first; the share of the orders that stays is that of the lots, rounded up.
    return (left << ORDER_BITS) + -(-orders * left // lots), lots - left
