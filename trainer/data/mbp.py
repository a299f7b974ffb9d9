"""Events of the synthetic book as DBN mbp-10 records, with the traps of real files (DATA.md "The record").

An event's records come in this order, all at the row's receive time: for a sweep now and then the crossed
book that a venue shows between its own messages, the trades, and last the row itself, with its last order.
"""

from typing import Any

import databento_dbn as dbn
import numpy as np
import numpy.typing as npt

from trainer.data.dbn import LAST, RTYPES, UNDEF_PRICE, WORD_BYTES
from trainer.data.orderflow import Events
from trainer.data.queues import ASK, BID, SLOTS, Bools, Ints
from trainer.presets import INSTRUMENTS
from trainer.types import NUM_LEVELS

Records = npt.NDArray[np.void]

INSTRUMENT_ID = 1
UNSIDED_SHARE, TRADE_LAST_SHARE = 0.05, 0.2  # trades of side N; trades that carry LAST
TORN_SHARE = 0.5  # sweeps whose order is shown before it is matched: the book is crossed
LEVEL = np.dtype([("bid_px", "<i8"), ("ask_px", "<i8"), ("bid_sz", "<u4"), ("ask_sz", "<u4"),
                  ("bid_ct", "<u4"), ("ask_ct", "<u4")])  # fmt: skip
HEADER = dbn.MBP10Msg._dtypes[:14]  # everything before the levels
RECORD = np.dtype([*HEADER, ("levels", LEVEL, (NUM_LEVELS,))])
WORDS = RECORD.itemsize // WORD_BYTES
VENUE_DELAY_NS = 50_000  # from the venue's clock to ours
TICK_NANOS = INSTRUMENTS["synthetic"].tick_size_nanos


class Recorder:
    """Turns consecutive `Events` into records; remembers the newest book, which the next trades show."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._book: Records | None = None  # [1], the newest row
        self._sequence = 0

    def records(self, events: Events, ts_ns: Ints) -> Records:
        """All records of `events`, whose rows are received at `ts_ns [n]`: `[>= n] RECORD`, unstamped."""
        rows = book_rows(events)
        rows["ts_recv"] = ts_ns
        owner = events.trades.row
        shown = rows[owner - 1]  # the book of the row before
        if self._book is not None:
            shown[owner == 0] = self._book
        trades = self._trades(events, shown)
        torn_at = np.flatnonzero(events.trades.sweep & (self._rng.random(len(trades)) < TORN_SHARE))
        torn_at = torn_at[np.diff(owner[torn_at], prepend=-1) != 0]
        torn = _torn(trades[torn_at], events.trades.buyer[torn_at])
        self._book = rows[-1:].copy()
        # Stable: an event's torn record comes first, its row last.
        owners = np.concatenate([owner[torn_at], owner, np.arange(len(rows))])
        order = np.argsort(owners, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        found = np.empty(len(order), RECORD)
        for part, where in zip(
            (torn, trades, rows), np.split(place, np.cumsum([len(torn), len(trades)])), strict=True
        ):
            found[where] = part
        found["ts_recv"] = ts_ns[owners[order]]
        return found

    def stamped(self, records: Records) -> Records:
        """The same records with sequence numbers and the venue's own times, in place."""
        records["sequence"] = self._sequence + np.arange(1, len(records) + 1)
        records["ts_event"] = records["ts_recv"] - VENUE_DELAY_NS
        self._sequence += len(records)
        return records

    def _trades(self, events: Events, shown: Records) -> Records:
        """Trade records `[t]`, over the books `shown [t]` of the rows before them."""
        trades = events.trades
        unsided = self._rng.random(len(shown)) < UNSIDED_SHARE
        shown["action"] = b"T"
        shown["side"] = np.where(unsided, b"N", np.where(trades.buyer, b"B", b"A"))
        shown["price"], shown["size"] = trades.ticks * TICK_NANOS, trades.lots
        shown["flags"] = np.where(self._rng.random(len(shown)) < TRADE_LAST_SHARE, LAST, 0)
        shown["depth"] = 0
        return shown


def book_rows(events: Events) -> Records:
    """The rows of `events` as records `[n] RECORD`, each with the order that ended it; times are 0.

    `size` is the lots by which that order changed its queue, at least 1. Where as many orders wait as before
    it is a modification.
    """
    last = events.last
    rows = np.zeros(len(last.side), dtype=RECORD)
    rows["length"], rows["rtype"], rows["instrument_id"], rows["flags"] = (
        WORDS,
        RTYPES["mbp-10"],
        INSTRUMENT_ID,
        LAST,
    )
    for side, name in ((BID, "bid"), (ASK, "ask")):
        _fill_side(rows["levels"], name, events, side)
    joined = (last.lots_change > 0) & (last.orders_change > 0)
    left = (last.lots_change < 0) & (last.orders_change < 0)
    rows["action"] = np.where(joined, b"A", np.where(left, b"C", b"M"))
    rows["side"] = np.where(last.side == BID, b"B", b"A")
    rows["price"] = last.ticks * TICK_NANOS
    rows["size"] = np.abs(last.lots_change).clip(1)
    rows["depth"] = last.slot.clip(0)
    return rows


def _fill_side(levels: npt.NDArray[np.void], name: str, events: Events, side: int) -> None:
    """Prices, lots and order counts of one side in `levels [n, L]`, in place; empty ticks are no levels."""
    lots, orders, slots = events.lots[side], events.orders[side], np.arange(SLOTS)
    away = 1 if side == ASK else -1
    levels[f"{name}_px"] = (events.quotes.ticks[side][:, None] + away * slots[:NUM_LEVELS]) * TICK_NANOS
    levels[f"{name}_sz"] = lots[:, :NUM_LEVELS]
    levels[f"{name}_ct"] = orders[:, :NUM_LEVELS]
    holed = np.flatnonzero((lots[:, :NUM_LEVELS] == 0).any(axis=1))
    kept = np.argsort(lots[holed] == 0, axis=1, kind="stable")[:, :NUM_LEVELS]
    shown_lots = np.take_along_axis(lots[holed], kept, axis=1)
    ticks = events.quotes.ticks[side][holed, None] + away * kept
    levels[f"{name}_px"][holed] = np.where(shown_lots > 0, ticks * TICK_NANOS, UNDEF_PRICE)
    levels[f"{name}_sz"][holed] = shown_lots
    levels[f"{name}_ct"][holed] = np.take_along_axis(orders[holed], kept, axis=1)


def _torn(trades: Records, buyer: Bools) -> Records:
    """The order behind each sweep `[t]`, resting on top of its own side for a moment: the book is crossed."""
    torn = trades.copy()
    torn["action"], torn["side"], torn["flags"] = b"A", np.where(buyer, b"B", b"A"), 0
    for name, rows in (("bid", np.flatnonzero(buyer)), ("ask", np.flatnonzero(~buyer))):
        levels = torn["levels"]
        other = "ask" if name == "bid" else "bid"
        crossing = levels[f"{other}_px"][rows, 1]  # reaches over the queue that it takes
        for field in ("px", "sz", "ct"):
            column = levels[f"{name}_{field}"]
            column[rows, 1:] = column[rows, :-1]
        levels[f"{name}_px"][rows, 0] = torn["price"][rows] = crossing
        levels[f"{name}_sz"][rows, 0], levels[f"{name}_ct"][rows, 0] = torn["size"][rows], 1
    return torn


def crossed_records(first: Records, times_ns: Ints) -> Records:
    """Auction books at `times_ns [m]`: the book `first [1]` with its sides swapped."""
    crossed = np.repeat(first, len(times_ns))
    levels: Any = crossed["levels"]
    for field in ("px", "sz", "ct"):
        bid = levels[f"bid_{field}"].copy()
        levels[f"bid_{field}"], levels[f"ask_{field}"] = levels[f"ask_{field}"], bid
    crossed["ts_recv"] = times_ns
    return crossed
