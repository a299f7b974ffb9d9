"""A figure of small multiples, as SVG, that shows the books of several sources next to each other."""

from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

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

COLOURS = ("#0f172a", "#2563eb", "#ea580c", "#16a34a", "#9333ea")
WIDTH, HEIGHT, COLUMNS = 270, 190, 4  # of a panel, px; panels a line
LEFT, TOP, RIGHT, BOTTOM = 40, 34, 12, 30  # margins inside a panel
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


def figure(by_source: dict[str, dict[str, Curve]]) -> str:
    """The SVG of all panels and a legend."""
    titles = list(next(iter(by_source.values())))
    lines = -(-len(titles) // COLUMNS)
    width, height = COLUMNS * WIDTH, lines * HEIGHT + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, '
        'sans-serif" font-size="11" role="img" aria-label="Order-book statistics of several sources">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_legend(list(by_source)),
    ]
    for index, title in enumerate(titles):
        x, y = index % COLUMNS * WIDTH, index // COLUMNS * HEIGHT + 34
        panel = _panel(title, [found[title] for found in by_source.values()])
        parts += [f'<g transform="translate({x} {y})">', *panel, "</g>"]
    return "\n".join([*parts, "</svg>", ""])


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


def _legend(sources: list[str]) -> list[str]:
    parts, x = [], LEFT
    for source, colour in zip(sources, COLOURS, strict=False):
        parts.append(f'<rect x="{x}" y="12" width="16" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{x + 22}" y="18" fill="#0f172a">{escape(source)}</text>')
        x += 40 + 7 * len(source)
    return parts


def _panel(title: str, lines: list[Curve]) -> list[str]:
    """Title, axes with their ends written out, zero line and one polyline a source."""
    x = np.concatenate([line.x for line in lines])
    x = x if len(x) else np.zeros(1)
    y = np.concatenate([line.y[np.isfinite(line.y)] for line in lines] + [np.zeros(1)])
    low_x, high_x, low_y, high_y = x.min(), x.max(), y.min(), max(y.max(), y.min() + 1e-9)
    right, base = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(px: float, py: float) -> tuple[float, float]:
        across = LEFT + (px - low_x) / max(high_x - low_x, 1e-9) * (right - LEFT)
        return across, base - (py - low_y) / (high_y - low_y) * (base - TOP)

    zero = place(low_x, 0.0)[1]
    parts = [
        f'<text x="8" y="{TOP - 12}" font-weight="600" fill="#0f172a">{escape(title)}</text>',
        f'<path d="M{LEFT} {TOP}V{base}H{right}" fill="none" stroke="#94a3b8"/>',
        f'<path d="M{LEFT} {zero:.1f}H{right}" stroke="#cbd5e1" stroke-dasharray="3 3"/>',
        f'<text x="{LEFT - 4}" y="{TOP + 4}" text-anchor="end" fill="#475569">{high_y:.3g}</text>',
        f'<text x="{LEFT - 4}" y="{base}" text-anchor="end" fill="#475569">{low_y:.3g}</text>',
        f'<text x="{LEFT}" y="{base + 14}" fill="#475569">{low_x:g}</text>',
        f'<text x="{right}" y="{base + 14}" text-anchor="end" fill="#475569">{high_x:g}</text>',
    ]
    for line, colour in zip(lines, COLOURS, strict=False):
        known = np.isfinite(line.y)
        points = [place(px, py) for px, py in zip(line.x[known], line.y[known], strict=True)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return parts
