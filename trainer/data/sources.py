"""The files that a cache is built from, and the fingerprint of files and build arguments."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import Config, InstrumentConfig
from trainer.data.calendar import resolve_instrument
from trainer.data.dbn import read_metadata, source_files
from trainer.data.readers import Description, book_files, describe, stored_files
from trainer.errors import InputError

# Raised by whoever changes what a column means, how rows are chosen or how features are computed.
SCHEMA_VERSION = 1
READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Sources:
    """Checked inputs of one cache."""

    files: list[Path]  # recordings of the book in time order, each named by one of its files
    trade_files: list[Path]  # empty: trades are taken from the mbp-10 records
    instrument: InstrumentConfig
    rolls: bool  # the files hold one symbol, so a change of instrument id is a roll
    manifest: dict[str, Any]  # what the fingerprint covers
    fingerprint: str  # 16 hex digits

    @property
    def num_bytes(self) -> int:
        """Size of the recordings' files as stored."""
        return sum(file.stat().st_size for path in self.files for file in stored_files(path))


def find_sources(config: Config, source: Path, trades: Path | None) -> Sources:
    """Resolves files and instrument and fingerprints them; reads every file once for its digest.

    Raises InputError: nothing there, wrong schema, several formats or datasets, instrument not known.
    """
    files = book_files(source)
    found = [describe(path) for path in files]
    trade_files = _trade_files(source, trades, found[0])
    datasets = [book.dataset for book in found]
    datasets += [read_metadata(path, "trades").dataset for path in trade_files]
    _require_one_dataset(files + trade_files, datasets)
    instrument = resolve_instrument(config.data.instrument, found[0])
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "sources": [_fingerprint_file(file) for path in files for file in stored_files(path)],
        "trades": [_fingerprint_file(path) for path in trade_files],
        "instrument": instrument.model_dump(mode="json"),
        "build": {
            "instrument_id": config.data.instrument_id,
            "decision_rows": config.data.decision_rows,
            "max_gap_s": config.data.max_gap_s,
        },
    }
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    return Sources(files, trade_files, instrument, _one_symbol(found), manifest, digest)


def _trade_files(source: Path, trades: Path | None, book: Description) -> list[Path]:
    """Files of the trades directory; none where it is the source itself and holds no trades files."""
    if trades is None:
        return []
    if not book.joins_trades:
        if trades.resolve() == source.resolve():
            return []
        what = f"separate trades beside {book.format} files, which hold their own"
        raise InputError(what, where=str(trades), do="leave out --trades-data-dir")
    try:
        return source_files(trades, "trades")
    except InputError:
        if trades.resolve() == source.resolve():
            return []
        raise


def _require_one_dataset(files: list[Path], datasets: list[str]) -> None:
    for path, dataset in zip(files, datasets, strict=True):
        if dataset != datasets[0]:
            raise InputError(
                f"dataset {dataset}, but {files[0].name} is of {datasets[0]}",
                where=str(path),
                do="keep one venue's files in a directory",
            )


def _one_symbol(books: list[Description]) -> bool:
    symbols = {symbol for book in books for symbol in book.symbols}
    return len(symbols) == 1 and not any(book.grouped for book in books)


def _fingerprint_file(path: Path) -> dict[str, Any]:
    """Name, size and sha256 of a file."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(READ_BYTES):
                digest.update(piece)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(path)) from None
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}
