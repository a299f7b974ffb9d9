"""The feature cache: valid rows of the source files as memory-mapped columns (SYSTEM.md section 1).

A cache is a directory `<cache_root>/<fingerprint>` of `.npy` columns, `segments.npy` and `manifest.json`. It
is built in one bounded-memory pass, appears whole or not at all, and is reused while its fingerprint matches.
"""

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.config import Config, InstrumentConfig
from trainer.data.ahead import Ahead
from trainer.data.book import BookChunk
from trainer.data.calendar import Sessions
from trainer.data.columns import COLUMNS, column_files
from trainer.data.decisions import least_rows
from trainer.data.features import FeatureStream
from trainer.data.readers import instrument_ids, open_book
from trainer.data.rows import RowBuilder, SeveralInstrumentsError
from trainer.data.sources import SCHEMA_VERSION, Sources, find_sources
from trainer.data.staging import staged_directory
from trainer.data.trades import TradeStream
from trainer.errors import InputError

MANIFEST, SEGMENTS = "manifest.json", "segments.npy"
MIN_WINDOW_DECISIONS = 10  # fewer in the average window cannot train or judge anything
CHOOSE_INSTRUMENT = "choose one: data.instrument_id"
CHUNK_RECORDS = 8_192  # 3 MB of records: large enough for numpy, small enough for the caches of a core
CHUNKS_AHEAD = 2  # chunks of rows that wait for their features

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Cache:
    """Memory-mapped columns of R valid rows in receive-time order; read-only."""

    path: Path
    manifest: dict[str, Any]
    instrument: InstrumentConfig
    ts_ns: npt.NDArray[np.int64]  # [R] receive time, UTC ns
    bid_px: npt.NDArray[np.int32]  # [R, L] ticks
    ask_px: npt.NDArray[np.int32]  # [R, L] ticks
    bid_sz: npt.NDArray[np.int32]  # [R, L] lots
    ask_sz: npt.NDArray[np.int32]  # [R, L] lots
    signed_volume: npt.NDArray[np.int32]  # [R] lots since the previous row
    trade_count: npt.NDArray[np.int32]  # [R] trades since the previous row
    segment: npt.NDArray[np.int32]  # [R] index into `segments`
    features: npt.NDArray[np.float32]  # [R, F] not normalised
    segments: npt.NDArray[np.void]  # [G] structured, trainer.data.segments.SEGMENT

    @property
    def num_rows(self) -> int:
        """R."""
        return len(self.ts_ns)

    @property
    def fingerprint(self) -> str:
        """16 hex digits of the source files' contents and the build arguments."""
        return str(self.manifest["fingerprint"])


def open_cache(path: Path) -> Cache:
    """Maps a cache. Raises InputError when it is absent, of another schema version, or incomplete."""
    manifest = _read_manifest(path)
    columns = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in COLUMNS}
    instrument = InstrumentConfig.model_validate(manifest["instrument"])
    return Cache(
        path=path, manifest=manifest, instrument=instrument, segments=np.load(path / SEGMENTS), **columns
    )


def build_cache(
    config: Config,
    source: Path,
    cache_root: Path,
    trades: Path | None = None,
    on_progress: Progress | None = None,
) -> Cache:
    """The cache of `source` (file or directory of mbp-10 files) under `cache_root`, built unless it is there.

    `trades` is a separate file or directory of trades; the trades among the mbp-10 records are then ignored.
    `on_progress(bytes_done, bytes_total)` counts bytes of the source files as stored. Each row reads records
    up to itself only. Raises InputError for bad data, an unwritable or full `cache_root`, or too few rows;
    then nothing is left behind.
    """
    sources = find_sources(config, source, trades)
    target = cache_root / sources.fingerprint
    if not _usable(target):
        with staged_directory(target, _usable) as staging:
            _build(config, sources, staging, on_progress or _no_progress)
    cache = open_cache(target)
    _require_rows(config, sources, cache.manifest)  # it may have been built for fewer folds
    return cache


def _build(config: Config, sources: Sources, staging: Path, on_progress: Progress) -> None:
    """One pass over the records into the columns of `staging`."""
    calendar, chosen = sources.instrument.calendar, config.data.instrument_id
    builder = RowBuilder(
        sources.instrument,
        chosen,
        config.data.max_gap_s,
        Sessions(calendar),
        own_trades=not sources.trade_files,
        rolls=sources.rolls,
    )
    trade_files, joined = sources.trade_files, None
    if trade_files:
        joined = TradeStream(trade_files, Sessions(calendar), instrument_id=chosen)
    features = FeatureStream(config.data.decision_rows)
    # What the features use, loaded before there is a second thread that imports.
    import_module("scipy.signal")
    # Three threads that compute: one inflates, one checks records and picks rows, this one makes features and
    # writes columns. A fourth waits for the disk (column_files).
    with column_files(staging) as columns, Ahead(_chunks(sources, builder), CHUNKS_AHEAD) as chunks:
        for chunk, done in chunks:
            if joined is not None:
                chunk = joined.join(chunk, builder.segments.instrument_of(chunk.segment))
            columns.append(chunk, features.push(chunk))
            on_progress(done, sources.num_bytes)
    segments = builder.segments.table()
    manifest = _manifest(sources, builder, segments)
    _require_rows(config, sources, manifest)
    if joined is not None and not joined.num_joined:
        where = str(sources.trade_files[0].parent)
        raise InputError(
            "no trade falls between the book's rows", where=where, do="check the instrument and the dates"
        )
    np.save(staging / SEGMENTS, segments)
    files = sorted(path for path in staging.iterdir() if path.suffix == ".npy")
    manifest["files"] = {path.name: path.stat().st_size for path in files}
    (staging / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _chunks(sources: Sources, builder: RowBuilder) -> Generator[tuple[BookChunk, int], None, None]:
    """The rows of all files, in order, each chunk with the bytes of the files read so far."""
    done = 0
    try:
        for path in sources.files:
            with open_book(path, chunk_records=CHUNK_RECORDS) as reader:
                for records in reader:
                    yield builder.push(records, str(path), reader.offset), done + reader.bytes_read
                done += reader.bytes_read
    except SeveralInstrumentsError as error:
        what = f"several instruments: {_instrument_counts(sources)}"
        raise InputError(what, where=error.where, do=CHOOSE_INSTRUMENT) from None


def _instrument_counts(sources: Sources) -> str:
    counts = sorted(instrument_ids(sources.files).items())
    return ", ".join(f"{ident} ({count} records)" for ident, count in counts)


def rows_needed(config: Config) -> tuple[int, str]:
    """Rows that `folds` + 1 windows of a few decisions need at least, and those words."""
    windows, rows = config.data.folds + 1, least_rows(config.data)
    each = f"{rows} row{'s' * (rows > 1)}"
    words = f"{windows} windows of {MIN_WINDOW_DECISIONS} decisions of {each} need"
    return windows * MIN_WINDOW_DECISIONS * rows, words


def _require_rows(config: Config, sources: Sources, manifest: dict[str, Any]) -> None:
    """Enough rows for the folds, or an InputError that says where the records went."""
    needed, words = rows_needed(config)
    found, num_records, skipped = manifest["num_rows"], manifest["num_records"], manifest["skipped"]
    if found >= needed:
        return
    where = str(sources.files[0] if len(sources.files) == 1 else sources.files[0].parent)
    chosen = config.data.instrument_id
    if chosen is not None and skipped["other_instrument"] == num_records:
        what = f"no record of instrument {chosen}, but of {_instrument_counts(sources)}"
        raise InputError(what, where=where, do=CHOOSE_INSTRUMENT)
    reasons = ", ".join(f"{name} {count}" for name, count in skipped.items() if count)
    raise InputError(
        f"{found} valid rows of {num_records} records ({reasons or 'none skipped'}), fewer than the {needed} "
        f"that {words}",
        where=where,
        do="give more data, fewer folds or a smaller data.decision_rows",
    )


def _manifest(sources: Sources, builder: RowBuilder, segments: npt.NDArray[np.void]) -> dict[str, Any]:
    """All of the manifest but the sizes of the columns' files."""
    sessions = np.unique(segments[["session_open_ns", "session_close_ns"]])
    return {
        **sources.manifest,
        "fingerprint": sources.fingerprint,
        "tick_size": str(sources.instrument.tick_size),
        "num_rows": builder.segments.num_rows,
        "num_records": builder.num_records,
        "skipped": builder.skipped,
        "instrument_ids": builder.seen_ids,
        "sessions": [[int(open_ns), int(close_ns)] for open_ns, close_ns in sessions.tolist()],
        "num_segments": len(segments),
    }


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a complete cache, or an InputError that says what is wrong with it."""
    again = "prepare the run again"
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        version, files = manifest["schema_version"], dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"no readable cache here ({error})", where=str(path), do=again) from None
    if version != SCHEMA_VERSION:
        what = f"a cache of schema version {version}, expected {SCHEMA_VERSION}"
        raise InputError(what, where=str(path), do=again)
    for name in [*(f"{column}.npy" for column in COLUMNS), SEGMENTS]:
        file = path / name
        found = file.stat().st_size if file.is_file() else "none"
        if found != files.get(name):
            raise InputError(f"found {found} bytes, expected {files.get(name)}", where=str(file), do=again)
    return dict(manifest)


def _usable(path: Path) -> bool:
    try:
        _read_manifest(path)
    except InputError:
        return False
    return True


def _no_progress(_done: int, _total: int) -> None:
    """Progress nobody asked for."""
