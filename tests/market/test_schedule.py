"""Fill rows, exits, announced ends, elapsed time and the mid's range."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import DataConfig
from trainer.market.schedule import (
    Span,
    elapsed_units,
    fill_rows,
    first_rows,
    mid_range,
    plan_exits,
    windowed_max,
)


def test_zero_latency_fills_on_the_next_row_even_at_the_same_time() -> None:
    assert fill_rows(np.array([5, 5, 5, 9]), 0).tolist() == [1, 2, 3, 4]


def test_fill_row_is_the_first_at_or_after_the_latency() -> None:
    assert fill_rows(np.array([0, 4, 5, 11]), 5).tolist() == [2, 3, 3, 4]


def test_announced_close_is_left_one_latency_early_at_the_book_standing_then() -> None:
    ts = np.array([0, 10, 20, 29])
    exit_row, is_gap, close = plan_exits(ts, [Span(0, 4, 0, 30, False)], 1000, 5)
    assert exit_row.tolist() == [2, 2, 2, 3]
    assert not is_gap.any()
    assert close.tolist() == [30] * 4


def test_window_end_comes_before_a_later_session_close() -> None:
    exit_row, _, close = plan_exits(np.array([0, 10, 20]), [Span(0, 3, 0, 99, False)], 21, 5)
    assert exit_row.tolist() == [1, 1, 2]
    assert close.tolist() == [21] * 3


def test_gap_exits_on_the_first_row_after_it() -> None:
    spans = [Span(0, 2, 0, 99, True), Span(2, 4, 0, 99, False)]
    exit_row, is_gap, close = plan_exits(np.array([0, 1, 50, 51]), spans, 99, 5)
    assert exit_row.tolist() == [2, 2, 3, 3]
    assert is_gap.tolist() == [True, True, False, False]
    assert close.tolist() == [99] * 4, "a gap is not announced"


def test_gap_whose_other_side_lies_outside_the_window_is_an_announced_end() -> None:
    exit_row, is_gap, _ = plan_exits(np.array([0, 1, 9]), [Span(0, 3, 0, 99, True)], 10, 5)
    assert exit_row.tolist() == [1, 1, 2]
    assert not is_gap.any()


def test_roll_within_a_session_is_announced_for_the_next_contracts_first_row() -> None:
    spans = [Span(0, 3, 0, 99, False), Span(3, 4, 0, 99, False)]
    exit_row, _, close = plan_exits(np.array([0, 1, 8, 10]), spans, 99, 5)
    assert exit_row.tolist()[:2] == [1, 1]
    assert close.tolist() == [10, 10, 10, 99]


def test_an_announced_end_is_left_in_time_though_a_gap_comes_before_it() -> None:
    """The gap comes within the last latency: staying for it would be to know of it."""
    spans = [Span(0, 3, 0, 30, True), Span(3, 5, 0, 30, False)]
    ts = np.array([0, 20, 26, 27, 28])
    exit_row, is_gap, _ = plan_exits(ts, spans, 1000, 5)
    whole, _, _ = plan_exits(ts, [Span(0, 5, 0, 30, False)], 1000, 5)
    assert exit_row[:3].tolist() == whole[:3].tolist() == [1, 1, 2]
    assert not is_gap.any()


def test_a_gap_that_ends_just_when_the_announced_end_is_left_is_a_gap() -> None:
    spans = [Span(0, 2, 0, 30, True), Span(2, 3, 0, 30, False)]
    exit_row, is_gap, _ = plan_exits(np.array([0, 20, 25]), spans, 1000, 5)
    assert exit_row.tolist() == [2, 2, 2]
    assert is_gap.tolist() == [True, True, False]


def test_a_roll_is_announced_before_a_gap_too() -> None:
    """Else the time left would tell that a gap is near."""
    spans = [Span(0, 2, 0, 99, True), Span(2, 3, 0, 99, False), Span(3, 4, 0, 99, False)]
    exit_row, is_gap, close = plan_exits(np.array([0, 1, 50, 60]), spans, 99, 5)
    assert close.tolist() == [60, 60, 60, 99]
    assert (exit_row.tolist()[:3], is_gap.tolist()) == ([2, 2, 2], [True, True, False, False])


def test_segment_shorter_than_the_latency_has_no_row_to_decide_on() -> None:
    exit_row, _, _ = plan_exits(np.array([7, 8]), [Span(0, 2, 0, 9, False)], 99, 5)
    assert exit_row.tolist() == [0, 1]


def test_elapsed_restarts_at_segments_and_is_clipped() -> None:
    ts = np.array([0, 2, 3, 900]) * 10**9
    first = first_rows([Span(0, 2, 0, 0, True), Span(2, 4, 0, 0, False)])
    assert elapsed_units(ts, first, 2.0).tolist() == [0.0, 1.0, 0.0, 20.0]


def test_mid_range_of_a_steady_zigzag_is_its_width() -> None:
    bid = np.array([0, 4] * 50, np.int32)
    got = mid_range(bid + 0.5, np.arange(100), [Span(0, 100, 0, 0, False)], DataConfig(decision_rows=2), 4.0)
    assert got[0] == pytest.approx(0.5), "a segment's first row has seen no range: the floor"
    assert got[-1] == pytest.approx(4.0, rel=1e-3)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 39), decision_ms=st.sampled_from([None, 1.0, 17.0]))
def test_mid_range_reads_no_later_row_and_no_other_segment(
    seed: int, cut: int, decision_ms: float | None
) -> None:
    rng = np.random.default_rng(seed)
    bid = rng.integers(-9, 9, 40).astype(np.int32)
    changed = bid.copy()
    changed[cut:] += rng.integers(1, 50, 40 - cut).astype(np.int32)
    ts_ns, whole = rng.integers(0, 9, 40).cumsum() * 10**6, [Span(0, 40, 0, 0, False)]
    data = DataConfig(decision_rows=3, decision_ms=decision_ms)
    before, after = (mid_range(b + 0.5, ts_ns, whole, data, 8.0) for b in (bid, changed))
    assert np.array_equal(before[:cut], after[:cut])
    parts = [Span(0, cut, 0, 0, True), Span(cut, 40, 0, 0, False)]
    split = mid_range(bid + 0.5, ts_ns, parts, data, 8.0)
    alone = mid_range(bid[cut:] + 0.5, ts_ns[cut:], [Span(0, 40 - cut, 0, 0, False)], data, 8.0)
    assert np.array_equal(split[cut:], alone)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 70)), min_size=1, max_size=70))
def test_windowed_max_equals_the_largest_of_each_window(rows: list[tuple[int, int]]) -> None:
    values = np.array([value for value, _ in rows], np.float64)
    first = np.array([max(index - back, 0) for index, (_, back) in enumerate(rows)], np.int64)
    expected = [values[start : index + 1].max() for index, start in enumerate(first)]
    assert windowed_max(values, first).tolist() == expected
