"""A figure of small multiples that shows the books of several sources next to each other."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks import picture
from benchmarks.book_statistics import (
    BLOCK_ROWS,
    Sample,
    autocorrelation,
    block_moves,
    log_gaps,
    mid_ticks,
)
from trainer.data.book import BookChunk
from trainer.types import NUM_LEVELS

Floats = npt.NDArray[np.float64]

COLOURS = (picture.INK, *picture.COLOURS[:4])
LABEL = "Order-book statistics of several sources"
COLUMNS = 4  # panels a line
LAGS = np.arange(1, 33)  # rows
BLOCK_LAGS = np.arange(1, 9)
BUCKETS = np.linspace(-1.0, 1.0, 9)
PROFILE_PARTS = 12


@dataclass(frozen=True)
class Curve:
    """One source's line in a panel: `x [m]`, `y [m]`."""

    x: Floats
    y: Floats


def curves(sample: Sample) -> dict[str, Curve]:
    """The line of every panel by its title."""
    rows = sample.rows
    lags = LAGS.astype(np.float64)
    log_best = np.log(np.maximum(rows.bid_sz[:, 0].astype(np.float64), 1.0))
    lots = np.median(np.concatenate([rows.bid_sz, rows.ask_sz]), axis=0)
    orders = np.median(np.concatenate([rows.bid_ct, rows.ask_ct]), axis=0)
    levels = np.arange(1.0, NUM_LEVELS + 1)
    spread = (rows.ask_px[:, 0] - rows.bid_px[:, 0]).clip(1, 4)
    spread_share = np.bincount(spread, minlength=5)[1:5] / len(spread)
    gaps, moves = log_gaps(rows), block_moves(rows)
    return {
        "share of rows by spread, ticks": Curve(np.arange(1.0, 5.0), spread_share),
        "median lots by level": Curve(levels, lots),
        "median orders by level": Curve(levels, orders),
        "log best lots: autocorrelation over rows": Curve(lags, _by_lag(log_best, LAGS)),
        "log gap: autocorrelation over rows": Curve(lags, _by_lag(gaps, LAGS)),
        f"size of {BLOCK_ROWS}-row mid moves: autocorrelation": Curve(
            BLOCK_LAGS.astype(np.float64), _by_lag(moves, BLOCK_LAGS)
        ),
        f"mid move in {BLOCK_ROWS} rows by imbalance, ticks": _response(rows),
        "rows by twelfth of the time": profile(rows),
    }


def profile(rows: BookChunk) -> Curve:
    """Rows in each twelfth of the time that those of the first session cover, over their mean."""
    ts_ns = rows.ts_ns[rows.session_open_ns == rows.session_open_ns[0]]
    counts = np.histogram(ts_ns, PROFILE_PARTS)[0].astype(np.float64)
    return Curve(np.arange(1.0, PROFILE_PARTS + 1), counts / counts.mean())


def figure(by_source: dict[str, dict[str, Curve]]) -> Figure:
    """All panels and a legend."""
    titles = list(next(iter(by_source.values())))
    lines = -(-len(titles) // COLUMNS)
    drawn = picture.drawing(3.3 * COLUMNS, 2.2 * lines + 0.4)
    panels = drawn.subplots(lines, COLUMNS, squeeze=False).ravel()
    for axes, title in zip(panels, titles, strict=False):
        for (source, found), colour in zip(by_source.items(), COLOURS, strict=False):
            axes.plot(found[title].x, found[title].y, color=colour, label=source)
        axes.axhline(0.0, color=picture.FAINT, linewidth=0.8, linestyle=":")
        axes.set_title(title, fontsize=8)
    for axes in panels[len(titles) :]:
        axes.set_axis_off()
    drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=len(by_source))
    return drawn


def _by_lag(values: Floats, lags: npt.NDArray[np.int64]) -> Floats:
    return np.array([autocorrelation(values, int(lag)) for lag in lags])


def _response(rows: BookChunk) -> Curve:
    """Mean move of the mid by bucket of the best level's imbalance, where a bucket has 50 rows."""
    bid, ask = (
        rows.bid_sz[:-BLOCK_ROWS, 0].astype(np.float64),
        rows.ask_sz[:-BLOCK_ROWS, 0].astype(np.float64),
    )
    mid = mid_ticks(rows)
    bucket = np.digitize((bid - ask) / (bid + ask), BUCKETS[1:-1])
    count = np.bincount(bucket, minlength=len(BUCKETS) - 1)
    total = np.bincount(bucket, mid[BLOCK_ROWS:] - mid[:-BLOCK_ROWS], minlength=len(BUCKETS) - 1)
    kept = count >= 50
    return Curve((0.5 * (BUCKETS[1:] + BUCKETS[:-1]))[kept], total[kept] / count[kept])
