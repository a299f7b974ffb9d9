"""The 40 snapshot features of a book row (design page SYSTEM.md sections 1 and 14), computed in one stream.

Every feature of row `i` reads rows up to `i` of the same segment only. Prices enter as tick differences,
never as logs, so negative prices are fine. Quantities with heavy tails (flows, counts) are signed logs.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.data.average import Averages
from trainer.data.book import BookChunk
from trainer.types import NUM_FEATURES

Floats = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

MID_LAGS = (1, 8, 32)  # rows
DISTANCE_LEVELS = (2, 3, 5, 10)
IMBALANCE_DEPTHS = (1, 3, 5, 10)
COUNT_DEPTHS = (1, 5)
SIZE_LEVELS = 5
SLOW_DECISIONS = 16  # time constant of the slow EMAs over that of the fast ones
MIN_GAP_S = 1e-3  # floor inside logs of time gaps: equal receive times are normal

FEATURE_NAMES: tuple[str, ...] = (
    *(f"log_bid_size_{level}" for level in range(1, SIZE_LEVELS + 1)),
    *(f"log_ask_size_{level}" for level in range(1, SIZE_LEVELS + 1)),
    *(f"bid_distance_{level}_ticks" for level in DISTANCE_LEVELS),
    *(f"ask_distance_{level}_ticks" for level in DISTANCE_LEVELS),
    "spread_ticks",
    "microprice_minus_mid_ticks",
    *(f"imbalance_{depth}" for depth in IMBALANCE_DEPTHS),
    "order_flow_imbalance_1",
    "order_flow_imbalance_1_5",
    *(f"mid_change_{lag}_ticks" for lag in MID_LAGS),
    "log_time_gap",
    "signed_volume",
    "trade_count",
    *(f"order_count_imbalance_{depth}" for depth in COUNT_DEPTHS),
    "fast_volatility_ticks",
    "slow_volatility_ticks",
    "spread_ema_ticks",
    "log_activity",
    "trend_over_volatility",
    "session_time",
)


def signed_log(values: npt.NDArray[np.generic]) -> Floats:
    """`sign(x) log(1 + |x|)`: keeps sign and order, tames the tail. Any shape."""
    x = values.astype(np.float64)
    return np.copysign(np.log1p(np.abs(x)), x)


def order_flow_imbalance(before: "Book", after: "Book") -> Floats:
    """Signed lots that joined the bid or left the ask between two rows, `[levels, n]`.

    Cont, Kukanov & Stoikov (2014), eq. 4, level by level: a better price counts the whole new queue, a worse
    one minus the whole old queue, an equal one the change of the queue.
    """
    joined = (after.bid_px >= before.bid_px) * after.bid_sz
    left = (after.bid_px <= before.bid_px) * before.bid_sz
    flow = np.subtract(joined, left, dtype=np.float64)  # two sizes may differ by more than int32 holds
    flow -= (after.ask_px <= before.ask_px) * after.ask_sz
    flow += (after.ask_px >= before.ask_px) * before.ask_sz
    return flow


@dataclass(frozen=True)
class Book:
    """Prices (ticks) and sizes (lots) of some rows, level by level: each `[levels, n]`."""

    bid_px: Int32
    ask_px: Int32
    bid_sz: Int32
    ask_sz: Int32

    @classmethod
    def of(cls, chunk: BookChunk, rows: slice) -> "Book":
        """All levels of some rows of a chunk."""
        columns = (chunk.bid_px, chunk.ask_px, chunk.bid_sz, chunk.ask_sz)
        return cls(*(_by_level(column[rows]) for column in columns))

    def top(self, levels: int) -> "Book":
        """The best `levels` levels, without a copy."""
        return Book(*(column[:levels] for column in vars(self).values()))

    def after(self, previous: "Book | None") -> "Book":
        """The book one row earlier, `[levels, n]`; the first row without a previous one repeats itself."""
        head = previous or Book(*(column[:, :1] for column in vars(self).values()))
        pairs = zip(vars(head).values(), vars(self).values(), strict=True)
        return Book(*(np.concatenate([first, rest[:, :-1]], axis=1) for first, rest in pairs))

    def last(self) -> "Book":
        """The newest row alone, `[levels, 1]`."""
        return Book(*(column[:, -1:].copy() for column in vars(self).values()))


@dataclass
class SegmentState:
    """What one segment remembers between chunks: the previous row, 32 mids and the running averages."""

    decision_rows: int
    num_rows: int = 0
    ts_ns: int = 0
    book: Book | None = None
    mids: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.fast = Averages(float(self.decision_rows), 2)  # squared change, change
        self.slow = Averages(float(self.decision_rows * SLOW_DECISIONS), 3)  # squared change, spread, gap


class FeatureStream:
    """Turns consecutive `BookChunk`s into features; how rows are cut into chunks makes no difference.

    `decision_rows` sets the time constants of the regime features: a decision (fast) and 16 decisions (slow).
    """

    def __init__(self, decision_rows: int) -> None:
        self.decision_rows = decision_rows
        self._segment: int | None = None
        self._state = SegmentState(decision_rows)

    def push(self, chunk: BookChunk) -> npt.NDArray[np.float32]:
        """Features `[n, F] float32` of the chunk's rows, columns as `FEATURE_NAMES`; always finite.

        Reads the chunk's rows and the carried state of earlier rows of the same segment, never later rows.
        """
        out = np.empty((NUM_FEATURES, len(chunk)), dtype=np.float32)
        cuts = np.flatnonzero(np.diff(chunk.segment)) + 1
        bounds = [0, *cuts.tolist(), len(chunk)]
        for start, end in itertools.pairwise(bounds):
            if start == end:
                continue
            if self._segment != int(chunk.segment[start]):
                self._segment, self._state = int(chunk.segment[start]), SegmentState(self.decision_rows)
            rows = slice(start, end)
            book = Book.of(chunk, rows)
            columns = [*_shape(book), *_imbalances(book), *_dynamics(chunk, rows, book, self._state)]
            for column, values in enumerate(columns):
                out[column, rows] = values
        return out.T


def _by_level(column: Int32) -> Int32:
    """`[n, levels]` as `[levels, n]`, contiguous: numpy is fast along a long last axis."""
    return np.ascontiguousarray(column.T)


def _imbalance_by_depth(bid: Int32, ask: Int32, depths: tuple[int, ...]) -> list[Floats]:
    """`(bid - ask) / (bid + ask)` `[n]` in [-1, 1], of sums over the best levels of `[levels, n]`.

    One for each of the rising `depths`; 0 where both sums are 0.
    """
    found: list[Floats] = []
    sums = np.zeros((2, bid.shape[1]))
    for start, end in itertools.pairwise((0, *depths)):
        for level in range(start, end):
            sums[0] += bid[level]
            sums[1] += ask[level]
        found.append((sums[0] - sums[1]) / np.maximum(sums[0] + sums[1], 1.0))
    return found


def _shape(book: Book) -> list[npt.NDArray[Any]]:
    """Log sizes of levels 1-5 and distances of levels from the best, `[n]` each."""
    top = book.top(SIZE_LEVELS)
    bid_px, ask_px = book.bid_px, book.ask_px
    return [
        *np.log1p(top.bid_sz),
        *np.log1p(top.ask_sz),
        *(np.subtract(bid_px[0], bid_px[level - 1], dtype=np.float64) for level in DISTANCE_LEVELS),
        *(np.subtract(ask_px[level - 1], ask_px[0], dtype=np.float64) for level in DISTANCE_LEVELS),
    ]


def _imbalances(book: Book) -> list[Floats]:
    """Spread, microprice minus mid and the imbalance at four depths, `[n]` each."""
    spread = np.subtract(book.ask_px[0], book.bid_px[0], dtype=np.float64)
    by_depth = _imbalance_by_depth(book.bid_sz, book.ask_sz, IMBALANCE_DEPTHS)
    # microprice = (bid * ask_sz + ask * bid_sz) / (bid_sz + ask_sz) = mid + spread / 2 * imbalance
    return [spread, 0.5 * spread * by_depth[0], *by_depth]


def _dynamics(chunk: BookChunk, rows: slice, book: Book, state: SegmentState) -> list[Floats]:
    """Everything that looks back: flows, mid changes, time gap, trades, order counts, regime, `[n]` each."""
    counts = state.num_rows + 1.0 + np.arange(rows.stop - rows.start)
    ts_ns, top = chunk.ts_ns[rows], book.top(SIZE_LEVELS)
    spread = np.subtract(book.ask_px[0], book.bid_px[0], dtype=np.float64)
    flow = order_flow_imbalance(top.after(state.book), top)
    changes = _mid_changes(0.5 * np.add(book.bid_px[0], book.ask_px[0], dtype=np.float64), state)
    gap_s = np.diff(ts_ns, prepend=state.ts_ns if state.num_rows else ts_ns[0]).clip(min=0) * 1e-9
    bid_ct, ask_ct = (_by_level(ct[rows, :SIZE_LEVELS]) for ct in (chunk.bid_ct, chunk.ask_ct))
    columns = [
        signed_log(flow[0]),
        signed_log(flow.sum(axis=0)),
        *changes,
        np.where(counts > 1, np.log(gap_s + MIN_GAP_S), 0.0),
        signed_log(chunk.signed_volume[rows]),
        signed_log(chunk.trade_count[rows]),
        *_imbalance_by_depth(bid_ct, ask_ct, COUNT_DEPTHS),
        *_regime(state, changes[0], spread, gap_s, counts),
        _session_time(chunk, rows),
    ]
    state.num_rows, state.ts_ns, state.book = int(counts[-1]), int(ts_ns[-1]), top.last()
    return columns


def _mid_changes(mid: Floats, state: SegmentState) -> list[Floats]:
    """Change of the mid over each lag, ticks, `[n]` each; 0 where the segment has no row that far back."""
    known = np.concatenate([state.mids, mid])
    state.mids = known[-max(MID_LAGS) :]
    changes = []
    for lag in MID_LAGS:
        full = np.zeros(len(known))
        full[lag:] = known[lag:] - known[:-lag]
        changes.append(full[len(known) - len(mid) :])
    return changes


def _regime(
    state: SegmentState, change: Floats, spread: Floats, gap_s: Floats, counts: Floats
) -> list[Floats]:
    """Fast and slow volatility per row, spread, activity (log rows per second), trend / volatility."""
    changes = counts - 1.0  # the first row of a segment has no change and no gap
    square = change**2
    square_fast, trend = state.fast.push(np.stack([square, change]), [changes, changes])
    square_slow, spread, gap = state.slow.push(np.stack([square, spread, gap_s]), [changes, counts, changes])
    fast = np.sqrt(square_fast)
    return [
        fast,
        np.sqrt(square_slow),
        spread,
        np.where(changes > 0, -np.log(gap + MIN_GAP_S), 0.0),
        # Same weights above and below: within [-1, 1] by Cauchy-Schwarz.
        np.where(fast > 1e-9, trend / np.maximum(fast, 1e-9), 0.0),
    ]


def _session_time(chunk: BookChunk, rows: slice) -> Floats:
    """Share of the row's session that has passed, in [0, 1]."""
    since_open = (chunk.ts_ns[rows] - chunk.session_open_ns[rows]).astype(np.float64)
    length = (chunk.session_close_ns[rows] - chunk.session_open_ns[rows]).astype(np.float64)
    return np.asarray(np.clip(since_open / np.maximum(length, 1.0), 0.0, 1.0))
