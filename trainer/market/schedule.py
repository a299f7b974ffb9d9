"""When things happen on a tape: fill rows, forced exits, announced ends, elapsed time, the mid's range.

Plain numpy, computed once per window. Sources: SYSTEM.md sections 3 and 14.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainer.config import DataConfig
from trainer.data.decisions import decisions_since_previous, range_windows

# The smallest move a mid can make: keeps ranges positive on a book that stands still.
MIN_RANGE_TICKS = 0.5
MAX_ELAPSED = 20.0

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Span(NamedTuple):
    """One segment's rows `[first, end)` on the tape, and how it ends."""

    first: int
    end: int
    session: int
    close_ns: int  # session close, UTC ns
    ends_in_gap: bool  # same instrument and session go on after an unannounced gap


def first_rows(spans: Sequence[Span]) -> Ints:
    """First row of each row's segment, `[R] int64`."""
    return np.concatenate([np.full(s.end - s.first, s.first, np.int64) for s in spans])


def fill_rows(ts_ns: Ints, latency_ns: int) -> Ints:
    """First row strictly after t at or after `ts[t] + latency`, `[R] int64`; R where there is none."""
    at_or_after = np.searchsorted(ts_ns, ts_ns + latency_ns, side="left")
    return np.maximum(at_or_after, np.arange(1, len(ts_ns) + 1)).astype(np.int64)


def plan_exits(
    ts_ns: Ints, spans: Sequence[Span], end_ns: int, latency_ns: int
) -> tuple[Ints, npt.NDArray[np.bool_], Ints]:
    """Exit row `[R]`, whether it follows a gap `[R]`, announced end `[R]` ns.

    An announced end (session close, roll, window end) is left one latency early, at the book standing then.
    A gap is not announced: leaving before it would be look-ahead, so its exit is the next segment's first
    row, unless the announced end has to be left before that row comes. A row past its segment's exit gets
    itself: a lane never decides there.
    """
    row = np.arange(len(ts_ns), dtype=np.int64)
    exit_row, is_gap, close = row.copy(), np.zeros(len(ts_ns), np.bool_), np.empty(len(ts_ns), np.int64)
    for span, after, announced in zip(
        spans, [*spans[1:], None], _announced_ends(ts_ns, spans, end_ns), strict=True
    ):
        rows, out_by = slice(span.first, span.end), announced - latency_ns
        close[rows] = announced
        if span.ends_in_gap and after is not None and ts_ns[after.first] <= out_by:
            exit_row[rows], is_gap[rows] = after.first, True
            continue
        standing = np.searchsorted(ts_ns[rows], out_by, side="right") - 1
        exit_row[rows] = np.maximum(row[rows], span.first + standing)
    return exit_row, is_gap, close


def _announced_ends(ts_ns: Ints, spans: Sequence[Span], end_ns: int) -> list[int]:
    """The announced end of each span, ns. A gap before it does not hide it: that would announce the gap."""
    ends: list[int] = []
    for span, after in zip(reversed(spans), [None, *reversed(spans[1:])], strict=True):
        end = min(span.close_ns, end_ns)
        if after is not None and after.session == span.session:
            # A roll within a session is on the calendar: the time of the first row of the next contract.
            end = min(end, ends[-1] if span.ends_in_gap else int(ts_ns[after.first]))
        ends.append(end)
    return ends[::-1]


def elapsed_units(ts_ns: Ints, first: Ints, scale_s: float) -> npt.NDArray[np.float32]:
    """Seconds since the segment's previous row over `scale_s`, clipped to [0, 20]; 0 at first rows."""
    seconds = np.diff(ts_ns, prepend=ts_ns[:1]) * 1e-9
    seconds[first == np.arange(len(first))] = 0.0
    return np.clip(seconds / scale_s, 0.0, MAX_ELAPSED).astype(np.float32)


def mid_range(
    mid_ticks: Floats, ts_ns: Ints, spans: Sequence[Span], data: DataConfig, decay_decisions: float
) -> npt.NDArray[np.float32]:
    """EMA over rows of (max - min of the mid over the last decision's rows), ticks, `[R] float32`, > 0.

    `mid_ticks`, `ts_ns` are `[R]`; a row weighs as much as the part of a decision that it ends. Row t reads
    rows <= t of its own segment. The EMA is bias-corrected, so that the first rows of a segment are an
    average of what was seen rather than a slow rise from zero.
    """
    out = np.empty(len(mid_ticks), np.float32)
    for span in spans:
        rows = slice(span.first, span.end)
        first = range_windows(ts_ns[rows], data)
        spread = windowed_max(mid_ticks[rows], first) + windowed_max(-mid_ticks[rows], first)
        keep = 1.0 - decisions_since_previous(ts_ns[rows], data) / decay_decisions
        # Not scipy.signal.lfilter: loading that takes seconds at every start, this loop 0.1 us a row.
        pairs = zip(keep.tolist(), ((1.0 - keep) * spread).tolist(), strict=True)
        sums = accumulate(pairs, lambda total, pair: pair[0] * total + pair[1], initial=0.0)
        weight = 1.0 - np.cumprod(keep)
        mean = np.fromiter(sums, np.float64, len(keep) + 1)[1:] / weight
        out[rows] = np.maximum(mean, MIN_RANGE_TICKS)
    return out


def windowed_max(values: Floats, first: Ints) -> Floats:
    """Largest of `values[first[t]..t]` for each t, `[R]`; `first [R]` <= t. O(R log longest window)."""
    row = np.arange(len(values))
    length = row - first + 1
    best, span = values, 1  # best[t] is the largest of the last `span` values up to t
    out = values.copy()
    while True:
        fits = np.flatnonzero((length >= span) & (length < 2 * span))
        out[fits] = np.maximum(best[fits], best[first[fits] + span - 1])
        if length.max(initial=1) < 2 * span:
            return out
        best = np.concatenate([best[:span], np.maximum(best[span:], best[:-span])])
        span *= 2
