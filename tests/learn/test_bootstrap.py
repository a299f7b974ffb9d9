"""The block bootstrap: seeded, bounded in memory, and its bound holds as often as it says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from trainer.learn import bootstrap
from trainer.learn.bootstrap import MIN_BLOCKS, bootstrap_means, excess_bound, lower_bound

SETTINGS = {"block": 20, "num_resamples": 400, "confidence": 0.95, "seed": 1}


def autoregressive(num_series: int, length: int, rho: float, seed: int) -> np.ndarray:
    """`[num_series, length]` stationary AR(1) noise with mean 0."""
    noise = np.random.default_rng(seed).standard_normal((num_series, length + 100))
    return lfilter([1.0], [1.0, -rho], noise, axis=1)[:, 100:]


def resample(series: np.ndarray, block: int, count: int, seed: int) -> list[float]:
    """The same resamples by loops: blocks joined value by value and cut at T."""
    generator = np.random.default_rng(seed)
    total, means = len(series), []
    for starts in generator.integers(0, total, (count, math.ceil(total / block))):
        joined = [series[(start + i) % total] for start in starts for i in range(block)]
        means.append(sum(joined[:total]) / total)
    return means


@settings(deadline=None, max_examples=40)
@given(
    values=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30),
    block=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_resamples_equal_blocks_joined_by_hand(values: list[float], block: int, seed: int) -> None:
    series = np.array(values)
    found = bootstrap_means(series, block=block, num_resamples=7, seed=seed)
    expected = resample(series, min(block, len(series)), 7, seed)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_drawing_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    series = np.arange(100.0)
    whole = bootstrap_means(series, block=7, num_resamples=50, seed=3)
    monkeypatch.setattr(bootstrap, "_CHUNK_INDICES", 40)
    np.testing.assert_array_equal(bootstrap_means(series, block=7, num_resamples=50, seed=3), whole)


@pytest.mark.parametrize(("rho", "length"), [(0.0, 400), (0.5, 1000), (-0.3, 1000)])
def test_the_lower_bound_covers_the_true_mean_as_often_as_it_says(rho: float, length: int) -> None:
    series = autoregressive(500, length, rho, seed=11)
    below = [lower_bound(row, **{**SETTINGS, "seed": i}).lower < 0.0 for i, row in enumerate(series)]
    # 500 trials of a 95 % bound: 3 standard errors are 2.9 %; blocks of 20 leave rho = 0.5 slightly short.
    assert 0.91 <= np.mean(below) <= 0.985


def test_ignoring_the_dependence_would_cover_less() -> None:
    series = autoregressive(150, 1000, 0.8, seed=5)
    cover = {
        block: np.mean([lower_bound(row, **{**SETTINGS, "block": block}).lower < 0.0 for row in series])
        for block in (1, 40)
    }
    assert cover[1] < 0.80 < 0.89 < cover[40]


def test_a_real_edge_is_found_and_the_bound_lies_under_the_mean() -> None:
    series = autoregressive(1, 4000, 0.2, seed=2)[0] + 0.2
    bound = lower_bound(series, **SETTINGS)
    assert 0.0 < bound.lower < bound.mean
    assert (bound.block_decisions, bound.num_blocks, bound.num_resamples) == (20, 200, 400)


@given(shift=st.floats(-50, 50), scale=st.floats(0.01, 100))
@settings(deadline=None, max_examples=25)
def test_the_bound_moves_and_scales_with_the_series(shift: float, scale: float) -> None:
    series = autoregressive(1, 300, 0.3, seed=4)[0]
    plain = lower_bound(series, **SETTINGS).lower
    assert lower_bound(series * scale + shift, **SETTINGS).lower == pytest.approx(
        plain * scale + shift, abs=1e-6 * (1 + scale + abs(shift))
    )


def test_equal_seeds_give_equal_bits_and_other_seeds_do_not() -> None:
    series = autoregressive(1, 300, 0.3, seed=4)[0]
    assert lower_bound(series, **SETTINGS) == lower_bound(series, **SETTINGS)
    assert lower_bound(series, **SETTINGS).lower != lower_bound(series, **{**SETTINGS, "seed": 2}).lower


def test_what_moves_both_series_cancels_in_the_excess() -> None:
    common, own = autoregressive(2, 1000, 0.5, seed=8)
    agent, baseline = 50 * common + 0.1 * own + 0.1, 50 * common
    assert excess_bound(agent, baseline, **SETTINGS).lower > 0.0 > lower_bound(agent, **SETTINGS).lower
    with pytest.raises(ValueError, match="differ in length"):
        excess_bound(agent, baseline[1:], **SETTINGS)


@pytest.mark.parametrize("length", [0, 1, 20 * (MIN_BLOCKS - 1)])
def test_too_few_blocks_say_nothing(length: int) -> None:
    assert math.isnan(lower_bound(np.ones(length), **SETTINGS).lower)
    assert lower_bound(np.ones(20 * MIN_BLOCKS), **SETTINGS).lower == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_series_that_is_not_finite_has_no_bound(bad: float) -> None:
    series = np.ones(400)
    series[3] = bad
    assert math.isnan(lower_bound(series, **SETTINGS).lower)
