"""The quick set's targets: met by an agent that learnt, and each missed one is said with its figures."""

from typing import Any

import pytest

from benchmarks.learning import targets
from benchmarks.learning.targets import missed, quick_set
from tests.benchmarks.learning.conftest import MakeResult, metrics
from trainer.learn.gate import Verdict

GOOD = 0.95  # ticks a decision; the made-up optimal trader earns 1.25


def test_the_set_is_small_and_holds_both_markets() -> None:
    found = quick_set("cpu")
    assert [e.name for e in found] == ["demo-planted-s0", "demo-planted-s1", "demo-martingale-s0"]
    assert {(e.config.data.folds, e.config.synthetic.sessions, e.folds) for e in found} == {(1, 2, 1)}
    assert {e.config.run.n_steps for e in found} == {targets.STEPS}
    assert {e.config.learn.n_backtests for e in found} == {64}


def test_an_agent_that_learnt_misses_nothing(make_result: MakeResult) -> None:
    quiet = metrics(-0.01, trades=20, wins=8, period=40)
    assert missed([make_result(GOOD), make_result(-0.01, market="martingale", metrics=quiet)]) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"net_ticks_per_decision": 0.5}, "fold 0 earns 0.40 of the optimal trader's, less than 0.7"),
        ({"net_lower_ticks": -0.01}, "fold 0 has a lower bound of -0.010 ticks/decision, not over 0"),
        ({"win_rate": 0.55}, "fold 0 wins 0.550 of its trades, not over 0.55"),
        ({"win_rate": float("nan")}, "fold 0 wins nan of its trades, not over 0.55"),
        ({"hold_percent": 12.0}, "fold 0 holds 12.0 %, not 30 to 70"),
        ({"hold_percent": 91.0}, "fold 0 holds 91.0 %, not 30 to 70"),
    ],
)
def test_each_target_of_the_planted_market(
    make_result: MakeResult, change: dict[str, Any], said: str
) -> None:
    changed = metrics(GOOD).model_copy(update=change)
    verdict = make_result(GOOD).verdict
    assert missed([make_result(GOOD, seed=1, metrics=changed, verdict=verdict)]) == [
        f"demo-planted-s1: {said}"
    ]


def test_a_planted_market_that_the_gate_does_not_pass(make_result: MakeResult) -> None:
    failed = Verdict(outcome="fail", exit_code=3, reasons=(), folds=())  # type: ignore[arg-type]
    assert missed([make_result(GOOD, verdict=failed)]) == ["demo-planted-s0: the gate says fail, not pass"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"net_ticks_per_decision": -0.5}, "fold 0 earns -0.500 ticks/decision, less than -0.05"),
        ({"net_lower_ticks": 0.2}, "fold 0 shows a sure profit of +0.200 ticks/decision or more"),
        ({"num_trades": 400}, "fold 0 trades at 50% of decisions, over 10%"),
    ],
)
def test_each_target_of_the_martingale(make_result: MakeResult, change: dict[str, Any], said: str) -> None:
    quiet = metrics(-0.01, trades=20, wins=8, period=40).model_copy(update=change)
    result = make_result(-0.01, market="martingale", metrics=quiet)
    assert missed([result]) == [f"demo-martingale-s0: {said}"]


def test_a_gate_that_passes_a_martingale_is_a_miss(make_result: MakeResult) -> None:
    quiet = metrics(-0.01, trades=20, wins=8, period=40)
    passed = make_result(GOOD).verdict
    assert passed.outcome == "pass"
    result = make_result(-0.01, market="martingale", metrics=quiet, verdict=passed)
    assert missed([result]) == ["demo-martingale-s0: the gate passes a market without a signal"]
