"""What records say before any is judged: per instrument id, and by action and flag."""

from decimal import Decimal

import numpy as np
import numpy.typing as npt

from trainer.data.calendar import EARLIEST_NS, LATEST_NS
from trainer.data.dbn import BAD_TS_RECV, LAST, UNDEF_PRICE, Records
from trainer.data.inspection.report import IdReport, RecordReport, TradeReport
from trainer.types import NUM_LEVELS

Int64 = npt.NDArray[np.int64]

WORD_BYTES = 8
LEVELS_WORD, LEVEL_WORDS = (
    6,
    4,
)  # of a record: words before its first level; words of a level, two of them prices
NANOS = 1_000_000_000
UNSET = np.iinfo(np.int64).max


def words(records: Records) -> Int64:
    """Records as `[n, words] int64` of 8 bytes, without a copy."""
    return np.ascontiguousarray(records).view("<i8").reshape(len(records), -1)


def book_prices(records: Records) -> Int64:
    """Prices `[2 L, n] int64` of bid and ask of each level, units of 1e-9; UNDEF_PRICE where there is none.

    One row a column of the records: what follows runs over contiguous memory.
    """
    table = words(records)
    prices = np.empty((2 * NUM_LEVELS, len(records)), np.int64)
    for level in range(NUM_LEVELS):
        for side in range(2):
            prices[2 * level + side] = table[:, LEVELS_WORD + LEVEL_WORDS * level + side]
    return prices


def price_text(nanos: int) -> str:
    """A price of 1e-9 units as an exact decimal, `4832.25`."""
    return format((Decimal(int(nanos)) / NANOS).normalize(), "f")


class IdSurvey:
    """Counts, times, prices and price grid of every instrument id, however many there are."""

    def __init__(self) -> None:
        self._ids = np.empty(0, np.int64)  # [S] sorted
        self._columns: dict[str, Int64] = {}
        self._symbols: dict[int, str] = {}

    def add(self, records: Records, prices: Int64, symbol: str | None) -> None:
        """Counts records `[n] structured` with their `book_prices` in.

        `symbol` is given where it is the only one that they can be of.
        """
        idents = records["instrument_id"].astype(np.int64)
        distinct = np.unique(idents)
        self._admit(distinct)
        if symbol is not None:
            self._symbols |= dict.fromkeys(distinct.tolist(), symbol)
        slot = np.searchsorted(self._ids, idents)
        size = len(self._ids)
        update = (records["action"] != b"T") & ((records["flags"] & LAST) != 0)
        self._columns["records"] += np.bincount(slot, minlength=size)
        self._columns["updates"] += np.bincount(slot[update], minlength=size)
        self._add_times(records, slot)
        self._add_best(prices, slot)
        self._add_grid(np.where(prices == UNDEF_PRICE, 0, prices), slot)

    def divides(self, step: int) -> bool:
        """Whether every price so far is a multiple of `step`, units of 1e-9."""
        return not (self._columns["grid"] % step).any()

    def reports(self, symbols: dict[int, str]) -> list[IdReport]:
        """One report an id, most records first; `symbols` by id are those of the files' mappings."""
        columns = self._columns
        order: list[int] = np.argsort(-columns["records"], kind="stable").tolist() if columns else []
        return [self._report(i, self._symbols | symbols) for i in order]

    def _report(self, i: int, symbols: dict[int, str]) -> IdReport:
        ident, value = int(self._ids[i]), {name: int(column[i]) for name, column in self._columns.items()}
        return IdReport(
            instrument_id=ident,
            symbol=symbols.get(ident),
            records=value["records"],
            book_updates=value["updates"],
            first_ns=None if value["first"] == UNSET else value["first"],
            last_ns=value["last"] or None,
            low=None if value["low"] == UNSET else price_text(value["low"]),
            high=None if value["high"] == -UNSET else price_text(value["high"]),
            grid=price_text(value["grid"]) if value["grid"] else None,
        )

    def _admit(self, idents: Int64) -> None:
        """Makes room for ids that were not met before."""
        known = np.union1d(self._ids, idents)
        if len(known) == len(self._ids):
            return
        place = np.searchsorted(known, self._ids)
        start = {
            "records": 0,
            "updates": 0,
            "first": UNSET,
            "last": 0,
            "low": UNSET,
            "high": -UNSET,
            "grid": 0,
        }
        for name, value in start.items():
            column = np.full(len(known), value, np.int64)
            if len(self._ids):
                column[place] = self._columns[name]
            self._columns[name] = column
        self._ids = known

    def _add_times(self, records: Records, slot: Int64) -> None:
        raw = records["ts_recv"]
        good = ((records["flags"] & BAD_TS_RECV) == 0) & (raw >= EARLIEST_NS) & (raw < LATEST_NS)
        ts_ns, slot = raw[good].astype(np.int64), slot[good]
        np.minimum.at(self._columns["first"], slot, ts_ns)
        np.maximum.at(self._columns["last"], slot, ts_ns)

    def _add_best(self, prices: Int64, slot: Int64) -> None:
        bid, ask = prices[:2]
        has_bid, has_ask = bid != UNDEF_PRICE, ask != UNDEF_PRICE
        np.minimum.at(self._columns["low"], slot[has_bid], bid[has_bid])
        np.maximum.at(self._columns["high"], slot[has_ask], ask[has_ask])

    def _add_grid(self, prices: Int64, slot: Int64) -> None:
        """Lowers each id's grid to the greatest common divisor with its prices `[2 L, n]`, 0 where none."""
        grid = self._columns["grid"]
        # That divisor is slow to find and changes rarely: only prices that the grid does not divide count.
        # Dividing by one number is several times faster than by one a record.
        step = np.maximum(grid, 1)[slot] if len(grid) > 1 else max(int(grid[0]), 1)
        off = (prices // step * step != prices).any(axis=0) | (grid[slot] == 0)
        index = np.flatnonzero(off)
        if len(index):
            np.gcd.at(grid, slot[index], np.gcd.reduce(prices[:, index], axis=0))


class RecordSurvey:
    """Actions, flags, times and trades of the records of interest."""

    def __init__(self) -> None:
        self._actions = np.zeros(256, np.int64)
        self._flags = np.zeros(256, np.int64)
        self._first_ns, self._last_ns = UNSET, 0
        self._trades = self._buys = self._sells = self._volume = 0

    def add(self, records: Records) -> None:
        """Counts records `[n] structured` in."""
        if not len(records):
            return
        action = records["action"].view(np.uint8)
        self._actions += np.bincount(action, minlength=256)
        self._flags += np.bincount(records["flags"], minlength=256)
        trade = action == ord("T")
        side = records["side"].view(np.uint8)[trade]
        self._trades += len(side)
        self._buys += int(np.count_nonzero(side == ord("B")))
        self._sells += int(np.count_nonzero(side == ord("A")))
        self._volume += int(records["size"][trade].sum(dtype=np.int64))
        raw = records["ts_recv"]
        good = raw[((records["flags"] & BAD_TS_RECV) == 0) & (raw >= EARLIEST_NS) & (raw < LATEST_NS)]
        if len(good):
            self._first_ns = min(self._first_ns, int(good.min()))
            self._last_ns = max(self._last_ns, int(good.max()))

    def report(self) -> RecordReport:
        """The counts so far; only what occurs."""
        found = self._last_ns > 0
        return RecordReport(
            records=int(self._actions.sum()),
            first_ns=self._first_ns if found else None,
            last_ns=self._last_ns if found else None,
            actions={chr(i): int(self._actions[i]) for i in np.argsort(-self._actions) if self._actions[i]},
            flags={str(i): int(self._flags[i]) for i in np.argsort(-self._flags) if self._flags[i]},
            trades=TradeReport(self._trades, self._buys, self._sells, self._volume),
        )
