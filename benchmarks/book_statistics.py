"""What a stretch of an order book looks like in numbers: spread, depth, orders, trades, arrivals, moves.

Everything is measured on the rows and trades that the cache would hold (`RowBuilder`), for any mbp-10 file.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainer.config import Config
from trainer.data.book import BookChunk
from trainer.data.calendar import Sessions
from trainer.data.dbn import read_records
from trainer.data.rows import RowBuilder
from trainer.data.sources import find_sources
from trainer.errors import InputError

Floats = npt.NDArray[np.float64]

ACTIONS = {"A": "add", "C": "cancel", "M": "modify", "T": "trade"}
DEPTHS = (1, 2, 3, 5, 10)
QUANTILES = (0.1, 0.5, 0.9, 0.99)
BLOCK_ROWS = 32  # over which the mid's moves are taken
WINDOW_S = 10.0  # over which they are taken on the clock
MIN_GAP_S = 1e-6  # floor inside logs of gaps: equal receive times are normal
MIN_ROWS = 1000  # fewer say nothing about autocorrelations
PIECE_ROWS = 16_384

Values = dict[str, float]


@dataclass(frozen=True)
class Sample:
    """Valid rows in time order and what was recorded between them."""

    rows: BookChunk
    actions: dict[str, int]  # records by action, in the file's own letters
    trade_lots: npt.NDArray[np.int64]  # [trades]
    num_unsided: int  # trades of side N


def sample_of(source: Path, max_rows: int) -> Sample:
    """The first `max_rows` valid rows of a file or directory, or a few more.

    Raises InputError where it cannot be read or has fewer than 1,000 valid rows.
    """
    config = Config()
    sources = find_sources(config, source, None)
    sessions = Sessions(sources.instrument.calendar)
    builder = RowBuilder(sources.instrument, None, config.data.max_gap_s, sessions, rolls=sources.rolls)
    chunks, actions, lots, num_unsided = [], dict.fromkeys(ACTIONS, 0), [], 0
    for records in (records for path in sources.files for records in read_records(path)):
        chunk = builder.push(records)
        if not len(chunk):
            continue  # before the open
        for action in actions:
            actions[action] += int((records["action"] == action.encode()).sum())
        trades = records[records["action"] == b"T"]
        lots.append(trades["size"].astype(np.int64))
        num_unsided += int((trades["side"] == b"N").sum())
        chunks.append(chunk)
        if builder.segments.num_rows >= max_rows:
            break
    if builder.segments.num_rows < MIN_ROWS:
        what = f"{builder.segments.num_rows} valid rows, fewer than {MIN_ROWS}"
        raise InputError(what, where=str(source), do="give a longer file")
    names = [field.name for field in fields(BookChunk)]
    rows = BookChunk(**{name: np.concatenate([getattr(c, name) for c in chunks]) for name in names})
    return Sample(rows, actions, np.concatenate(lots), num_unsided)


def statistics(sample: Sample) -> Values:
    """All figures of a sample by name with unit, in the order of the table."""
    rows = sample.rows
    return {
        "rows": float(len(rows)),
        **_spread(rows),
        **_depth(rows),
        **_changes(rows),
        **_orders(sample),
        **_arrivals(rows),
        **_moves(rows),
    }


def correlation(x: Floats, y: Floats) -> float:
    """NaN for fewer than 3 pairs or a constant."""
    if len(x) < 3 or x.std() == 0 or y.std() == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def autocorrelation(values: Floats, lag: int) -> float:
    """Correlation of `values [n]` with themselves `lag` later."""
    return correlation(values[lag:], values[:-lag])


def _mean(values: npt.NDArray[np.generic]) -> float:
    """NaN where there are none."""
    return float(values.mean()) if len(values) else float("nan")


def mid_ticks(rows: BookChunk) -> Floats:
    """Mid of each row `[n]`, ticks."""
    return np.asarray(0.5 * (rows.bid_px[:, 0] + rows.ask_px[:, 0]))


def log_gaps(rows: BookChunk) -> Floats:
    """Log seconds between consecutive rows of a segment `[< n]`."""
    gaps_s = np.diff(rows.ts_ns)[np.diff(rows.segment) == 0] * 1e-9
    return np.asarray(np.log(np.maximum(gaps_s, MIN_GAP_S)))


def block_moves(rows: BookChunk) -> Floats:
    """Absolute moves of the mid over consecutive blocks of 32 rows, ticks."""
    return np.abs(np.diff(mid_ticks(rows)[::BLOCK_ROWS]))


def _spread(rows: BookChunk) -> Values:
    spread = rows.ask_px[:, 0] - rows.bid_px[:, 0]
    return {
        "spread 1 tick, % of rows": 100 * float((spread == 1).mean()),
        "spread 2 ticks, %": 100 * float((spread == 2).mean()),
        "spread 3 or more ticks, %": 100 * float((spread > 2).mean()),
        "mean spread, ticks": float(spread.mean()),
        "spread, autocorrelation over 1 row": autocorrelation(spread.astype(np.float64), 1),
    }


def _depth(rows: BookChunk) -> Values:
    lots = [np.concatenate([rows.bid_sz[:, d - 1], rows.ask_sz[:, d - 1]]) for d in DEPTHS]
    counts = [np.concatenate([rows.bid_ct[:, d - 1], rows.ask_ct[:, d - 1]]) for d in DEPTHS]
    log_best = np.log(np.maximum(rows.bid_sz[:, 0].astype(np.float64), 1.0))
    skipped = np.concatenate([np.diff(side, axis=1) for side in (-rows.bid_px, rows.ask_px)]) > 1
    return {
        **{f"median lots, level {d}": float(np.median(x)) for d, x in zip(DEPTHS, lots, strict=True)},
        **{f"median orders, level {d}": float(np.median(x)) for d, x in zip(DEPTHS, counts, strict=True)},
        "lots per order at the best, mean": float(lots[0].sum() / counts[0].sum()),
        "sd of log lots, level 1": float(np.log(np.maximum(lots[0], 1)).std()),
        "sd of log lots, level 5": float(np.log(np.maximum(lots[3], 1)).std()),
        "levels that skip a tick, %": 100 * float(skipped.mean()),
        "missing levels, % of rows": 100 * float(((rows.bid_sz == 0) | (rows.ask_sz == 0)).any(1).mean()),
        **{
            f"log best bid lots, autocorrelation over {n} rows": autocorrelation(log_best, n)
            for n in (1, 8, 32)
        },
    }


def _changes(rows: BookChunk) -> Values:
    together = np.diff(rows.segment) == 0
    changed = np.concatenate(list(_levels_changed(rows)))[together]
    mid_changed = np.diff(mid_ticks(rows))[together] != 0
    size_only = changed[~mid_changed]
    return {
        "rows with a change of mid, %": 100 * float(mid_changed.mean()),
        "levels changed per row, mean": float(changed.mean()),
        "the same where the mid stays": _mean(size_only),
        "rows of the same book, %": 100 * float((changed == 0).mean()),
    }


def _levels_changed(rows: BookChunk) -> Iterator[npt.NDArray[np.int64]]:
    """Prices of both sides whose lots differ from the row before, among those of which both rows tell."""
    for start in range(0, len(rows) - 1, PIECE_ROWS):
        piece = slice(start, start + PIECE_ROWS + 1)
        changed = np.zeros(len(rows.ts_ns[piece]) - 1, np.int64)
        for px, lots, sign in ((rows.bid_px, rows.bid_sz, -1), (rows.ask_px, rows.ask_sz, 1)):
            away, size = sign * px[piece], lots[piece]
            deepest = np.minimum(away[1:, -1], away[:-1, -1])[:, None]
            same = (
                (away[1:, :, None] == away[:-1, None, :]) & (size[1:, :, None] > 0) & (size[:-1, None, :] > 0)
            )
            before = (same * size[:-1, None, :]).sum(axis=2)
            seen_now = (away[1:] <= deepest) & (size[1:] > 0)
            seen_before = (away[:-1] <= deepest) & (size[:-1] > 0)
            changed += (seen_now & (before != size[1:])).sum(axis=1)  # new prices count: before is 0 there
            changed += (seen_before & ~same.any(axis=1)).sum(axis=1)
        yield changed


def _orders(sample: Sample) -> Values:
    total, num_trades = sum(sample.actions.values()), max(len(sample.trade_lots), 1)
    lots = np.quantile(sample.trade_lots, QUANTILES) if len(sample.trade_lots) else np.zeros(4)
    return {
        "records per row": total / len(sample.rows),
        **{f"records: {ACTIONS[a]}, %": 100 * n / total for a, n in sample.actions.items()},
        "trades per row": len(sample.trade_lots) / len(sample.rows),
        **{f"trade lots, quantile {q}": float(x) for q, x in zip(QUANTILES, lots, strict=True)},
        "trades without a side, %": 100 * sample.num_unsided / num_trades,
    }


def _arrivals(rows: BookChunk) -> Values:
    gaps = log_gaps(rows)
    quantiles = np.exp(np.quantile(gaps, QUANTILES))
    return {
        **{f"gap, quantile {q}, s": float(x) for q, x in zip(QUANTILES, quantiles, strict=True)},
        "sd of log gaps": float(gaps.std()),
        **{f"log gaps, autocorrelation over {n} rows": autocorrelation(gaps, n) for n in (1, 10, 100)},
    }


def _moves(rows: BookChunk) -> Values:
    mid = mid_ticks(rows)
    moves = block_moves(rows)
    steps = np.diff(np.concatenate([[0], np.flatnonzero(np.diff(mid)) + 1]))  # rows between changes of mid
    in_time = np.searchsorted(rows.ts_ns, np.arange(rows.ts_ns[0], rows.ts_ns[-1], int(WINDOW_S * 1e9)))
    on_clock = np.abs(np.diff(mid[np.minimum(in_time, len(mid) - 1)]))
    bid, ask = rows.bid_sz[:, 0].astype(np.float64), rows.ask_sz[:, 0].astype(np.float64)
    imbalance = (bid - ask) / (bid + ask)
    return {
        "rows between changes of mid, median": float(np.median(steps)) if len(steps) else float("nan"),
        f"absolute mid move over {BLOCK_ROWS} rows, mean, ticks": _mean(moves),
        **{f"the same, autocorrelation over {n} blocks": autocorrelation(moves, n) for n in (1, 5)},
        f"absolute mid move over {WINDOW_S:.0f} s, autocorrelation": autocorrelation(on_clock, 1),
        "imbalance and next change of mid": _next_change(imbalance, mid),
        **{
            f"imbalance and mid move over {n} rows": correlation(imbalance[:-n], mid[n:] - mid[:-n])
            for n in (8, BLOCK_ROWS)
        },
    }


def _next_change(imbalance: Floats, mid: Floats) -> float:
    """Correlation of a row's imbalance with the sign of the next change of mid after it."""
    change = np.diff(mid)
    at = np.flatnonzero(change)
    if not len(at):
        return float("nan")
    following = np.searchsorted(at, np.arange(at[-1] + 1))
    return correlation(imbalance[: at[-1] + 1], np.sign(change[at[following]]))
