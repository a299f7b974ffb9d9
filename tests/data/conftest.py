"""Small order-book files written for a test."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import databento_dbn
import numpy as np
import pytest
import zstandard

from trainer.config import InstrumentConfig
from trainer.data.calendar import Sessions
from trainer.data.rows import RowBuilder
from trainer.presets import INSTRUMENTS

OPEN_NS = 1_704_754_800_000_000_000  # 2024-01-08 23:00 UTC, the open of a CME session of 23 hours
TICK_NANOS = 250_000_000
HOUR_NS = 3_600_000_000_000
UNDEF_PRICE = np.iinfo(np.int64).max
LAST = 128


def _records(
    num: int, start_ns: int = OPEN_NS, step_ns: int = 100_000_000, ident: int = 7, seed: int = 0
) -> Any:
    """`num` whole, uncrossed books of 10 levels one tick apart around a random walk, one record an event."""
    rng = np.random.default_rng(seed)
    records = np.zeros(num, np.dtype(databento_dbn.MBP10Msg._dtypes))
    records["length"], records["rtype"], records["publisher_id"] = 92, 10, 1
    records["instrument_id"] = ident
    records["action"], records["side"], records["flags"] = b"A", b"B", LAST
    records["ts_recv"] = records["ts_event"] = start_ns + np.arange(num) * step_ns
    best = 19_000 + rng.integers(-1, 2, num).cumsum()
    records["price"], records["size"] = best * TICK_NANOS, rng.integers(1, 50, num)
    for level in range(10):
        for side, sign in (("bid", -1), ("ask", 1)):
            ticks = best + (sign > 0) + sign * level
            records[f"{side}_px_{level:02d}"] = ticks * TICK_NANOS
            records[f"{side}_sz_{level:02d}"] = rng.integers(1, 50, num)
            records[f"{side}_ct_{level:02d}"] = rng.integers(1, 9, num)
    return records


def _trades(ts_ns: Any, sizes: Any, sides: Any, ident: int = 7) -> Any:
    """Records of schema `trades`."""
    records = np.zeros(len(ts_ns), np.dtype(databento_dbn.TradeMsg._dtypes))
    records["length"], records["rtype"], records["publisher_id"] = 12, 0, 1
    records["instrument_id"], records["action"] = ident, b"T"
    records["ts_recv"] = records["ts_event"] = ts_ns
    records["size"], records["side"], records["price"] = sizes, sides, 19_000 * TICK_NANOS
    return records


def _encode(
    records: Any,
    schema: databento_dbn.Schema = databento_dbn.Schema.MBP_10,
    symbols: tuple[str, ...] = ("ESH4",),
    dataset: str = "GLBX.MDP3",
    stype: databento_dbn.SType = databento_dbn.SType.RAW_SYMBOL,
    ts_out: bool = False,
) -> bytes:
    """A whole DBN file in memory."""
    metadata = databento_dbn.Metadata(
        dataset=dataset,
        start=OPEN_NS,
        stype_in=stype,
        stype_out=databento_dbn.SType.INSTRUMENT_ID,
        schema=schema,
        symbols=list(symbols),
        ts_out=ts_out,
    )
    return metadata.encode() + records.tobytes()


def _write(path: Path, data: bytes) -> Path:
    """Writes `data`, compressed with a checksum where the name ends in .zst."""
    zipped = path.suffix == ".zst"
    path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data) if zipped else data)
    return path


def _scrambled(seed: int) -> Any:
    """120 records with every trap: trades, half events, crossed and thin books, gaps, snapshots, clears."""
    rng = np.random.default_rng(seed)
    records = _records(120, seed=seed)
    steps = rng.choice([0, 10**8, 7 * 10**10, 12 * HOUR_NS], 120, p=[0.3, 0.6, 0.07, 0.03])
    records["ts_recv"] = int(records["ts_recv"][0]) - 10**9 + steps.cumsum()
    records["action"] = rng.choice([b"A", b"C", b"M", b"T", b"R"], 120, p=[0.3, 0.3, 0.17, 0.2, 0.03])
    records["side"] = rng.choice([b"A", b"B", b"N"], 120)
    records["flags"] = rng.choice([128, 130, 0, 168, 160, 132], 120, p=[0.5, 0.3, 0.1, 0.03, 0.04, 0.03])
    crossed = rng.random(120) < 0.05
    records["bid_px_00"][crossed] = records["ask_px_05"][crossed]
    thin = rng.random(120) < 0.1
    for level in range(6, 10):
        records[f"ask_px_{level:02d}"][thin], records[f"ask_sz_{level:02d}"][thin] = UNDEF_PRICE, 0
    return records


def _build(
    records: Any,
    chunk_records: int = 10_000,
    instrument: InstrumentConfig = INSTRUMENTS["ES"],
    **options: Any,
) -> tuple[dict[str, Any], Any, RowBuilder]:
    """All row columns by name, the segments' table and the builder, of records pushed in chunks."""
    defaults = {"instrument_id": None, "max_gap_s": 60.0, "sessions": Sessions(instrument.calendar)}
    builder = RowBuilder(instrument, **{**defaults, **options})
    chunks = [
        builder.push(records[i : i + chunk_records], "file", 200 + i * 368)
        for i in range(0, len(records), chunk_records)
    ]
    columns = {f.name: np.concatenate([getattr(c, f.name) for c in chunks]) for f in fields(chunks[0])}
    return columns, builder.segments.table(), builder


@pytest.fixture(scope="session")
def make_records() -> Callable[..., Any]:
    return _records


@pytest.fixture(scope="session")
def make_trades() -> Callable[..., Any]:
    return _trades


@pytest.fixture(scope="session")
def encode() -> Callable[..., bytes]:
    return _encode


@pytest.fixture(scope="session")
def write() -> Callable[[Path, bytes], Path]:
    return _write


@pytest.fixture(scope="session")
def scrambled() -> Callable[[int], Any]:
    return _scrambled


@pytest.fixture(scope="session")
def build() -> Callable[..., tuple[dict[str, Any], Any, RowBuilder]]:
    return _build
