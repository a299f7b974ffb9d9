"""Writes the synthetic market: real DBN mbp-10 files with a known, tradable signal (SYSTEM.md section 12).

The hidden signal and price come from `trainer.data.latent`, the events of the book around them from
`trainer.data.orderflow`. The book leans with the signal of its own row; in the martingale the same book hangs
on a price that the signal does not move. The files carry the traps of DATA.md: crossed pre-open books, events
of several records, trades that show the book before them, sides 'N', missing deep levels, one long gap a
session.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import databento_dbn as dbn
import numpy as np
import pandas_market_calendars as calendars
import zstandard

from trainer.config import Config
from trainer.data.latent import Floats, LatentModel, LatentPath, persistent
from trainer.data.mbp import Recorder, Records, crossed_records
from trainer.data.orderflow import OrderFlow, quotes_around
from trainer.data.queues import Ints
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS

START_TICKS = 20_000.0  # price 5,000.00
FIRST_DAY = "2024-03-04"  # a summer-time change falls between its sessions 5 and 6
MEAN_GAP_S = 2.0  # least density: a session with few rows ends early rather than thinning out
FAST_GAPS, SLOW_GAPS, OWN_GAPS = (0.9, 0.7), (0.5, 0.95), 1.0  # log gaps: sd and memory per row; own sd
GAP_LEAN = 0.7  # log gap per unit of log volatility, downwards: volatile times are busy
MIN_GAP_S = 1e-3
PRE_OPEN, AT_OPEN = 16, 4  # crossed records before and just after the open


@dataclass(frozen=True)
class Session:
    """One trading session: its date and its open and close, UTC ns."""

    day: str
    open_ns: int
    close_ns: int


@dataclass(frozen=True)
class SessionRecords:
    """What a file holds from `start_ns` until `end_ns`: blocks `[m] RECORD` in time order, read once."""

    start_ns: int
    end_ns: int
    blocks: Iterator[Records]


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
        latent = session_path(config, model, index, mid_ticks)
        path = directory / f"synthetic_{session.day}.mbp-10.dbn.zst"
        try:
            _write(path, session_records(config, latent, session, index))
        except OSError as error:
            what = f"cannot write: {error.strerror}"
            raise InputError(what, where=str(path), do="choose another cache directory") from error
        paths.append(path)
        mid_ticks = float(latent.mid_ticks[-1])
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


def session_path(config: Config, model: LatentModel, index: int, start_ticks: float) -> LatentPath:
    """The hidden truth of session `index`, a value for each of its valid rows."""
    return model.path(config.synthetic.rows_per_session, _generators(config, index)[0], start_ticks)


def session_records(config: Config, latent: LatentPath, session: Session, index: int) -> SessionRecords:
    """The records of session `index`, whose hidden truth is `latent`."""
    book_rng, time_rng, record_rng = _generators(config, index)[1:]
    ts_ns = row_times(session, latent.log_volatility, config.data.max_gap_s, time_rng)
    flow = OrderFlow(config.signal_rows, book_rng)
    auction_ns = _auction_times(session, int(ts_ns[0]))

    def blocks() -> Iterator[Records]:
        recorder, start = Recorder(record_rng), 0
        for events in flow.run(latent.signal, quotes_around(latent.mid_ticks, book_rng)):
            num_rows = len(events.last.side)
            records = recorder.records(events, ts_ns[start : start + num_rows])
            if start == 0:
                # The first row has no trades before it, so the first record is that row.
                yield recorder.stamped(crossed_records(records[:1], auction_ns))
            yield recorder.stamped(records)
            start += num_rows

    return SessionRecords(int(auction_ns[0]), int(ts_ns[-1]) + 1, blocks())


def _generators(config: Config, index: int) -> list[np.random.Generator]:
    """Independent streams of a session: path, book, times, records. Both markets draw alike."""
    streams = np.random.SeedSequence([config.synthetic.seed, index]).spawn(4)
    return [np.random.default_rng(stream) for stream in streams]


def row_times(session: Session, log_volatility: Floats, max_gap_s: float, rng: np.random.Generator) -> Ints:
    """Receive times `[n] int64 ns` of rows: clustered log-normal gaps, busiest near open and close.

    Gaps are shorter where `log_volatility [n]` is high. One gap half-way is twice `max_gap_s`; every other
    one is at most half of it.
    """
    num_rows = len(log_volatility)
    length_s = (session.close_ns - session.open_ns) * 1e-9
    span_s = min(0.99 * length_s - 2.0 * max_gap_s, num_rows * min(MEAN_GAP_S, 0.1 * max_gap_s))
    share = np.linspace(0.0, 1.0, num_rows)
    intensity = 1.0 + 1.5 * (2.0 * share - 1.0) ** 2
    logs = OWN_GAPS * rng.standard_normal(num_rows) - GAP_LEAN * log_volatility
    for sd, memory in (FAST_GAPS, SLOW_GAPS):
        logs += sd * persistent(num_rows, memory, rng)
    gaps_s = np.exp(logs) / intensity
    gaps_s *= span_s / gaps_s.sum()
    gaps_s = np.clip(gaps_s, MIN_GAP_S, 0.5 * max_gap_s)
    gaps_s[num_rows // 2] = 2.0 * max_gap_s
    gaps_s[0] = 1.0
    return np.asarray(session.open_ns + np.round(gaps_s.cumsum() * 1e9).astype(np.int64))


def _auction_times(session: Session, first_ns: int) -> Ints:
    """Times of crossed auction books: `PRE_OPEN` before the open, `AT_OPEN` from it to the first row."""
    before = session.open_ns - np.linspace(60e9, 1e9, PRE_OPEN).astype(np.int64)
    after = np.linspace(session.open_ns, first_ns, AT_OPEN, endpoint=False).astype(np.int64)
    return np.concatenate([before, after])


def _write(path: Path, records: SessionRecords) -> None:
    """Encodes a DBN v3 file next to `path`, block by block, and renames it there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    enums: Any = dbn  # the package's type stubs declare the members of its enums as strings
    metadata = dbn.Metadata(
        dataset="SYNTH", schema=enums.Schema.MBP_10, symbols=["SYNTH"], partial=[], not_found=[], mappings=[],
        start=records.start_ns, end=records.end_ns,
        stype_in=enums.SType.RAW_SYMBOL, stype_out=enums.SType.INSTRUMENT_ID, version=3,
    )  # fmt: skip
    partial = path.with_name(f"{path.name}.tmp")
    try:
        with partial.open("wb") as raw:
            with zstandard.ZstdCompressor(level=1).stream_writer(raw, closefd=False) as stream:
                stream.write(metadata.encode())
                for block in records.blocks:
                    stream.write(block.view(np.uint8).data)
            raw.flush()
            os.fsync(raw.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
