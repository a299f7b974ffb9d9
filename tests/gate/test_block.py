"""The block that a series' dependence asks for, against values of another implementation."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from trainer.learn.bootstrap import MIN_BLOCKS, dependence_block

# The circular block of `arch.bootstrap.optimal_block_length` (arch 7) for the series of `drawn`.
REFERENCE = [
    (0, 400, 0.0, 1.9528205714453424),
    (1, 400, 0.5, 9.21308981938695),
    (2, 1000, 0.8, 19.47702582340008),
    (3, 2048, 0.95, 72.84119800406529),
    (4, 4000, 0.9, 61.451078687411176),
    (5, 3000, -0.6, 26.47406876062682),
]


def drawn(seed: int, length: int, rho: float) -> np.ndarray:
    """AR(1) noise."""
    noise = np.random.default_rng(seed).standard_normal(length + 100)
    return np.asarray(lfilter([1.0], [1.0, -rho], noise)[100:])


@pytest.mark.parametrize(("seed", "length", "rho", "expected"), REFERENCE)
def test_the_block_is_that_of_the_reference_rounded_up(
    seed: int, length: int, rho: float, expected: float
) -> None:
    assert dependence_block(drawn(seed, length, rho)) == math.ceil(expected)


def test_the_block_does_not_depend_on_unit_or_level() -> None:
    series = drawn(3, 2048, 0.95)
    assert dependence_block(1e-3 * series + 40.0) == dependence_block(series) == 73


@pytest.mark.parametrize("length", [100, 600, 2048])
def test_enough_blocks_are_always_left(length: int) -> None:
    walk = np.cumsum(np.random.default_rng(0).standard_normal(length))
    assert 1 < dependence_block(walk) <= length // MIN_BLOCKS


@pytest.mark.parametrize(
    "series", [np.zeros(1000), np.empty(0), np.ones(7), np.array([1.0, np.nan] * 500)], ids=str
)
def test_a_series_that_shows_nothing_asks_for_no_block(series: np.ndarray) -> None:
    assert dependence_block(series) == 1
