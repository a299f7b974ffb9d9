"""The exact interval of a share, by its definition and by tabulated values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.intervals import clopper_pearson


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_ends_where_what_was_seen_becomes_improbable(case: tuple[int, int]) -> None:
    k, n = case
    low, high = clopper_pearson(k, n)
    assert 0.0 <= low <= k / n <= high <= 1.0
    # By definition: the observation or more under `low`, or less under `high`, has probability 2.5 %.
    if k > 0:
        assert stats.binom.sf(k - 1, n, low) == pytest.approx(0.025, rel=1e-6)
    if k < n:
        assert stats.binom.cdf(k, n, high) == pytest.approx(0.025, rel=1e-6)


def test_none_of_twenty_leaves_a_sixth_possible() -> None:
    assert clopper_pearson(0, 20) == (0.0, pytest.approx(1 - 0.025 ** (1 / 20)))


@pytest.mark.parametrize(("k", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_an_impossible_share_is_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"{k} of {n}"):
        clopper_pearson(k, n)


def test_exact_intervals_at_the_ends() -> None:
    assert clopper_pearson(0, 10) == (0.0, pytest.approx(0.30850, abs=1e-5))
    assert clopper_pearson(10, 10) == (pytest.approx(0.69150, abs=1e-5), 1.0)
    assert clopper_pearson(8, 20) == (pytest.approx(0.19119, abs=1e-5), pytest.approx(0.63946, abs=1e-5))
