"""Synthetic files decoded without the product's reader, for the tests of what they hold."""

from pathlib import Path

import numpy as np
import zstandard

from trainer.config import Config
from trainer.data import synthetic
from trainer.data.book import BookChunk
from trainer.data.dbn import LAST
from trainer.data.mbp import RECORD
from trainer.presets import INSTRUMENTS, demo

TICK = INSTRUMENTS["synthetic"].tick_size_nanos
ROWS, SESSIONS = 16_384, 2


def market(source: str, rows: int = ROWS, sessions: int = SESSIONS, **fields: float) -> Config:
    return demo().replaced(
        market_source=source, synthetic={"rows_per_session": rows, "sessions": sessions, **fields}
    )


def read(path: Path) -> np.ndarray:
    """The records of a file, decoded without the vendor's reader."""
    with path.open("rb") as raw:
        body = zstandard.ZstdDecompressor().stream_reader(raw).read()
    header = 8 + int.from_bytes(body[4:8], "little")
    return np.frombuffer(body, dtype=RECORD, offset=header)


def valid_rows(records: np.ndarray, open_ns: int) -> np.ndarray:
    best = records["levels"][:, 0]
    keep = (records["flags"] & LAST > 0) & (records["action"] != b"T") & (records["ts_recv"] >= open_ns)
    return np.flatnonzero(keep & (best["bid_px"] < best["ask_px"]))


def chunk_of(records: np.ndarray, session: synthetic.Session) -> BookChunk:
    """Valid rows as readers make them: missing levels repeat the price above, trades are summed."""
    at = valid_rows(records, session.open_ns)
    levels = records["levels"][at]
    columns = {}
    for side in ("bid", "ask"):
        price = levels[f"{side}_px"].copy()
        for level in range(1, 10):
            missing = price[:, level] == np.iinfo(np.int64).max
            price[missing, level] = price[missing, level - 1]
        columns[f"{side}_px"] = (price // TICK).astype(np.int32)
        columns[f"{side}_sz"] = levels[f"{side}_sz"].astype(np.int32)
        columns[f"{side}_ct"] = levels[f"{side}_ct"].astype(np.int32)
    trade = records["action"] == b"T"
    sign = np.where(records["side"] == b"B", 1, np.where(records["side"] == b"A", -1, 0))
    volume = np.concatenate([[0], np.cumsum(np.where(trade, sign * records["size"].astype(np.int64), 0))[at]])
    trades = np.concatenate([[0], np.cumsum(trade)[at]])
    ts_ns = records["ts_recv"][at].astype(np.int64)
    return BookChunk(
        ts_ns=ts_ns,
        **columns,
        signed_volume=np.diff(volume).astype(np.int32),
        trade_count=np.diff(trades).astype(np.int32),
        segment=np.concatenate([[0], np.diff(ts_ns) > 60e9]).cumsum().astype(np.int32),
        session_open_ns=np.full(len(at), session.open_ns),
        session_close_ns=np.full(len(at), session.close_ns),
    )
