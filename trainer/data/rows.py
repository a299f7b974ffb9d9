"""From records to valid book rows and segments, one chunk at a time (SYSTEM.md section 1, DATA.md traps 1-8).

A row is a valid book state: the last record of an event, not a trade record, not flagged as doubtful, in
session, both best levels present, uncrossed and not locked, and within the instrument's sane price range.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.config import InstrumentConfig
from trainer.data.book import BookChunk
from trainer.data.calendar import DAY_NS, Sessions
from trainer.data.clock import Clock
from trainer.data.dbn import BAD_TS_RECV, LAST, MAYBE_BAD_BOOK, SNAPSHOT, UNDEF_TIME, Records
from trainer.data.levels import Levels, read_levels
from trainer.data.place import Place
from trainer.data.segments import Segmenter
from trainer.data.tradeflow import TradeFlow
from trainer.errors import InputError

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# Why a record is not a row, in the order in which the reasons are tried.
REASONS = (
    "other_instrument",
    "trade",
    "clear",
    "not_last",
    "bad_ts_recv",
    "maybe_bad_book",
    "out_of_session",
    "missing_best",
    "crossed",
    "levels_out_of_order",
    "insane_price",
)
KNOWN_ACTIONS = np.isin(np.arange(256), list(b"ACMTRFN"))  # by byte
TRADE, CLEAR = ord("T"), ord("R")


class SeveralInstrumentsError(InputError):
    """More than one instrument in one stream, and none chosen."""

    def __init__(self, idents: set[int], where: str) -> None:
        shown = ", ".join(map(str, sorted(idents)))
        super().__init__(
            f"several instruments (ids {shown})", where=where, do="choose one: data.instrument_id"
        )


@dataclass(frozen=True)
class _Heads:
    """What records say beside times and levels, all `[n]`; copies: a field of records is slow to scan."""

    publisher: npt.NDArray[np.uint16]
    ident: Int64
    action: npt.NDArray[np.uint8]  # as a byte: numpy compares numbers several times faster than strings
    flags: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, records: Records) -> "_Heads":
        """The heads of `records` `[n] structured`."""
        return cls(
            records["publisher_id"].copy(),
            records["instrument_id"].astype(np.int64),
            records["action"].view(np.uint8).copy(),
            records["flags"].copy(),
        )


@dataclass(frozen=True)
class _Times:
    """Times of the chosen instrument's records, all `[n]`."""

    ts_ns: Int64  # never decreasing
    bad: Bool  # the record's own time is missing or unreliable; `ts_ns` repeats the last good one
    open_ns: Int64  # of the session, 0 where closed
    close_ns: Int64


class RowBuilder:
    """Turns a stream of mbp-10 records into BookChunks; state is carried, so chunk size changes nothing.

    Reads each record once, in file order, and nothing after it: rows are causal. `instrument_id` picks one
    instrument; None takes all records: of one instrument, or with `rolls` of one symbol whose id may change
    (a roll, or ids that are unique only within a day) but not return on the same UTC day. Records with
    BAD_TS_RECV or MAYBE_BAD_BOOK are never rows: the time of the one and the book of the other cannot be
    trusted; their trades still count.
    """

    def __init__(
        self,
        instrument: InstrumentConfig,
        instrument_id: int | None,
        max_gap_s: float,
        sessions: Sessions,
        own_trades: bool = True,
        rolls: bool = True,
    ) -> None:
        self.instrument = instrument
        self.instrument_id = instrument_id
        self.skipped = dict.fromkeys(REASONS, 0)
        self.num_records = 0
        self._sessions = sessions
        self._segmenter = Segmenter(int(max_gap_s * 1e9))
        self._flow = TradeFlow() if own_trades else None
        self._clock = Clock()
        self._publisher_id: int | None = None
        self._rolls = rolls
        self.seen_ids: list[int] = []  # instrument ids met, in order; one that served again is met again
        self._last_day: dict[int, int] = {}  # UTC day on which each id was met last
        self._in_snapshot = False

    @property
    def segments(self) -> Segmenter:
        """The segments so far; complete after the last chunk."""
        return self._segmenter

    def push(self, records: Records, source: str = "records", offset: int | None = 0) -> BookChunk:
        """The valid rows of `records` `[n] structured`, as a BookChunk (possibly empty).

        `source` and `offset` (bytes, of the first record; None for text) say where an error is. Raises
        InputError: time going backwards, off-grid price, implausible size or action, several instruments or
        venues together.
        """
        place = Place(source, offset, records, self._chosen(records))
        self.num_records += len(records)
        self.skipped["other_instrument"] += len(records) - len(place.index)
        if len(place.index) < len(records):
            records = _taken(records, place.index)
        heads = _Heads.of(records)
        self._check_identity(heads, place)
        self._check_instruments(records, heads, place)
        times = self._locate(records, place)
        if self.seen_ids:
            self._last_day[self.seen_ids[-1]] = self._clock.newest_ns // DAY_NS
        levels = read_levels(records, self.instrument, place)
        rows = np.flatnonzero(self._judge(heads, times, levels))
        ts_ns, open_ns, close_ns = (column[rows] for column in (times.ts_ns, times.open_ns, times.close_ns))
        segment = self._segmenter.assign(
            rows, ts_ns, open_ns, close_ns, heads.ident[rows], self._breaks(heads)
        )
        volume = count = np.zeros(len(rows), np.int32)
        if self._flow is not None:
            counted = (heads.action == TRADE) & (times.open_ns > 0)
            volume, count = self._flow.since_last_row(records, counted, rows, times.open_ns, heads.ident)
        return BookChunk(
            ts_ns=ts_ns,
            **levels.of_rows(rows),
            signed_volume=volume,
            trade_count=count,
            segment=segment,
            session_open_ns=open_ns,
            session_close_ns=close_ns,
        )

    def _chosen(self, records: Records) -> Int64:
        if self.instrument_id is None:
            return np.arange(len(records))
        return np.flatnonzero(records["instrument_id"] == self.instrument_id)

    def _check_identity(self, heads: _Heads, place: Place) -> None:
        """One venue and known actions."""
        publisher, action = heads.publisher, heads.action
        if self._publisher_id is None and len(publisher):
            self._publisher_id = int(publisher[0])
        place.refuse(
            publisher != self._publisher_id,
            lambda i: f"publisher {publisher[i]} beside {self._publisher_id}: books of two venues",
            "use a file of one venue",
        )
        unknown = ~KNOWN_ACTIONS[action]
        place.refuse(
            unknown, lambda i: f"unknown action {action[i : i + 1].tobytes()!r}", "the file is damaged"
        )

    def _check_instruments(self, records: Records, heads: _Heads, place: Place) -> None:
        """Ids replace each other; one that comes back on the day it was left means several instruments."""
        idents = heads.ident
        if not len(idents) or (self.seen_ids and (idents == self.seen_ids[-1]).all()):
            return
        starts = np.concatenate([[0], np.flatnonzero(np.diff(idents)) + 1])
        ends = np.append(starts[1:], len(records))
        first_day, last_day = self._days(records, heads, starts, ends - 1)
        for start, first, last in zip(starts.tolist(), first_day.tolist(), last_day.tolist(), strict=True):
            ident = int(idents[start])
            if not self.seen_ids or ident != self.seen_ids[-1]:
                if self.seen_ids and (self._last_day.get(ident) == first or not self._rolls):
                    raise SeveralInstrumentsError({*self.seen_ids, ident}, place(start))
                self.seen_ids.append(ident)
            self._last_day[ident] = last

    def _days(self, records: Records, heads: _Heads, *indices: Int64) -> list[Int64]:
        """UTC days of the records at each of `indices`; without a good time, that of the record before."""
        raw = records["ts_recv"]
        bad = ((heads.flags & BAD_TS_RECV) != 0) | (raw == UNDEF_TIME)
        times = np.where(bad, 0, raw).astype(np.int64)
        newest = np.maximum(np.maximum.accumulate(times), self._clock.newest_ns)
        return [newest[index] // DAY_NS for index in indices]

    def _locate(self, records: Records, place: Place) -> _Times:
        ts_ns, bad = self._clock.read(records, place)
        if len(ts_ns):
            # Times never decrease: where the first and the last are of one session, all are.
            open_ns, close_ns = self._sessions.locate(ts_ns[[0, -1]])
            if open_ns[0] == open_ns[1] > 0:
                return _Times(ts_ns, bad, *(np.full(len(ts_ns), ends[0]) for ends in (open_ns, close_ns)))
        return _Times(ts_ns, bad, *self._sessions.locate(ts_ns))

    def _judge(self, heads: _Heads, times: _Times, levels: Levels) -> Bool:
        """Which records `[n] bool` are valid rows; the others are counted under their first reason."""
        tests = {
            "trade": heads.action == TRADE,
            "clear": heads.action == CLEAR,
            "not_last": (heads.flags & LAST) == 0,
            "bad_ts_recv": times.bad,
            "maybe_bad_book": (heads.flags & MAYBE_BAD_BOOK) != 0,
            "out_of_session": times.open_ns == 0,
            **levels.faults(self.instrument),
        }
        valid = np.ones(len(heads.flags), np.bool_)
        for reason in REASONS[1:]:
            failed = valid & tests[reason]
            self.skipped[reason] += int(np.count_nonzero(failed))
            valid ^= failed
        return valid

    def _breaks(self, heads: _Heads) -> Bool:
        """Records `[n] bool` at which the book starts anew: a clear, or the first of a run of snapshots."""
        snapshot = (heads.flags & SNAPSHOT) != 0
        before = np.concatenate([[self._in_snapshot], snapshot[:-1]])
        if len(snapshot):
            self._in_snapshot = bool(snapshot[-1])
        breaks: Bool = (heads.action == CLEAR) | (snapshot & ~before)
        return breaks


def _taken(records: Records, index: Int64) -> Records:
    """`records[index]`, by plain bytes: numpy copies structured items field by field."""
    return records.view(f"V{records.dtype.itemsize}").take(index).view(records.dtype)
