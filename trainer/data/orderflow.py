"""The events of the synthetic order book around a hidden mid, a row each (SYSTEM.md section 12).

The hidden mid decides when the quote moves, so that the truth about the price stays known; the move is made
by orders: a best queue is traded or cancelled away, a new order is entered inside the spread. Of a row's own
future the book shows the signal and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from trainer.data.latent import WIDE_SHARE, Floats, persistent
from trainer.data.queues import (
    ASK,
    BID,
    LEAN,
    ORDER_BITS,
    ORDER_MASK,
    SLOTS,
    Bools,
    Ints,
    Touches,
    draw_entering,
    draw_queues,
    draw_touches,
    draw_trades,
    play,
)

BLOCK_ROWS = 8192  # drawn and turned into arrays at a time: bounds memory
WIDE_MEMORY = 0.9  # of the process that widens the spread, per row
SWEEP_SHARE = 0.2  # moves of a best price that trades make; the others are made by cancellations
TOWARDS = np.array([-1, 1])  # ticks from a side's best price to its next one


@dataclass(frozen=True)
class Quotes:
    """Best prices by side, `ticks [2, n] int64`: bid, ask."""

    ticks: Ints

    @property
    def mid_ticks(self) -> Floats:
        """`[n]`."""
        return np.asarray(self.ticks.mean(axis=0))


@dataclass(frozen=True)
class Orders:
    """The order at the end of each row's event, by what it did to its queue; all `[n]`."""

    side: Ints
    ticks: Ints  # price
    slot: Ints  # ticks behind the best price, negative where the queue has gone
    lots_change: Ints
    orders_change: Ints


@dataclass(frozen=True)
class Trades:
    """Trades just before rows, in row order; all `[t]`."""

    row: Ints  # whose event they are part of
    buyer: Bools  # the aggressor bought: the lots are taken from the ask
    ticks: Ints  # price
    lots: Ints
    sweep: Bools  # took the whole queue


@dataclass(frozen=True)
class Events:
    """Consecutive rows, each the book at the end of one event."""

    quotes: Quotes  # [2, n]
    lots: Ints  # [2, n, SLOTS] by side and ticks from the best price; 0 where no order rests
    orders: Ints  # [2, n, SLOTS]
    last: Orders  # [n]
    trades: Trades  # [t]


def quotes_around(mid_ticks: Floats, rng: np.random.Generator) -> Quotes:
    """Quotes whose mid is the nearest to the hidden one `[n]` that their spread, 1 or 2 ticks, allows.

    Unbiased and within half a tick of it. Where only the spread changes, one side moves.
    """
    wide = persistent(len(mid_ticks), WIDE_MEMORY, rng) > ndtri(1.0 - WIDE_SHARE)
    bid = np.where(wide, np.round(mid_ticks) - 1.0, np.floor(mid_ticks)).astype(np.int64)
    return Quotes(np.stack([bid, bid + 1 + wide]))


class OrderFlow:
    """A book and the events that happen to it. `signal_rows` sets how fast it follows the signal."""

    def __init__(self, signal_rows: int, rng: np.random.Generator) -> None:
        self._signal_rows = signal_rows
        self._rng = rng
        self._before: tuple[Ints, Ints] | None = None  # newest row: best prices [2], packed queues [2, SLOTS]

    def run(self, signal: Floats, quotes: Quotes) -> Iterator[Events]:
        """The events that lead through `quotes [2, n]` while `signal [n]` leans the book, in blocks.

        Row i reads rows up to i. The first row is a whole new book.
        """
        for start in range(0, len(signal), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            yield self._block(signal[rows], quotes.ticks[:, rows])

    def _block(self, signal: Floats, ticks: Ints) -> Events:
        rng, opening = self._rng, self._before is None
        best, queues = self._before or (ticks[:, 0], self._opening(signal[0]))
        away = np.diff(ticks, axis=1, prepend=best[:, None]) * TOWARDS[:, None]
        wanted = draw_trades(signal, rng)
        # A trade inside a queue needs that the side's best price stays; the first row has no book before it.
        wanted[away[_taken_side(wanted), np.arange(len(signal))] != 0] = 0
        wanted[: int(opening)] = 0
        touches = draw_touches(signal, self._signal_rows, wanted, rng)
        entering = tuple(draw_entering(away[side], LEAN[side] * signal, rng) for side in (BID, ASK))
        packed, traded = play(tuple(queues.tolist()), away, entering, touches, wanted)
        before = np.concatenate([queues[:, None], packed[:, :-1]], axis=1)
        self._before = ticks[:, -1], packed[:, -1].copy()
        side, slot = _last_order(away, traded, touches, rng)
        known = np.zeros_like(before[:, :1]) if opening else before[:, :1]
        last = _change(side, slot, ticks, away, np.concatenate([known, before[:, 1:]], axis=1), packed)
        trades = _trades(away, traded, before, ticks, rng)
        return Events(Quotes(ticks), packed >> ORDER_BITS, packed & ORDER_MASK, last, trades)

    def _opening(self, signal: float) -> Ints:
        """Both sides' queues before the first event, `[2, SLOTS]` packed."""
        slots = np.arange(SLOTS)
        return np.stack([draw_queues(slots, np.full(SLOTS, lean * signal), self._rng) for lean in LEAN])


def _taken_side(lots: Ints) -> Ints:
    """Side of the queue that a trade of signed lots takes from."""
    return np.where(lots > 0, ASK, BID)


def _last_order(away: Ints, traded: Ints, touches: Touches, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Side and slot `[n]` of the order that ends each row's event.

    A move of the quote ends its event: the side that moved, one of them where both did. Else what a trade
    leaves of a queue, else one of the touches.
    """
    num_rows = len(traded)
    first = np.searchsorted(touches.row, np.arange(num_rows + 1))
    count = np.diff(first)
    pick = first[:-1] + (rng.random(num_rows) * count).astype(np.int64)
    # One more value for the rows that nothing touches.
    touched_side, touched_slot = np.append(touches.side, BID)[pick], np.append(touches.slot, 0)[pick]
    side = np.where(traded != 0, _taken_side(traded), np.where(count > 0, touched_side, BID))
    slot = np.where((traded == 0) & (count > 0), touched_slot, 0)
    bid_moved, ask_moved = away != 0
    moved = np.where(bid_moved & ask_moved, rng.integers(0, 2, num_rows), np.where(bid_moved, BID, ASK))
    any_moved = bid_moved | ask_moved
    # Where the side's best went away, the queue that was the best one lies before the new one.
    gone = -np.maximum(away[moved, np.arange(num_rows)], 0)
    return np.where(any_moved, moved, side), np.where(any_moved, gone, slot)


def _change(side: Ints, slot: Ints, ticks: Ints, away: Ints, before: Ints, packed: Ints) -> Orders:
    """What each row did to the queue at `side`, `slot` `[n]`: lots and orders against the row before."""
    rows = np.arange(len(side))
    earlier = slot + away[side, rows]  # its slot one row before
    known = (earlier >= 0) & (earlier < SLOTS)
    old = np.where(known, before[side, rows, earlier.clip(0, SLOTS - 1)], 0)
    new = np.where(slot >= 0, packed[side, rows, slot.clip(0)], 0)
    return Orders(
        side=side,
        ticks=ticks[side, rows] + slot * TOWARDS[side],
        slot=slot,
        lots_change=(new >> ORDER_BITS) - (old >> ORDER_BITS),
        orders_change=(new & ORDER_MASK) - (old & ORDER_MASK),
    )


def _trades(away: Ints, traded: Ints, before: Ints, ticks: Ints, rng: np.random.Generator) -> Trades:
    """Trades inside best queues, and those that take whole queues where a side's best goes away."""
    inside = np.flatnonzero(traded)
    taken = _taken_side(traded[inside])
    num_lost = np.where((rng.random(away.shape) < SWEEP_SHARE) & (away > 0), away, 0)
    # Every queue that was lost and was not empty, from the best one outwards.
    lost = (np.arange(SLOTS) < num_lost[:, :, None]) & (before > 0)
    side, row, slot = np.nonzero(lost)
    price = (ticks - away * TOWARDS[:, None])[side, row] + slot * TOWARDS[side]
    order = np.argsort(np.concatenate([inside, row]), kind="stable")
    columns = (
        (inside, row),
        (taken == ASK, side == ASK),
        (ticks[taken, inside], price),
        (np.abs(traded[inside]), before[side, row, slot] >> ORDER_BITS),
        (np.zeros(len(inside), np.bool_), np.ones(len(row), np.bool_)),
    )
    return Trades(*(np.concatenate(column)[order] for column in columns))
