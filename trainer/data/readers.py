"""Order-book files of any format as one stream of mbp-10 records (docs/adding-a-reader.md).

A format is a class that is a `BookReader`, and a line in each of the functions below. What follows the reader
(rows, trades, features) knows the record only: `databento_dbn.MBP10Msg`, DATA.md "The record".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np

from trainer.data.dbn import CHUNK_RECORDS, DBN_SUFFIXES, RecordReader, Records, read_metadata, source_files
from trainer.data.lobster import LOBSTER_SUFFIXES, LobsterReader, find_pairs, is_lobster_name, pair_of
from trainer.errors import InputError

# Requests whose one symbol is many instruments at a time.
PARENT_STYPE, ALL_SYMBOLS = "parent", "ALL_SYMBOLS"
# LOBSTER rebuilds its books from Nasdaq's own feed.
LOBSTER_DATASET = "XNAS.ITCH"


@dataclass(frozen=True)
class Description:
    """What is known of a file's records without reading them."""

    format: str  # e.g. "DBN 3", "LOBSTER"
    dataset: str  # the venue's feed by the vendor's name, e.g. GLBX.MDP3
    symbols: tuple[str, ...]
    grouped: bool  # a symbol may stand for several instruments at a time, so a new id is no roll
    joins_trades: bool  # its instrument ids are those of DBN trades files, which may replace its own trades


class BookReader(Protocol):
    """Iterates once over the records of one recording, in chunks and in bounded memory.

    Each chunk is `[<= chunk_records] structured` with the fields of `databento_dbn.MBP10Msg`, which the
    consumer may keep. Raises InputError, with file and place, for anything but a whole file.
    """

    @property
    def path(self) -> Path:
        """What an error about a record names."""

    @property
    def offset(self) -> int | None:
        """Byte offset of the chunk last yielded; None for text, whose line is each record's `sequence`."""

    @property
    def bytes_read(self) -> int:
        """Bytes consumed of all stored files of the recording; their whole size at the end."""

    def __iter__(self) -> Iterator[Records]:
        """The records, in file order."""

    def __enter__(self) -> "BookReader":
        """The reader; its files are open since it was made."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Closes the files, also before the end of the records."""


def book_files(path: Path) -> list[Path]:
    """The recordings of a source in time order: the file itself, or those of a directory, of one format.

    A recording of several files is named by one of them, which `open_book`, `describe` and `stored_files`
    take. Raises InputError: nothing there, several formats, a name or partner file that is wrong.
    """
    if path.is_dir():
        names = [child.name for child in path.iterdir() if child.is_file()]
        lobster = [name for name in names if is_lobster_name(name)]
        dbn = [name for name in names if name.endswith(DBN_SUFFIXES)]
        if lobster and dbn:
            what = f"both DBN and LOBSTER files, such as {min(dbn)} and {min(lobster)}"
            raise InputError(what, where=str(path), do="keep each format in a directory of its own")
        # Vendors put tables of their own beside DBN files: those are no data.
        if lobster or (not dbn and any(name.endswith(LOBSTER_SUFFIXES) for name in names)):
            return [pair.orderbook for pair in find_pairs(path)]
    elif _is_lobster(path) and path.exists():
        return [pair_of(path).orderbook]
    return source_files(path)


def open_book(path: Path, chunk_records: int = CHUNK_RECORDS) -> BookReader:
    """A reader of one of `book_files`. Raises InputError where it cannot be read or is no such file."""
    if _is_lobster(path):
        return LobsterReader(path, chunk_records)
    return RecordReader(path, chunk_records=chunk_records)


def describe(path: Path) -> Description:
    """What the name or the header of one of `book_files` says. Raises InputError like `open_book`."""
    if _is_lobster(path):
        return Description("LOBSTER", LOBSTER_DATASET, (pair_of(path).ticker,), False, False)
    found = read_metadata(path)
    grouped = found.stype_in == PARENT_STYPE or ALL_SYMBOLS in found.symbols
    return Description(f"DBN {found.version}", found.dataset, found.symbols, grouped, True)


def stored_files(path: Path) -> list[Path]:
    """Every file that one of `book_files` consists of."""
    if _is_lobster(path):
        pair = pair_of(path)
        return [pair.message, pair.orderbook]
    return [path]


def instrument_ids(files: list[Path]) -> dict[int, int]:
    """Number of records by instrument id over all recordings; reads them whole."""
    counts: dict[int, int] = {}
    for path in files:
        with open_book(path) as reader:
            for records in reader:
                found, times = np.unique(records["instrument_id"], return_counts=True)
                for ident, count in zip(found.tolist(), times.tolist(), strict=True):
                    counts[ident] = counts.get(ident, 0) + count
    return counts


def _is_lobster(path: Path) -> bool:
    return path.name.endswith(LOBSTER_SUFFIXES)
