"""Statistics of valid rows in bounded memory: distributions of the book, and times of segments."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from trainer.data.book import BookChunk
from trainer.data.inspection.report import BookReport
from trainer.data.inspection.survey import price_text
from trainer.types import NUM_LEVELS

Int64 = npt.NDArray[np.int64]

QUANTILE_LIMIT = 65_535  # ticks or lots from which on a histogram does not tell values apart
MAX_TIMES = 1 << 20  # row times kept: 8 MB


class _Histogram:
    """Counts of small non-negative integers; larger ones count as `limit`."""

    def __init__(self, limit: int = QUANTILE_LIMIT) -> None:
        self._limit = limit
        self._counts = np.zeros(limit + 1, np.int64)

    def add(self, values: npt.NDArray[np.integer]) -> None:
        counts = np.bincount(np.minimum(values, self._limit).ravel())
        self._counts[: len(counts)] += counts

    def quantile(self, share: float) -> int:
        """The least value that at least `share` of the values do not exceed."""
        total = np.cumsum(self._counts)
        return int(np.searchsorted(total, share * total[-1], side="left"))

    def share_of(self, value: int) -> float:
        return float(self._counts[value] / self._counts.sum())


class RowTimes:
    """Receive times of rows, of every `stride`-th once there are many: exact up to `max_times` rows.

    Takes the place of a cache's `ts_ns` where windows are planned: `np.searchsorted` asks what has its own.
    """

    def __init__(self, max_times: int = MAX_TIMES) -> None:
        self.stride = 1
        self._max_times = max_times
        self._pieces: list[Int64] = []  # times of rows 0, stride, 2 stride, ...
        self._num_kept = self._num_rows = self._newest_ns = 0

    def add(self, ts_ns: Int64) -> None:
        """The next rows' times, `[n]`."""
        if not len(ts_ns):
            return
        # A copy: a view would keep the whole chunk alive.
        piece = ts_ns[-self._num_rows % self.stride :: self.stride].copy()
        self._pieces.append(piece)
        self._num_kept += len(piece)
        self._num_rows += len(ts_ns)
        self._newest_ns = int(ts_ns[-1])
        while self._num_kept > self._max_times:
            self._pieces = [self._kept()[::2].copy()]
            self._num_kept, self.stride = len(self._pieces[0]), self.stride * 2

    def _kept(self) -> Int64:
        if len(self._pieces) > 1:
            self._pieces = [np.concatenate(self._pieces)]
        return self._pieces[0]

    def __len__(self) -> int:
        return self._num_rows

    def __getitem__(self, row: int) -> int:
        if row in (-1, self._num_rows - 1):
            return self._newest_ns
        return int(self._kept()[row // self.stride])

    def searchsorted(
        self, values: npt.ArrayLike, side: Literal["left", "right"] = "left", sorter: None = None
    ) -> npt.NDArray[np.intp]:
        """As of an array of all times, in rows; up to `stride` - 1 too many."""
        return np.minimum(np.searchsorted(self._kept(), values, side) * self.stride, self._num_rows)


class RowSurvey:
    """Takes the valid rows in order."""

    def __init__(self, tick_nanos: int) -> None:
        self.times = RowTimes()
        self._tick_nanos = tick_nanos
        self._spread, self._depth, self._levels = _Histogram(), _Histogram(), _Histogram(NUM_LEVELS)
        self._low_ticks, self._high_ticks = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        self._equal_times = self._newest_ns = 0
        self._spans: list[list[int]] = []  # first and last time of each segment
        self._grid_ticks = 0

    def add(self, chunk: BookChunk) -> None:
        """Counts the next rows in."""
        if not len(chunk):
            return
        bid, ask = chunk.bid_px[:, 0], chunk.ask_px[:, 0]
        self._spread.add(ask.astype(np.int64) - bid)
        self._depth.add(chunk.bid_sz[:, 0])
        self._depth.add(chunk.ask_sz[:, 0])
        filled = ((side > 0).sum(axis=1) for side in (chunk.bid_sz, chunk.ask_sz))
        self._levels.add(np.minimum(*filled))
        self._low_ticks = min(self._low_ticks, int(bid.min()))
        self._high_ticks = max(self._high_ticks, int(ask.max()))
        for prices in (chunk.bid_px, chunk.ask_px):
            self._add_grid(prices)
        before = self._newest_ns
        self._equal_times += int(np.count_nonzero(np.diff(chunk.ts_ns, prepend=before) == 0))
        self._newest_ns = int(chunk.ts_ns[-1])
        self.times.add(chunk.ts_ns)
        self._add_spans(chunk)

    def _add_grid(self, ticks: npt.NDArray[np.int32]) -> None:
        # The greatest common divisor is slow and changes rarely: only prices that it does not divide count.
        off = ticks if not self._grid_ticks else ticks[ticks % self._grid_ticks != 0]
        if off.size:
            self._grid_ticks = int(np.gcd.reduce(off.ravel().astype(np.int64), initial=self._grid_ticks))

    def _add_spans(self, chunk: BookChunk) -> None:
        starts = np.flatnonzero(np.diff(chunk.segment, prepend=-1))
        ends = np.append(starts[1:], len(chunk)) - 1
        for number, first, last in zip(
            chunk.segment[starts].tolist(),
            chunk.ts_ns[starts].tolist(),
            chunk.ts_ns[ends].tolist(),
            strict=True,
        ):
            if number == len(self._spans):
                self._spans.append([first, last])
            self._spans[number][1] = last

    def spans(self) -> Int64:
        """First and last row time `[G, 2]` of each segment, UTC ns."""
        return np.array(self._spans, np.int64).reshape(-1, 2)

    @property
    def grid(self) -> str | None:
        """Greatest price step that divides every price of the rows; None without a row."""
        return price_text(self._grid_ticks * self._tick_nanos) if self._grid_ticks else None

    def report(self) -> BookReport | None:
        """None without a row."""
        rows = len(self.times)
        if not rows:
            return None
        return BookReport(
            low=price_text(self._low_ticks * self._tick_nanos),
            high=price_text(self._high_ticks * self._tick_nanos),
            spread_ticks_median=self._spread.quantile(0.5),
            spread_ticks_p95=self._spread.quantile(0.95),
            depth_lots_median=self._depth.quantile(0.5),
            levels_median=self._levels.quantile(0.5),
            all_levels_share=self._levels.share_of(NUM_LEVELS),
            equal_time_share=self._equal_times / rows,
        )
