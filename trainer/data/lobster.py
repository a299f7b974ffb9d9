"""Reader of LOBSTER's level-2 CSV: a message and an orderbook file a day become mbp-10 records.

Row k of the orderbook file is the book after message k. Layout: LOBSTER's page "output structure". What each
message becomes: `trainer.data.lobster_events` and docs/adding-a-reader.md.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from trainer.data.csvfile import CsvFile
from trainer.data.dbn import CHUNK_RECORDS, Records
from trainer.data.lobster_events import EventMapper, Messages
from trainer.errors import InputError
from trainer.types import NUM_LEVELS

LOBSTER_SUFFIXES = (".csv", ".csv.zst")
NAME = re.compile(
    r"(?P<ticker>.+)_(?P<day>\d{4}-\d{2}-\d{2})_(?P<start_ms>\d+)_(?P<end_ms>\d+)"
    r"_(?P<kind>message|orderbook)_(?P<levels>[1-9]\d{0,3})\.csv(\.zst)?"
)
PATTERN = "TICKER_YYYY-MM-DD_STARTMS_ENDMS_message_LEVELS.csv"
# Decimal places of each column.
MESSAGE_COLUMNS = {"time": 9, "type": 0, "order id": 0, "size": 0, "price": 0, "direction": 0}
LEVEL_COLUMNS = ("ask price", "ask size", "bid price", "bid size")


@dataclass(frozen=True)
class LobsterPair:
    """The two files of one ticker, day and time span."""

    ticker: str
    day: date
    start_ms: int  # after midnight, New York
    levels: int  # of the orderbook file
    message: Path
    orderbook: Path


def is_lobster_name(name: str) -> bool:
    """Whether a file's name is of LOBSTER's form."""
    return NAME.fullmatch(name) is not None


def pair_of(path: Path) -> LobsterPair:
    """The pair to which `path`, either of its files, belongs.

    Raises InputError: a name that is not LOBSTER's, no such day, a partner that is not there.
    """
    found = _parsed_name(path)
    try:
        day = date.fromisoformat(found["day"])
    except ValueError:
        raise InputError(
            f"{found['day']} in the name is no date", where=str(path), do="correct the name"
        ) from None
    start, end = found.span("kind")
    both = [path.with_name(path.name[:start] + kind + path.name[end:]) for kind in ("message", "orderbook")]
    for partner in both:
        if not partner.is_file():
            what = f"its partner {partner.name} is missing"
            raise InputError(what, where=str(path), do="put both files into one directory")
    return LobsterPair(found["ticker"], day, int(found["start_ms"]), int(found["levels"]), *both)


def find_pairs(directory: Path) -> list[LobsterPair]:
    """The pairs of a directory, all of one ticker, in time order; every .csv there must belong to one.

    Raises InputError like `pair_of`, and where there are several tickers.
    """
    paths = sorted(path for path in directory.iterdir() if path.name.endswith(LOBSTER_SUFFIXES))
    for path in paths:
        _parsed_name(path)  # before partners are looked for: a changed name explains a missing one
    pairs = {pair_of(path) for path in paths}
    tickers = sorted({pair.ticker for pair in pairs})
    if len(tickers) > 1:
        what = f"LOBSTER files of several tickers: {', '.join(tickers)}"
        raise InputError(what, where=str(directory), do="keep each ticker in a directory of its own")
    return sorted(pairs, key=lambda pair: (pair.day, pair.start_ms, pair.orderbook.name))


def _parsed_name(path: Path) -> re.Match[str]:
    found = NAME.fullmatch(path.name)
    if found is None:
        what = f"a .csv file whose name is not LOBSTER's {PATTERN}"
        raise InputError(what, where=str(path), do="keep the name it was delivered with: it holds the date")
    return found


class LobsterReader:
    """Iterates over the records of one pair: a `trainer.data.readers.BookReader`.

    Looks ahead only among messages of one time, to tell which of them completes the event; a record reads its
    own message and book, and a trade the book before. Raises InputError with file and line for damage of
    either file, messages out of time order, and files of different length.
    """

    offset = None  # text: the line of a record, in either file, is its `sequence`

    def __init__(self, path: Path, chunk_records: int = CHUNK_RECORDS) -> None:
        pair = pair_of(path)
        self.path = pair.orderbook  # what later checks refuse is a price or a size of the book
        self.chunk_records = chunk_records
        self._mapper = EventMapper(pair.day)
        self._messages = CsvFile(pair.message, MESSAGE_COLUMNS)
        columns = {f"{name} {level}": 0 for level in range(1, pair.levels + 1) for name in LEVEL_COLUMNS}
        try:
            self._books = CsvFile(pair.orderbook, columns, num_kept=4 * min(pair.levels, NUM_LEVELS))
        except InputError:
            self._messages.close()
            raise

    @property
    def bytes_read(self) -> int:
        """Bytes consumed of both files as stored."""
        return self._messages.bytes_read + self._books.bytes_read

    def __enter__(self) -> "LobsterReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._messages.close()
        self._books.close()

    def __iter__(self) -> Iterator[Records]:
        self._messages.read_ahead()
        self._books.read_ahead()
        more = True
        while more:
            messages = Messages(self._messages, self._messages.read(self.chunk_records))
            books = self._books.read(self.chunk_records)
            self._require_partners()
            more = books.shape[1] == self.chunk_records
            records = self._mapper.push(messages, self._books, books, final=not more)
            # An execution is two records: what was read as one chunk may be two.
            for start in range(0, len(records), self.chunk_records):
                yield records[start : start + self.chunk_records]

    def _require_partners(self) -> None:
        """As many rows of the one file as of the other; otherwise one of them has ended."""
        short, long = sorted((self._messages, self._books), key=lambda file: file.num_rows)
        if short.num_rows < long.num_rows:
            what = f"ends after {short.num_rows} rows, before {long.path.name} does"
            raise InputError(what, where=short.place(short.num_rows), do="download both files again")
