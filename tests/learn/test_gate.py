"""The gate: traders that must and must not pass, each judged for the right reason."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import GateConfig
from trainer.errors import ExitCode
from trainer.learn.entropy import entropy_stability
from trainer.learn.gate import Verdict, judge
from trainer.learn.metrics import FoldMetrics

CFG = GateConfig()
NET, EXCESS = "net P&L, lower bound", "excess over random, lower bound"


def good_pnl(count: int = 400, seed: int = 0) -> np.ndarray:
    """Net ticks of a trader with an edge: 0.9 a trade, win rate about .73."""
    return np.random.default_rng(seed).normal(0.9, 1.5, count)


def names(verdict: Verdict) -> set[str]:
    return {reason.name for reason in verdict.reasons}


@pytest.fixture(scope="module")
def good(make_fold: Any) -> FoldMetrics:
    return make_fold(good_pnl())


def test_a_good_trader_passes(make_fold: Any) -> None:
    folds = [make_fold(good_pnl(seed=seed)) for seed in range(3)]
    verdict = judge(folds, CFG)
    assert verdict.outcome == "pass", [str(reason) for reason in verdict.reasons]
    assert verdict.exit_code is ExitCode.DONE
    assert verdict.reasons == ()
    assert all(criterion.passed for row in verdict.folds for criterion in row)


def test_never_trading_is_inconclusive(make_fold: Any, good: FoldMetrics) -> None:
    verdict = judge([good, make_fold([], idle=2000)], CFG)
    assert (verdict.outcome, verdict.exit_code) == ("inconclusive", ExitCode.INCONCLUSIVE)
    assert [str(reason) for reason in verdict.reasons] == ["fold 1: trades is 0, needs >= 200"]


def test_199_trades_are_inconclusive_and_200_are_judged(make_fold: Any, good: FoldMetrics) -> None:
    verdict = judge([make_fold(good_pnl(199)), good], CFG)
    assert verdict.outcome == "inconclusive"
    assert [(reason.fold, reason.name, reason.value) for reason in verdict.reasons] == [(0, "trades", 199)]
    assert judge([make_fold(good_pnl(200)), good], CFG).outcome == "pass"


def test_one_lucky_trade_fails_for_the_bound_of_net_profit(make_fold: Any, good: FoldMetrics) -> None:
    pnl = np.tile([0.2, 0.2, 0.2, -0.5], 100)
    pnl[217] = 500.0
    lucky = make_fold(pnl)
    assert lucky.net_ticks > 400
    assert lucky.win_rate > CFG.pass_win_rate
    verdict = judge([good, lucky], CFG)
    assert verdict.outcome == "fail"
    assert verdict.exit_code is ExitCode.REJECTED
    assert NET in names(verdict)
    assert {reason.fold for reason in verdict.reasons} == {1}


def test_a_win_rate_of_49_percent_is_rejected_although_it_earns(make_fold: Any, good: FoldMetrics) -> None:
    order = np.random.default_rng(0).permutation(400)
    pnl = np.where(np.arange(400) < 196, 4.0, -1.0)[order]
    fold = make_fold(pnl)
    assert fold.win_rate == 0.49
    assert fold.net_lower_ticks > 0
    verdict = judge([good, fold], CFG)
    assert (verdict.outcome, verdict.exit_code) == ("reject", ExitCode.REJECTED)
    assert [str(reason) for reason in verdict.reasons] == [
        "fold 1: win rate is 0.49, needs >= 0.5 not to be rejected"
    ]


def take_profit_trades(count: int, seed: int) -> tuple[np.ndarray, float]:
    """Net ticks of longs on a martingale, closed at +0.1 or -8 net of a round trip of 1.2; mean age."""
    generator, pnl, age = np.random.default_rng(seed), [], 0
    for _ in range(count):
        value = -1.2
        while True:
            value += generator.normal(0.0, 1.5)
            age += 1
            if value >= 0.1 or value <= -8.0:
                break
        pnl.append(value)
    return np.array(pnl), age / count


def test_small_profits_and_large_stops_on_a_martingale_fail_for_money(make_fold: Any) -> None:
    folds = []
    for seed in range(3):
        pnl, age = take_profit_trades(400, seed)
        random = np.random.default_rng(seed).normal(-1.2 / 6, 0.3, 400 * 6)
        folds.append(make_fold(pnl, period=6, random=random))
        assert 3 < age < 15
        assert 0.68 < folds[-1].win_rate < 0.84
        assert folds[-1].net_ticks < 0
    verdict = judge(folds, CFG)
    assert verdict.outcome == "fail"
    assert names(verdict) == {NET, EXCESS}
    assert {reason.fold for reason in verdict.reasons if reason.name == NET} == {0, 1, 2}


def test_a_missing_fold_fails_before_anything_else(make_fold: Any, good: FoldMetrics) -> None:
    verdict = judge([good, None, make_fold([], idle=2000)], CFG)
    assert (verdict.outcome, verdict.exit_code) == ("fail", ExitCode.REJECTED)
    assert [str(reason) for reason in verdict.reasons] == ["fold 1: missing, it was not evaluated"]
    assert len(verdict.folds) == 3


def test_no_folds_at_all_fail() -> None:
    verdict = judge([], CFG)
    assert verdict.outcome == "fail"
    assert names(verdict) == {"present"}


def test_too_few_trades_come_before_a_losing_win_rate(make_fold: Any) -> None:
    losing = np.where(np.arange(300) % 3 == 0, 1.0, -1.0)
    assert judge([make_fold(good_pnl(50)), make_fold(losing)], CFG).outcome == "inconclusive"
    assert judge([make_fold(good_pnl()), make_fold(losing)], CFG).outcome == "reject"


def test_falling_entropy_fails_and_says_why(make_fold: Any, good: FoldMetrics) -> None:
    falling = entropy_stability(np.linspace(1.0, 0.2, 1000), CFG)
    verdict = judge([good, make_fold(good_pnl(), training_entropy=falling)], CFG)
    assert verdict.outcome == "fail"
    assert names(verdict) == {"entropy"}
    assert "entropy falls by" in str(verdict.reasons[0])


def test_profit_that_random_trading_makes_too_fails_for_the_excess(make_fold: Any, good: FoldMetrics) -> None:
    pnl = good_pnl()
    verdict = judge([good, make_fold(pnl, random=float(pnl.mean()) / 4)], CFG)
    assert verdict.outcome == "fail"
    assert names(verdict) == {EXCESS}


@pytest.mark.parametrize(
    "name", ["win_rate", "hold_percent", "net_lower_ticks", "excess_lower_ticks", "sharpe"]
)
def test_an_undefined_metric_fails(good: FoldMetrics, name: str) -> None:
    verdict = judge([good.model_copy(update={name: math.nan}), good], CFG)
    assert verdict.outcome == "fail"
    undefined = [reason for reason in verdict.reasons if reason.name == "undefined metrics"]
    assert [(reason.fold, reason.detail) for reason in undefined] == [(0, name)]


def test_an_undefined_profit_of_the_account_fails(make_fold: Any, good: FoldMetrics) -> None:
    pnl = good_pnl()
    pnl[7] = math.nan
    verdict = judge([good, make_fold(pnl)], CFG)
    assert verdict.outcome == "fail"
    assert {NET, EXCESS, "undefined metrics"} <= names(verdict)


@pytest.mark.parametrize(
    ("name", "value", "outcome"),
    [
        ("win_rate", 0.50, "fail"),
        ("win_rate", 0.55, "fail"),
        ("win_rate", 0.5501, "pass"),
        ("hold_percent", 29.9, "fail"),
        ("hold_percent", 30.0, "pass"),
        ("hold_percent", 70.0, "pass"),
        ("hold_percent", 70.1, "fail"),
        ("net_lower_ticks", 0.0, "fail"),
        ("excess_lower_ticks", 0.0, "fail"),
    ],
)
def test_the_thresholds_are_where_they_are_stated(
    good: FoldMetrics, name: str, value: float, outcome: str
) -> None:
    assert judge([good, good.model_copy(update={name: value})], CFG).outcome == outcome


FOLD = st.none() | st.fixed_dictionaries(
    {
        "num_trades": st.sampled_from([0, 199, 200, 5000]),
        "win_rate": st.sampled_from([0.49, 0.5, 0.55, 0.56, math.nan]),
        "hold_percent": st.sampled_from([10.0, 30.0, 50.0, 70.5]),
        "net_lower_ticks": st.sampled_from([-0.1, 0.2]),
        "excess_lower_ticks": st.sampled_from([0.0, 0.2, math.nan]),
    }
)


@settings(deadline=None, max_examples=150)
@given(changes=st.lists(FOLD, min_size=1, max_size=4))
def test_the_order_of_the_rules_holds_for_any_folds(good: FoldMetrics, changes: list[Any]) -> None:
    verdict = judge([None if c is None else good.model_copy(update=c) for c in changes], CFG)
    if None in changes:
        expected = "fail"
    elif any(c["num_trades"] < 200 for c in changes):
        expected = "inconclusive"
    elif any(c["win_rate"] < 0.5 for c in changes):
        expected = "reject"
    elif all(
        c["win_rate"] > 0.55
        and 30 <= c["hold_percent"] <= 70
        and c["net_lower_ticks"] > 0
        and c["excess_lower_ticks"] > 0
        for c in changes
    ):
        expected = "pass"
    else:
        expected = "fail"
    assert verdict.outcome == expected
    assert (verdict.reasons == ()) == (expected == "pass")
    assert Verdict.model_validate_json(verdict.model_dump_json()).outcome == expected
