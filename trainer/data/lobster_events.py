"""What LOBSTER's messages become as mbp-10 records; the table is in docs/adding-a-reader.md."""

from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from trainer.data.csvfile import CsvFile
from trainer.data.dbn import LAST, MAYBE_BAD_BOOK, RECORD_TYPES, RTYPES, UNDEF_PRICE, WORD_BYTES, Records
from trainer.errors import InputError
from trainer.types import NUM_LEVELS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NEW_YORK = ZoneInfo("America/New_York")
HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
EXECUTION, HIDDEN_EXECUTION, CROSS, HALT = 4, 5, 6, 7
# From this day on the feed does not tell the side of a hidden order, and LOBSTER writes 1 (its help pages).
FIRST_DAY_WITHOUT_HIDDEN_SIDE = date(2014, 7, 14)
TRADING_RESUMES = 1  # "price" of a halt message; -1 halts, and 0 lets quotes resume, but no trades
PRICE_NANOS = 100_000  # LOBSTER counts 1e-4 dollars, the record 1e-9
MISSING_PRICE = 9_999_999_999  # of an ask; of a bid its negative
MAX_PRICE = (UNDEF_PRICE - 1) // PRICE_NANOS
MAX_SIZE = np.iinfo(np.int32).max
PUBLISHER_ID, INSTRUMENT_ID = 2, 1  # the vendor's number of XNAS.ITCH; one reader, one ticker

RECORD: Any = np.dtype(RECORD_TYPES["mbp-10"]._dtypes)
LEVELS_WORD = 48 // 8  # 8-byte words of a record before its first level
LEVEL_WORDS = 4  # bid price, ask price, both sizes, both order counts
ACTIONS = np.frombuffer(b"?ACCCTTR", "S1")  # by message type
SIDES = np.frombuffer(b"A?B", "S1")  # of a resting order, by direction + 1


class Messages:
    """Consecutive rows of a message file, checked; all `[n] int64`."""

    def __init__(self, file: CsvFile, rows: Int64) -> None:
        """Raises InputError at the first row with an impossible type, direction, size, price or time."""
        self.time_ns, self.kind, _, self.size, self.price, self.direction = rows
        self.file = file
        self.first_row = file.num_rows - rows.shape[1]
        halt = self.kind == HALT
        self._require((self.kind >= 1) & (self.kind <= HALT), "type", self.kind, "one of 1 to 7")
        sided = self.kind <= HIDDEN_EXECUTION
        self._require(~sided | (np.abs(self.direction) == 1), "direction", self.direction, "1 or -1")
        self._require((self.size >= 0) & (self.size <= MAX_SIZE), "size", self.size, "a number of shares")
        sane = (self.price >= -MAX_PRICE) & (self.price <= MAX_PRICE)
        self._require(sane, "price", self.price, "a price in 1e-4 dollars")
        self._require(~halt | (np.abs(self.price) <= 1), "price", self.price, "a halt's -1, 0 or 1")
        of_day = (self.time_ns >= 0) & (self.time_ns < DAY_NS)
        self._require(of_day, "time", self.time_ns, "within a day of 86,400 s", unit=" ns")

    def __len__(self) -> int:
        return len(self.kind)

    def _require(self, good: Bool, name: str, values: Int64, wanted: str, unit: str = "") -> None:
        refuse(self.file, self.first_row, ~good, lambda i: f"{name} {values[i]}{unit} is not {wanted}")


class EventMapper:
    """Turns messages and books into records; state is carried, so that chunk size changes nothing.

    Times are the venue's, wall-clock time in New York on `day`. Messages of one time are one event, and the
    last of them that changes the book carries LAST. To be known as the last it waits for the next change or a
    later time, of which only the time is used: no record tells of anything later than itself.
    """

    def __init__(self, day: date) -> None:
        midnight_ns = (day - date(1970, 1, 1)).days * DAY_NS
        hours = (datetime(day.year, day.month, day.day, hour, tzinfo=NEW_YORK) for hour in range(24))
        offsets = [hour.utcoffset() or timedelta() for hour in hours]
        # UTC of wall-clock 0 by the hour of the time asked for: two values on a day when the clocks change.
        self._zero_ns = midnight_ns - np.array([offset // timedelta(hours=1) for offset in offsets]) * HOUR_NS
        self._hidden_sided = day < FIRST_DAY_WITHOUT_HIDDEN_SIDE
        self._newest_ns = 0
        self._halted = False
        self._book = _no_books(1)  # before the first message: unknown
        self._waiting = np.zeros(0, RECORD)

    def push(self, messages: Messages, book_file: CsvFile, books: Int64, final: bool) -> Records:
        """The records `[m] structured` of messages `[n]` and of books `[4 L, n]`, those held back first.

        `final` says that the file ends here: nothing is held back. Raises InputError at a time before the one
        above it, and at a size or price of the book that cannot be.
        """
        self._require_order(messages)
        _require_book(book_file, messages.first_row, books)
        num_waiting, executed = len(self._waiting), messages.kind == EXECUTION
        owner = np.repeat(np.arange(len(messages)), 1 + executed)  # message of each record
        records = np.empty(num_waiting + len(owner), RECORD)
        records[:num_waiting] = self._waiting
        self._fill(records[num_waiting:], messages, books, owner)
        return self._complete_events(records, final)

    def _require_order(self, messages: Messages) -> None:
        before = np.concatenate([[self._newest_ns], messages.time_ns])
        wrong = before[1:] < before[:-1]
        refuse(
            messages.file,
            messages.first_row,
            wrong,
            lambda i: f"time goes backwards, to {before[i + 1]} ns after {before[i]} ns",
        )
        self._newest_ns = int(before[-1])

    def _fill(self, records: Records, messages: Messages, books: Int64, owner: Int64) -> None:
        """Writes the records `[m]` of the messages `owner` `[m]`; an execution has two, none has LAST yet."""
        kind = messages.kind[owner]
        second = np.concatenate([[False], owner[1:] == owner[:-1]])
        trade = (kind == HIDDEN_EXECUTION) | (kind == CROSS) | ((kind == EXECUTION) & ~second)
        time_ns, price = messages.time_ns[owner], messages.price[owner] * PRICE_NANOS
        records["length"], records["rtype"] = RECORD.itemsize // WORD_BYTES, RTYPES["mbp-10"]
        records["publisher_id"], records["instrument_id"] = PUBLISHER_ID, INSTRUMENT_ID
        records["ts_event"] = records["ts_recv"] = self._zero_ns[time_ns // HOUR_NS] + time_ns
        records["price"] = np.where(kind == HALT, UNDEF_PRICE, price)
        records["size"] = messages.size[owner]
        records["action"] = np.where(trade, b"T", ACTIONS[kind])
        records["side"] = self._sides(kind, messages.direction[owner], trade)
        records["flags"] = np.where(self._halts(messages)[owner], MAYBE_BAD_BOOK, 0)
        records["depth"] = records["ts_in_delta"] = 0
        records["sequence"] = messages.first_row + owner + 1
        words = np.concatenate([self._book, _words(books)])
        # A trade shows the book before its message.
        table = records.view(np.int64).reshape(len(records), RECORD.itemsize // 8)
        table[:, LEVELS_WORD:] = words[owner + 1 - trade]
        self._book = words[-1:].copy()

    def _halts(self, messages: Messages) -> Bool:
        """Whether trading is halted after each message `[n]`; quotes alone do not end a halt."""
        at = np.flatnonzero(messages.kind == HALT)
        states = np.concatenate([[self._halted], messages.price[at] != TRADING_RESUMES])
        halted = np.asarray(states[np.searchsorted(at, np.arange(len(messages)), side="right")], np.bool_)
        self._halted = bool(states[-1])
        return halted

    def _sides(self, kind: Int64, direction: Int64, trade: Bool) -> npt.NDArray[np.bytes_]:
        """Side of the resting order; of a trade the aggressor's, who took the other side of it."""
        known = (kind <= EXECUTION) | ((kind == HIDDEN_EXECUTION) & self._hidden_sided)
        aimed = np.where(known, np.where(trade, -direction, direction), 0)
        return np.where(known, SIDES[aimed + 1], b"N")

    def _complete_events(self, records: Records, final: bool) -> Records:
        """Sets LAST and holds back the records from the one on which a later message may still decide."""
        time_ns, action = records["ts_recv"], records["action"].view(np.uint8)
        changes = np.flatnonzero((action == ord("A")) | (action == ord("C")))
        end = len(records)
        if len(changes):
            complete = np.diff(time_ns[changes], append=np.uint64(0)) != 0
            complete[-1] = final or time_ns[changes[-1]] != time_ns[-1]
            end = end if complete[-1] else int(changes[-1])
            records["flags"][changes[complete]] |= LAST
        self._waiting = records[end:].copy()
        return records[:end]


def refuse(file: CsvFile, first_row: int, wrong: Bool, what: Any) -> None:
    """Raises InputError at the first true element of `wrong` `[n]`; `what` maps its index to the text."""
    if wrong.any():
        index = int(np.argmax(wrong))
        raise InputError(what(index), where=file.place(first_row + index), do="the file is damaged")


def _require_book(file: CsvFile, first_row: int, books: Int64) -> None:
    """Sizes are numbers of shares, and prices fit the record's unit."""
    for column, (name, low, high) in enumerate((("price", -MAX_PRICE, MAX_PRICE), ("size", 0, MAX_SIZE))):
        values = books[column::2]  # ask and bid of level 1, of level 2, and so on
        if not values.size or (values.min() >= low and values.max() <= high):
            continue
        wrong = (values < low) | (values > high)
        index = int(np.argmax(wrong.any(axis=0)))
        at = int(np.argmax(wrong[:, index]))
        what = f"{('ask', 'bid')[at % 2]} {name} {at // 2 + 1} is {values[at, index]}, which cannot be"
        raise InputError(what, where=file.place(first_row + index), do="the file is damaged")


def _no_books(num: int) -> Int64:
    """Levels of `num` records that show nothing, as 8-byte words `[num, 10 * 4]`."""
    words = np.zeros((num, NUM_LEVELS, LEVEL_WORDS), np.int64)
    words[:, :, :2] = UNDEF_PRICE
    return words.reshape(num, NUM_LEVELS * LEVEL_WORDS)


def _words(books: Int64) -> Int64:
    """The levels of records as 8-byte words `[n, 10 * 4]`, of books `[4 L, n]`, L <= 10."""
    num_levels, num = len(books) // 4, books.shape[1]
    ask_px, ask_sz, bid_px, bid_sz = (books[column::4] for column in range(4))
    words = _no_books(num)
    levels = words.reshape(num, NUM_LEVELS, LEVEL_WORDS)[:, :num_levels]
    for word, price, missing in ((0, bid_px, -MISSING_PRICE), (1, ask_px, MISSING_PRICE)):
        nanos = price * PRICE_NANOS
        np.copyto(nanos, UNDEF_PRICE, where=price == missing)
        levels[:, :, word] = nanos.T
    levels[:, :, 2] = (bid_sz | (ask_sz << 32)).T  # two little-endian u4
    return words
