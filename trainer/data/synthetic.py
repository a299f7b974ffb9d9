"""Writes the synthetic market: real DBN mbp-10 files with a known, tradable signal (SYSTEM.md section 12).

The hidden signal and price come from `trainer.data.latent`. The book shows the signal of its own row in the
sizes of its levels and in the sides of the trades just before it; in the martingale the same book hangs on a
price that the signal does not move. The files carry the traps of DATA.md: crossed pre-open books, events of
two records, trades that show the book before them, sides 'N', missing deep levels, one long gap a session.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import databento_dbn as dbn
import numpy as np
import numpy.typing as npt
import pandas_market_calendars as calendars
import zstandard
from scipy.special import ndtri

from trainer.config import Config
from trainer.data.latent import WIDE_SHARE, Floats, LatentModel, LatentPath, persistent
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS
from trainer.types import NUM_LEVELS

Ints = npt.NDArray[np.int64]

INSTRUMENT_ID = 1
START_TICKS = 20_000.0  # price 5,000.00
FIRST_DAY = "2024-03-04"  # a summer-time change falls between its sessions 5 and 6
MEAN_GAP_S = 2.0  # least density: a session with few rows ends early rather than thinning out
SIZE_TILT = 0.4  # log lots per unit of signal: bid up, ask down
SIZE_NOISE = 0.45  # sd of the log size of one level of one side, half of it persistent over ~10 rows
SIZE_MEAN = np.log(30.0 + 4.0 * np.arange(NUM_LEVELS))  # log lots by level
HOLE_SHARE = 0.02  # levels that skip a tick
THIN_SHARE = 0.004  # rows a side of which shows only 8 levels
TRADE_SHARE, UNSIDED_SHARE, TRADE_LAST_SHARE = 0.35, 0.05, 0.2
TRADE_TILT = 1.2  # log odds of a buyer per unit of signal
TORN_SHARE = 0.08  # events of two records, the first of them crossed
PRE_OPEN, AT_OPEN = 16, 4  # crossed records before and just after the open

LAST = 128
RTYPE_MBP10 = 10
MISSING_PX = np.iinfo(np.int64).max
LEVEL = np.dtype([("bid_px", "<i8"), ("ask_px", "<i8"), ("bid_sz", "<u4"), ("ask_sz", "<u4"),
                  ("bid_ct", "<u4"), ("ask_ct", "<u4")])  # fmt: skip
HEADER = dbn.MBP10Msg._dtypes[:14]  # everything before the levels
RECORD = np.dtype([*HEADER, ("levels", LEVEL, (NUM_LEVELS,))])
RECORD_WORDS = RECORD.itemsize // 4


@dataclass(frozen=True)
class Session:
    """One trading session: its date and its open and close, UTC ns."""

    day: str
    open_ns: int
    close_ns: int


def write_market(
    config: Config, directory: Path, on_progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Writes one `.mbp-10.dbn.zst` file a session and returns their paths in time order.

    The bytes depend on the config alone. A file appears whole or not at all. `on_progress(done, total)` is
    called after each session. Raises InputError where the config names no synthetic market or the directory
    cannot be written.
    """
    model = LatentModel.from_config(config)
    sessions = trading_sessions(config.synthetic.sessions)
    paths, mid_ticks = [], START_TICKS
    for index, session in enumerate(sessions):
        records, mid_ticks = session_records(config, model, session, index, mid_ticks)
        path = directory / f"synthetic_{session.day}.mbp-10.dbn.zst"
        try:
            _write(path, records)
        except OSError as error:
            what = f"cannot write: {error.strerror}"
            raise InputError(what, where=str(path), do="choose another cache directory") from error
        paths.append(path)
        if on_progress is not None:
            on_progress(index + 1, len(sessions))
    return paths


def trading_sessions(num_sessions: int) -> list[Session]:
    """The first CME equity sessions from March 2024 on."""
    calendar = calendars.get_calendar(INSTRUMENTS["synthetic"].calendar)
    last_day = np.datetime64(FIRST_DAY) + 2 * num_sessions + 14
    table = calendar.schedule(FIRST_DAY, str(last_day)).head(num_sessions)
    opens, closes = (table[name].astype("datetime64[ns, UTC]") for name in ("market_open", "market_close"))
    return [
        Session(day.strftime("%Y%m%d"), opened.value, closed.value)
        for day, opened, closed in zip(table.index, opens, closes, strict=True)
    ]


def session_records(
    config: Config, model: LatentModel, session: Session, index: int, start_ticks: float
) -> tuple[npt.NDArray[np.void], float]:
    """The records of a session, `[records] RECORD` in time order, and the mid of its last row, ticks."""
    path = session_path(config, model, index, start_ticks)
    book_rng, time_rng, event_rng = _generators(config, index)[1:]
    ts_ns = row_times(session, config.synthetic.rows_per_session, config.data.max_gap_s, time_rng)
    rows = book_rows(path.signal, path.mid_ticks, book_rng)
    rows["ts_recv"] = ts_ns
    records = _with_events(rows, path.signal, event_rng)
    records = np.concatenate([_crossed_records(rows[0], session, int(ts_ns[0])), records])
    records["sequence"] = np.arange(1, len(records) + 1)
    records["ts_event"] = records["ts_recv"] - 50_000  # the venue's clock, 50 us before ours
    return records, float(path.mid_ticks[-1])


def session_path(config: Config, model: LatentModel, index: int, start_ticks: float) -> LatentPath:
    """The hidden truth of session `index`: the signal and mid of each of its valid rows."""
    return model.path(config.synthetic.rows_per_session, _generators(config, index)[0], start_ticks)


def _generators(config: Config, index: int) -> list[np.random.Generator]:
    """Independent streams of a session: path, book, times, events. Both markets draw alike."""
    streams = np.random.SeedSequence([config.synthetic.seed, index]).spawn(4)
    return [np.random.default_rng(stream) for stream in streams]


def row_times(session: Session, num_rows: int, max_gap_s: float, rng: np.random.Generator) -> Ints:
    """Receive times `[num_rows] int64 ns`: clustered log-normal gaps, busiest near open and close.

    One gap half-way is twice `max_gap_s`; every other one is at most half of it.
    """
    gap_at = num_rows // 2
    length_s = (session.close_ns - session.open_ns) * 1e-9
    span_s = min(0.99 * length_s - 2.0 * max_gap_s, num_rows * min(MEAN_GAP_S, 0.1 * max_gap_s))
    share = np.linspace(0.0, 1.0, num_rows)
    intensity = 1.0 + 1.5 * (2.0 * share - 1.0) ** 2
    gaps_s = np.exp(0.7 * persistent(num_rows, 0.98, rng) + 0.5 * rng.standard_normal(num_rows)) / intensity
    gaps_s *= span_s / gaps_s.sum()
    gaps_s = np.clip(gaps_s, 1e-3, 0.5 * max_gap_s)
    gaps_s[gap_at] = 2.0 * max_gap_s
    gaps_s[0] = 1.0
    return np.asarray(session.open_ns + np.round(gaps_s.cumsum() * 1e9).astype(np.int64))


def book_rows(signal: Floats, mid_ticks: Floats, rng: np.random.Generator) -> npt.NDArray[np.void]:
    """The valid book rows `[n] RECORD` that show `signal [n]` around `mid_ticks [n]`; their times are 0."""
    num_rows = len(signal)
    wide = persistent(num_rows, 0.95, rng) > ndtri(1.0 - WIDE_SHARE)
    # The quoted mid is the nearest to the hidden one that the spread allows: unbiased, within half a tick.
    best_bid = np.where(wide, np.round(mid_ticks) - 1.0, np.floor(mid_ticks)).astype(np.int64)
    rows = np.zeros(num_rows, dtype=RECORD)
    rows["length"], rows["rtype"], rows["instrument_id"] = RECORD_WORDS, RTYPE_MBP10, INSTRUMENT_ID
    rows["action"], rows["side"], rows["flags"] = b"A", b"B", LAST
    for side, best, tilt in (("bid", best_bid, SIZE_TILT), ("ask", best_bid + 1 + wide, -SIZE_TILT)):
        _fill_side(rows["levels"], side, best, tilt * signal, rng)
    rows["price"] = rows["levels"]["bid_px"][:, 0]
    rows["size"] = rows["levels"]["bid_sz"][:, 0]
    return rows


def _fill_side(
    levels: npt.NDArray[np.void], side: str, best: Ints, tilt: Floats, rng: np.random.Generator
) -> None:
    """Prices, sizes and order counts of one side of all rows, `levels [n, L]`, in place."""
    num_rows = len(best)
    holes = (rng.random((num_rows, NUM_LEVELS), dtype=np.float32) < HOLE_SHARE).cumsum(axis=1)
    steps = np.arange(NUM_LEVELS) + holes - holes[:, :1]
    noise = persistent(num_rows, 0.9, rng, NUM_LEVELS) + rng.standard_normal((num_rows, NUM_LEVELS))
    lots = np.ceil(np.exp(SIZE_MEAN + tilt[:, None] + SIZE_NOISE / np.sqrt(2.0) * noise))
    tick_nanos = INSTRUMENTS["synthetic"].tick_size_nanos
    levels[f"{side}_px"] = (best[:, None] + (steps if side == "ask" else -steps)) * tick_nanos
    levels[f"{side}_sz"] = lots
    levels[f"{side}_ct"] = np.ceil(lots / (1.0 + 3.0 * rng.random((num_rows, NUM_LEVELS), dtype=np.float32)))
    thin = np.flatnonzero(rng.random(num_rows) < THIN_SHARE)[:, None]
    deep = np.arange(NUM_LEVELS - 2, NUM_LEVELS)
    for name, value in (("px", MISSING_PX), ("sz", 0), ("ct", 0)):
        levels[f"{side}_{name}"][thin, deep] = value


def _with_events(
    rows: npt.NDArray[np.void], signal: Floats, rng: np.random.Generator
) -> npt.NDArray[np.void]:
    """The rows with trades and torn events put in before them, at the row's time."""
    num_rows = len(rows)
    trade_at = np.flatnonzero(rng.random(num_rows) < TRADE_SHARE)
    trade_at = trade_at[trade_at > 0]
    torn_at = np.flatnonzero(rng.random(num_rows) < TORN_SHARE)
    owner = np.concatenate([trade_at, torn_at, np.arange(num_rows)])
    # Stable: of one row's records the trade comes first, the whole book last.
    order = np.argsort(owner, kind="stable")
    records = np.concatenate([_trades(rows, trade_at, signal, rng), _torn(rows, torn_at), rows])
    return np.asarray(records[order])


def _trades(
    rows: npt.NDArray[np.void], at: Ints, signal: Floats, rng: np.random.Generator
) -> npt.NDArray[np.void]:
    """A trade just before each row `at`: shows the book of the row before, its side leans with the signal."""
    trades = rows[at - 1].copy()
    buyer = rng.random(len(at)) < 1.0 / (1.0 + np.exp(-TRADE_TILT * signal[at]))
    best = trades["levels"][:, 0]
    trades["ts_recv"], trades["action"] = rows["ts_recv"][at], b"T"
    trades["side"] = np.where(rng.random(len(at)) < UNSIDED_SHARE, b"N", np.where(buyer, b"B", b"A"))
    trades["price"] = np.where(buyer, best["ask_px"], best["bid_px"])
    trades["size"] = np.ceil(rng.lognormal(0.7, 0.8, len(at)))
    trades["flags"] = np.where(rng.random(len(at)) < TRADE_LAST_SHARE, LAST, 0)
    return trades


def _torn(rows: npt.NDArray[np.void], at: Ints) -> npt.NDArray[np.void]:
    """The first record of a two-record event: not the last of its event, and crossed."""
    torn = rows[at].copy()
    torn["flags"] = 0
    torn["levels"]["bid_px"][:, 0] = torn["levels"]["ask_px"][:, 1]
    return torn


def _crossed_records(first: np.void, session: Session, first_ns: int) -> npt.NDArray[np.void]:
    """Crossed auction books: `PRE_OPEN` before the open, `AT_OPEN` between the open and the first row."""
    crossed = np.repeat(np.array([first], dtype=RECORD), PRE_OPEN + AT_OPEN)
    levels = crossed["levels"]
    levels["bid_px"], levels["ask_px"] = levels["ask_px"].copy(), levels["bid_px"].copy()
    before = session.open_ns - np.linspace(60e9, 1e9, PRE_OPEN).astype(np.int64)
    after = np.linspace(session.open_ns, first_ns, AT_OPEN, endpoint=False).astype(np.int64)
    crossed["ts_recv"] = np.concatenate([before, after])
    return crossed


def _write(path: Path, records: npt.NDArray[np.void]) -> None:
    """Encodes a DBN v3 file next to `path` and renames it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    enums: Any = dbn  # the package's type stubs declare the members of its enums as strings
    metadata = dbn.Metadata(
        dataset="SYNTH", schema=enums.Schema.MBP_10, symbols=["SYNTH"], partial=[], not_found=[], mappings=[],
        start=int(records["ts_recv"][0]), end=int(records["ts_recv"][-1]) + 1,
        stype_in=enums.SType.RAW_SYMBOL, stype_out=enums.SType.INSTRUMENT_ID, version=3,
    )  # fmt: skip
    partial = path.with_name(f"{path.name}.tmp")
    with partial.open("wb") as raw:
        with zstandard.ZstdCompressor(level=1).stream_writer(raw, closefd=False) as stream:
            stream.write(metadata.encode())
            stream.write(records.view(np.uint8).data)
        raw.flush()
        os.fsync(raw.fileno())
    partial.replace(path)
