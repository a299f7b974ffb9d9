"""The files that a cache is built from, and the fingerprint of files and build arguments."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.config import Config, InstrumentConfig
from trainer.data.calendar import resolve_instrument
from trainer.data.dbn import DbnMetadata, read_metadata, source_files
from trainer.errors import InputError

# Raised by whoever changes what a column means, how rows are chosen or how features are computed.
SCHEMA_VERSION = 1
READ_BYTES = 1024 * 1024
# Requests whose one symbol is many instruments at a time.
PARENT_STYPE, ALL_SYMBOLS = "parent", "ALL_SYMBOLS"


@dataclass(frozen=True)
class Sources:
    """Checked inputs of one cache."""

    files: list[Path]  # mbp-10, in time order
    trade_files: list[Path]  # empty: trades are taken from the mbp-10 records
    instrument: InstrumentConfig
    rolls: bool  # the files hold one symbol, so a change of instrument id is a roll
    manifest: dict[str, Any]  # what the fingerprint covers
    fingerprint: str  # 16 hex digits

    @property
    def num_bytes(self) -> int:
        """Size of the mbp-10 files as stored."""
        return sum(path.stat().st_size for path in self.files)


def find_sources(config: Config, source: Path, trades: Path | None) -> Sources:
    """Resolves files and instrument and fingerprints them; reads every file once for its digest.

    Raises InputError: nothing there, wrong schema, files of several datasets, instrument not known.
    """
    files = source_files(source)
    trade_files = _trade_files(source, trades)
    metadata = [read_metadata(path) for path in files]
    _require_one_dataset(
        files + trade_files, metadata + [read_metadata(path, "trades") for path in trade_files]
    )
    instrument = resolve_instrument(config.data.instrument, metadata[0])
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "sources": [_fingerprint_file(path) for path in files],
        "trades": [_fingerprint_file(path) for path in trade_files],
        "instrument": instrument.model_dump(mode="json"),
        "build": {
            "instrument_id": config.data.instrument_id,
            "decision_rows": config.data.decision_rows,
            "max_gap_s": config.data.max_gap_s,
        },
    }
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]
    return Sources(files, trade_files, instrument, _one_symbol(metadata), manifest, digest)


def _trade_files(source: Path, trades: Path | None) -> list[Path]:
    """Files of the trades directory; none where it is the source itself and holds no trades files."""
    if trades is None:
        return []
    try:
        return source_files(trades, "trades")
    except InputError:
        if trades.resolve() == source.resolve():
            return []
        raise


def _require_one_dataset(files: list[Path], metadata: list[DbnMetadata]) -> None:
    for path, found in zip(files, metadata, strict=True):
        if found.dataset != metadata[0].dataset:
            raise InputError(
                f"dataset {found.dataset}, but {files[0].name} is of {metadata[0].dataset}",
                where=str(path),
                do="keep one venue's files in a directory",
            )


def _one_symbol(metadata: list[DbnMetadata]) -> bool:
    symbols = {symbol for found in metadata for symbol in found.symbols}
    grouped = any(found.stype_in == PARENT_STYPE for found in metadata)
    return len(symbols) == 1 and not grouped and ALL_SYMBOLS not in symbols


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
