"""Entropy stability: noise and rises pass, a falling or dead policy does not."""

import numpy as np
import pytest

from trainer.config import GateConfig
from trainer.learn.entropy import block_means, entropy_stability

CFG = GateConfig()
NOISE = np.random.default_rng(0).normal(0, 0.02, 2000)


def test_a_steady_noisy_policy_is_stable() -> None:
    found = entropy_stability(0.5 + NOISE, CFG)
    assert found.stable
    assert found.reason == ""
    assert found.mean == pytest.approx(0.5, abs=0.01)
    assert found.minimum == pytest.approx(0.5, abs=0.02)
    assert abs(found.relative_fall) < 0.05


def test_a_rising_policy_is_stable() -> None:
    found = entropy_stability(np.linspace(0.3, 0.9, 2000) + NOISE, CFG)
    assert found.stable
    assert found.relative_fall < 0


def test_a_fall_over_the_last_half_is_unstable() -> None:
    found = entropy_stability(np.linspace(1.0, 0.3, 2000) + NOISE, CFG)
    assert not found.stable
    # The half falls from .65 to .30; between the middles of its 20 blocks by 19/20 of that, over a mean of
    # .475.
    assert found.relative_fall == pytest.approx(0.35 * 0.95 / 0.475, rel=0.05)
    assert found.reason == f"entropy falls by {found.relative_fall:.0%} over the last half, more than 20%"


def test_a_fall_in_the_first_half_does_not_count() -> None:
    series = np.concatenate([np.linspace(1.0, 0.4, 1000), np.full(1000, 0.4)])
    assert entropy_stability(series, CFG).stable


def test_a_significant_but_small_fall_is_stable() -> None:
    found = entropy_stability(np.concatenate([np.ones(1000), np.linspace(0.5, 0.45, 1000)]), CFG)
    assert found.stable
    assert 0.05 < found.relative_fall < 0.2


def test_a_large_fall_that_is_no_trend_is_stable() -> None:
    # Saw teeth: the median slope is small, and Kendall's tau does not see a trend.
    series = np.tile(np.repeat([0.2, 0.8], 50), 20)
    assert entropy_stability(series, CFG).stable


def test_a_policy_without_entropy_is_unstable() -> None:
    found = entropy_stability(np.full(2000, 0.04), CFG)
    assert not found.stable
    assert found.reason == "entropy fell to 0.040 of ln(#feasible), under 0.05"
    assert not entropy_stability(np.zeros(2000), CFG).stable


def test_one_dead_block_is_enough() -> None:
    series = np.full(2000, 0.5)
    series[1500:1550] = 0.0
    assert not entropy_stability(series, CFG).stable


@pytest.mark.parametrize("series", [[], [0.5], [0.5, 0.5], [0.5] * 50 + [np.nan] * 50])
def test_missing_or_undefined_entropy_is_unstable(series: list[float]) -> None:
    found = entropy_stability(np.array(series), CFG)
    assert not found.stable
    assert "missing or not finite" in found.reason


def test_block_means_cover_every_value_once() -> None:
    assert block_means(np.arange(40.0)).tolist() == [2 * i + 0.5 for i in range(20)]
    assert block_means(np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
