"""When decisions are made: every `decision_rows` valid rows, or by time every `decision_ms` (SYSTEM.md 1).

One clock for training, labels, evaluation and baselines. Reads receive times only. What is between two rows
of different segments is for the caller: the clock runs on as if there were no segments.
"""

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from trainer.config import DataConfig

Ints = npt.NDArray[np.int64]

NANOS_PER_MS = 1_000_000


def period_ns(data: DataConfig) -> int | None:
    """ns between decisions; None where they are made by rows."""
    return None if data.decision_ms is None else round(data.decision_ms * NANOS_PER_MS)


def decision_ahead(ts_ns: Ints, count: int, data: DataConfig) -> Ints:
    """Row of the `count`-th decision after one made at each row, `[R] int64`; R where there is none.

    By rows that is row t + `count` x `decision_rows`; by time the first row strictly after t that is at least
    one period later, `count` times over. `ts_ns [R] int64` never decreases, `count` >= 1.
    """
    num_rows, period = len(ts_ns), period_ns(data)
    row = np.arange(num_rows)
    if period is None:
        return np.minimum(row + count * data.decision_rows, num_rows)
    following = np.append(np.maximum(np.searchsorted(ts_ns, ts_ns + period, side="left"), row + 1), num_rows)
    ahead = following[:-1]
    for _ in range(count - 1):
        ahead = following[ahead]
    return ahead


def first_row_reaching(ts_ns: Ints, target_row: int, count: int, data: DataConfig) -> int:
    """First row whose `count`-th decision ahead is `target_row` or later, 0..`target_row`."""
    period = period_ns(data)
    if period is None:
        return max(target_row - count * data.decision_rows, 0)

    def ahead(row: int) -> int:
        for _ in range(count):
            if row >= target_row:
                break
            row = max(int(np.searchsorted(ts_ns, int(ts_ns[row]) + period, side="left")), row + 1)
        return row

    return bisect_left(range(target_row), target_row, key=ahead)


def least_rows(data: DataConfig) -> int:
    """Rows that one decision takes at least."""
    return data.decision_rows if data.decision_ms is None else 1


def range_windows(ts_ns: Ints, data: DataConfig) -> Ints:
    """First row of the decision's span that ends with each row, `[R] int64`: the rows of one decision."""
    period = period_ns(data)
    if period is None:
        return np.maximum(np.arange(len(ts_ns)) - (data.decision_rows - 1), 0)
    return np.searchsorted(ts_ns, ts_ns - period, side="right").astype(np.int64)


def decisions_since_previous(ts_ns: Ints, data: DataConfig) -> npt.NDArray[np.float64]:
    """Decisions that pass from the row before to each row, `[R]`, at most 1; 1 at the first row."""
    period = period_ns(data)
    if period is None:
        return np.full(len(ts_ns), 1.0 / data.decision_rows)
    return np.minimum(np.diff(ts_ns, prepend=ts_ns[:1] - period) / period, 1.0)
