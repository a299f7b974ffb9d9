"""Row times stand in for a cache's column of times."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer.data.inspection.book import RowTimes


@given(
    steps=st.lists(st.integers(0, 3), min_size=1, max_size=200),
    cuts=st.lists(st.integers(0, 200), max_size=4),
    max_times=st.integers(2, 250),
)
def test_row_times_search_like_the_whole_column_to_within_the_stride(
    steps: list[int], cuts: list[int], max_times: int
) -> None:
    whole = np.cumsum(np.array(steps, np.int64)) + 1000
    times = RowTimes(max_times)
    for part in np.split(whole, sorted(cuts)):
        times.add(part)
    assert len(times) == len(whole)
    assert times[0] == whole[0]
    assert times[-1] == times[len(whole) - 1] == whole[-1]
    wanted = np.arange(998, whole[-1] + 3)
    for side in ("left", "right"):
        exact = np.searchsorted(whole, wanted, side)
        found = np.searchsorted(times, wanted, side)  # type: ignore[call-overload]
        assert ((found >= exact) & (found < exact + times.stride)).all()
    if len(whole) <= max_times:
        assert times.stride == 1
    assert len(whole) / times.stride <= max_times
