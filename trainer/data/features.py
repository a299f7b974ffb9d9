"""The 40 snapshot features of a book row (design page SYSTEM.md sections 1 and 14), computed in one stream.

Every feature of row `i` reads rows up to `i` of the same segment only. Prices enter as tick differences,
never as logs, so negative prices are fine. Quantities with heavy tails (flows, counts) are signed logs.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trainer.data.average import Average
from trainer.data.book import BookChunk
from trainer.types import NUM_FEATURES

Floats = npt.NDArray[np.float64]

MID_LAGS = (1, 8, 32)  # rows
DISTANCE_LEVELS = (2, 3, 5, 10)
IMBALANCE_DEPTHS = (1, 3, 5, 10)
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
    "order_count_imbalance_1",
    "order_count_imbalance_5",
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
    return np.asarray(np.sign(x) * np.log1p(np.abs(x)))


def imbalance(bid: npt.NDArray[np.generic], ask: npt.NDArray[np.generic]) -> Floats:
    """`(bid - ask) / (bid + ask)` in [-1, 1], 0 where both are 0. Any shape."""
    b, a = bid.astype(np.float64), ask.astype(np.float64)
    total = b + a
    return np.asarray((b - a) / np.where(total > 0, total, 1.0))


def order_flow_imbalance(before: "Book", after: "Book") -> Floats:
    """Signed lots that joined the bid or left the ask between two rows, `[levels, n]`.

    Cont, Kukanov & Stoikov (2014), eq. 4, level by level: a better price counts the whole new queue, a worse
    one minus the whole old queue, an equal one the change of the queue.
    """
    bid = np.where(after.bid_px >= before.bid_px, after.bid_sz, 0)
    bid = bid - np.where(after.bid_px <= before.bid_px, before.bid_sz, 0)
    ask = np.where(after.ask_px <= before.ask_px, after.ask_sz, 0)
    ask = ask - np.where(after.ask_px >= before.ask_px, before.ask_sz, 0)
    return np.asarray(bid - ask, dtype=np.float64)


@dataclass(frozen=True)
class Book:
    """Prices (ticks) and sizes (lots) of some rows, level by level: each `[levels, n]`, exact in float64."""

    bid_px: Floats
    ask_px: Floats
    bid_sz: Floats
    ask_sz: Floats

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
        fast, slow = float(self.decision_rows), float(self.decision_rows * SLOW_DECISIONS)
        self.fast_square, self.slow_square = Average(fast), Average(slow)
        self.trend, self.spread, self.gap = Average(fast), Average(slow), Average(slow)


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
        out = np.empty((len(chunk), NUM_FEATURES), dtype=np.float32)
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
                out[rows, column] = values
        return out


def _by_level(column: npt.NDArray[np.int32]) -> Floats:
    """`[n, levels]` as `[levels, n] float64`: numpy is fast along a long last axis."""
    return np.ascontiguousarray(column.T).astype(np.float64)


def _shape(book: Book) -> list[Floats]:
    """Log sizes of levels 1-5 and distances of levels from the best, `[n]` each."""
    top = book.top(SIZE_LEVELS)
    bid_px, ask_px = book.bid_px, book.ask_px
    return [
        *np.log1p(top.bid_sz),
        *np.log1p(top.ask_sz),
        *(bid_px[0] - bid_px[level - 1] for level in DISTANCE_LEVELS),
        *(ask_px[level - 1] - ask_px[0] for level in DISTANCE_LEVELS),
    ]


def _imbalances(book: Book) -> list[Floats]:
    """Spread, microprice minus mid and the imbalance at four depths, `[n]` each."""
    spread = book.ask_px[0] - book.bid_px[0]
    by_depth = [
        imbalance(book.bid_sz[:depth].sum(axis=0), book.ask_sz[:depth].sum(axis=0))
        for depth in IMBALANCE_DEPTHS
    ]
    # microprice = (bid * ask_sz + ask * bid_sz) / (bid_sz + ask_sz) = mid + spread / 2 * imbalance
    return [spread, 0.5 * spread * by_depth[0], *by_depth]


def _dynamics(chunk: BookChunk, rows: slice, book: Book, state: SegmentState) -> list[Floats]:
    """Everything that looks back: flows, mid changes, time gap, trades, order counts, regime, `[n]` each."""
    counts = state.num_rows + 1.0 + np.arange(rows.stop - rows.start)
    ts_ns, top = chunk.ts_ns[rows], book.top(SIZE_LEVELS)
    flow = order_flow_imbalance(top.after(state.book), top)
    best_bid, best_ask = book.bid_px[0], book.ask_px[0]
    changes = _mid_changes(0.5 * (best_bid + best_ask), state)
    gap_s = np.diff(ts_ns, prepend=state.ts_ns if state.num_rows else ts_ns[0]) * 1e-9
    bid_ct, ask_ct = (_by_level(ct[rows, :SIZE_LEVELS]) for ct in (chunk.bid_ct, chunk.ask_ct))
    columns = [
        signed_log(flow[0]),
        signed_log(flow.sum(axis=0)),
        *changes,
        np.where(counts > 1, np.log(gap_s.clip(min=0.0) + MIN_GAP_S), 0.0),
        signed_log(chunk.signed_volume[rows]),
        signed_log(chunk.trade_count[rows]),
        imbalance(bid_ct[0], ask_ct[0]),
        imbalance(bid_ct.sum(axis=0), ask_ct.sum(axis=0)),
        *_regime(state, changes[0], best_ask - best_bid, gap_s, counts),
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
    fast = np.sqrt(state.fast_square.push(change**2, changes))
    slow = np.sqrt(state.slow_square.push(change**2, changes))
    trend = state.trend.push(change, changes)
    gap = state.gap.push(gap_s.clip(min=0.0), changes)
    return [
        fast,
        slow,
        state.spread.push(spread, counts),
        np.where(changes > 0, -np.log(gap + MIN_GAP_S), 0.0),
        # Same weights above and below: within [-1, 1] by Cauchy-Schwarz.
        np.where(fast > 1e-9, trend / np.where(fast > 1e-9, fast, 1.0), 0.0),
    ]


def _session_time(chunk: BookChunk, rows: slice) -> Floats:
    """Share of the row's session that has passed, in [0, 1]."""
    since_open = (chunk.ts_ns[rows] - chunk.session_open_ns[rows]).astype(np.float64)
    length = (chunk.session_close_ns[rows] - chunk.session_open_ns[rows]).astype(np.float64)
    return np.asarray(np.clip(since_open / np.maximum(length, 1.0), 0.0, 1.0))
