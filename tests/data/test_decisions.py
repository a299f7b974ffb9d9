"""The decision clock: by rows, and by time against a scalar oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from trainer.config import DataConfig
from trainer.data.decisions import decision_ahead, first_row_reaching, least_rows, range_windows

MS = 1_000_000
GAPS_MS = st.lists(st.integers(0, 30), min_size=1, max_size=60)
CLOCKS = st.one_of(
    st.integers(1, 9).map(lambda rows: DataConfig(decision_rows=rows)),
    st.sampled_from([0.5, 1.0, 20.0, 75.0]).map(lambda ms: DataConfig(decision_ms=ms)),
)


def scalar_next(ts_ns: list[int], row: int, data: DataConfig) -> int:
    if data.decision_ms is None:
        return min(row + data.decision_rows, len(ts_ns))
    due = ts_ns[row] + data.decision_ms * MS
    return next((r for r in range(row + 1, len(ts_ns)) if ts_ns[r] >= due), len(ts_ns))


def scalar_ahead(ts_ns: list[int], row: int, count: int, data: DataConfig) -> int:
    for _ in range(count):
        if row < len(ts_ns):
            row = scalar_next(ts_ns, row, data)
    return row


@settings(deadline=None, max_examples=100)
@given(gaps_ms=GAPS_MS, data=CLOCKS, count=st.integers(1, 5))
def test_decisions_ahead_follow_one_another(gaps_ms: list[int], data: DataConfig, count: int) -> None:
    ts_ns = np.cumsum(gaps_ms) * MS
    expected = [scalar_ahead(ts_ns.tolist(), row, count, data) for row in range(len(ts_ns))]
    assert decision_ahead(ts_ns, count, data).tolist() == expected


@settings(deadline=None, max_examples=100)
@given(gaps_ms=GAPS_MS, data=CLOCKS, count=st.integers(1, 5), share=st.floats(0, 1))
def test_first_row_reaching_parts_the_rows_by_where_their_decisions_lead(
    gaps_ms: list[int], data: DataConfig, count: int, share: float
) -> None:
    ts_ns = np.cumsum(gaps_ms) * MS
    target = int(share * (len(ts_ns) - 1))
    ahead = [scalar_ahead(ts_ns.tolist(), row, count, data) for row in range(len(ts_ns))]
    found = first_row_reaching(ts_ns, target, count, data)
    assert all(row < target for row in ahead[:found])
    assert all(row >= target for row in ahead[found:])


def test_a_decision_by_time_waits_for_a_row_and_never_stands_still() -> None:
    ts_ns = np.array([0, 0, 4, 10, 10, 11, 95, 96]) * MS
    assert decision_ahead(ts_ns, 1, DataConfig(decision_ms=10)).tolist() == [3, 3, 6, 6, 6, 6, 8, 8]
    assert decision_ahead(ts_ns, 1, DataConfig(decision_ms=0.001)).tolist() == [2, 2, 3, 5, 5, 6, 7, 8]


def test_rows_of_a_decision_by_time_are_those_of_the_last_period() -> None:
    ts_ns = np.array([0, 5, 10, 11, 40]) * MS
    assert range_windows(ts_ns, DataConfig(decision_ms=10)).tolist() == [0, 0, 1, 1, 4]
    assert range_windows(ts_ns, DataConfig(decision_rows=2)).tolist() == [0, 0, 1, 2, 3]


def test_least_rows_of_a_decision() -> None:
    assert least_rows(DataConfig(decision_rows=8)) == 8
    assert least_rows(DataConfig(decision_rows=8, decision_ms=100)) == 1


@pytest.mark.parametrize("value", [0, -5, float("nan")])
def test_a_period_must_be_positive(value: float) -> None:
    with pytest.raises(ValidationError):
        DataConfig(decision_ms=value)
