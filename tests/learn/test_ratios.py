"""Ratios and intervals against brute force and published values."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trainer.learn.ratios import (
    deflated_sharpe,
    max_drawdown,
    probabilistic_sharpe,
    profit_factor,
    sharpe,
    sortino,
    wilson_interval,
)

PNL = st.lists(st.integers(-1000, 1000).map(lambda value: value / 4), min_size=2, max_size=40)


@given(PNL)
def test_the_ratios_equal_their_definitions(pnl: list[float]) -> None:
    mean = statistics.fmean(pnl)
    sd = statistics.stdev(pnl)
    downside = math.sqrt(sum(min(value, 0.0) ** 2 for value in pnl) / len(pnl))
    if sd > 0:
        assert sharpe(np.array(pnl)) == pytest.approx(mean / sd)
    if downside > 0:
        assert sortino(np.array(pnl)) == pytest.approx(mean / downside)


@given(PNL)
def test_the_drawdown_is_the_worst_fall_between_any_two_times(pnl: list[float]) -> None:
    equity = [sum(pnl[:i]) for i in range(len(pnl) + 1)]
    worst = max(equity[i] - equity[j] for i in range(len(equity)) for j in range(i, len(equity)))
    assert max_drawdown(np.array(pnl)) == pytest.approx(worst)


def test_an_account_that_only_loses_draws_down_all_it_lost() -> None:
    assert max_drawdown(np.array([-1.0, -2.0])) == 3.0
    assert max_drawdown(np.array([])) == 0.0


@given(PNL)
def test_the_profit_factor_is_wins_over_losses(pnl: list[float]) -> None:
    wins, losses = sum(v for v in pnl if v > 0), -sum(v for v in pnl if v < 0)
    found = profit_factor(np.array(pnl))
    if losses:
        assert found == pytest.approx(wins / losses)
    else:
        assert found == math.inf if wins else math.isnan(found)


def test_edge_cases_are_infinite_or_undefined_never_invented() -> None:
    assert profit_factor(np.array([1.0, 2.0])) == math.inf
    assert math.isnan(profit_factor(np.array([])))
    assert sortino(np.array([1.0, 2.0])) == math.inf
    assert sharpe(np.array([2.0, 2.0])) == math.inf
    assert sharpe(np.array([-2.0, -2.0])) == -math.inf
    assert math.isnan(sharpe(np.array([0.0, 0.0])))
    assert math.isnan(sharpe(np.array([1.0])))
    assert math.isnan(probabilistic_sharpe(np.array([0.0, 0.0])))


def test_psr_equals_the_formula_term_by_term() -> None:
    pnl = np.random.default_rng(0).gamma(2.0, size=60) - 1.8
    ratio, n = pnl.mean() / pnl.std(ddof=1), 60
    g3, g4 = stats.skew(pnl), stats.kurtosis(pnl, fisher=False)
    z = (ratio - 0.05) * math.sqrt(n - 1) / math.sqrt(1 - g3 * ratio + (g4 - 1) / 4 * ratio**2)
    assert probabilistic_sharpe(pnl, 0.05) == pytest.approx(stats.norm.cdf(z))


def test_dsr_is_psr_with_one_trial_and_falls_with_more() -> None:
    pnl = np.random.default_rng(1).standard_normal(100) + 0.2
    found = [deflated_sharpe(pnl, trials) for trials in (1, 2, 10, 1000)]
    assert found[0] == probabilistic_sharpe(pnl)
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_the_deflated_benchmark_is_the_expected_maximum_of_skill_less_trials() -> None:
    # Against simulation: the mean of the best of 50 ratios with sd 0.1.
    best = np.random.default_rng(2).normal(0, 0.1, (4000, 50)).max(axis=1).mean()
    pnl = np.random.default_rng(3).standard_normal(200) + 0.3
    assert deflated_sharpe(pnl, 50, 0.1) == pytest.approx(probabilistic_sharpe(pnl, best), abs=0.01)


@pytest.mark.parametrize(("wins", "trades"), [(0, 5), (5, 5), (7, 20), (567, 1000)])
def test_the_wilson_interval_equals_scipys(wins: int, trades: int) -> None:
    expected = stats.binomtest(wins, trades).proportion_ci(0.95, method="wilson")
    assert wilson_interval(wins, trades) == pytest.approx((expected.low, expected.high))


def test_no_trades_have_no_interval() -> None:
    assert all(math.isnan(bound) for bound in wilson_interval(0, 0))
