"""What the gate stage finds in the run directory: folds that are absent, undefined or of a dying policy.

The folds are the optimal trader's, which pass; each test changes one thing and puts it right again.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.gate.market import STEADY, Market, gate, judged, metrics
from tests.learn.evaluated import put
from trainer.errors import ExitCode
from trainer.learn.metrics import FoldMetrics
from trainer.learn.replayer import Account
from trainer.learn.run import METRICS_FILE, fold_dir


def test_missing_fold_fails_until_it_is_there(
    planted: Market, winning: list[FoldMetrics], tmp_path: Path
) -> None:
    code, summary = judged(planted.run, tmp_path, winning[:1])
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "fail")
    assert [str(reason) for reason in summary.verdict.reasons] == ["fold 1: missing, it was not evaluated"]
    put(planted.run, tmp_path, winning[1])
    assert gate(tmp_path)[0] == ExitCode.DONE


@pytest.mark.parametrize("name", ["sharpe", "net_ticks", "entropy_mean", "unexplained_ticks"])
def test_nan_metrics_fail_until_they_are_defined(
    planted: Market, winning: list[FoldMetrics], tmp_path: Path, name: str
) -> None:
    judged(planted.run, tmp_path, winning)
    path = fold_dir(tmp_path, 1) / METRICS_FILE
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {name: None}))
    code, summary = gate(tmp_path)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "fail")
    shown = [str(reason) for reason in summary.verdict.reasons]
    assert shown[-1] == f"fold 1: undefined metrics is 1, needs none ({name})"
    also = ["fold 1: P&L in no trade is undefined, needs 0 ticks"] if name == "unexplained_ticks" else []
    assert shown[:-1] == also
    path.write_text(json.dumps(whole))
    assert gate(tmp_path)[0] == ExitCode.DONE


def test_nan_in_the_account_fails_for_every_number_that_it_reaches(
    planted: Market, winner: list[Account], winning: list[FoldMetrics], tmp_path: Path
) -> None:
    decisions = winner[1].decisions
    broken = type(decisions)(**{**vars(decisions), "pnl_ticks": decisions.pnl_ticks.copy()})
    broken.pnl_ticks[700] = np.nan
    folds = [winning[0], metrics(planted.folds[1], 1, winner[1]._replace(decisions=broken))]
    code, summary = judged(planted.run, tmp_path, folds)
    assert code == ExitCode.REJECTED
    names = {reason.name for reason in summary.verdict.reasons}
    bounds = {"net P&L, lower bound", "excess over random, lower bound"}
    assert names == bounds | {"P&L in no trade", "undefined metrics"}
    assert {reason.fold for reason in summary.verdict.reasons} == {1}


STEPS = np.arange(400)
FALLING = {
    "all along": (np.linspace(0.9, 0.4, 400), "entropy falls by"),
    "to nothing": (np.where(STEPS < 300, 0.6, 0.01), "entropy fell to 0.010 of ln(#feasible), under 0.05"),
    "in one step at nine tenths": (np.where(STEPS < 360, 0.6, 0.2), "entropy drops by 67% late in training"),
    "from nine tenths on": (
        np.interp(STEPS, [0, 360, 399], [0.6, 0.6, 0.2]),
        "entropy drops by",
    ),
}


@pytest.mark.parametrize("how", FALLING)
def test_falling_entropy_fails_until_it_is_steady(
    planted: Market, winner: list[Account], winning: list[FoldMetrics], tmp_path: Path, how: str
) -> None:
    series, said = FALLING[how]
    falling = metrics(planted.folds[0], 0, winner[0], series + 0.1 * (STEADY - STEADY.mean()))
    code, summary = judged(planted.run, tmp_path, [falling, winning[1]])
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "fail")
    assert [(reason.fold, reason.name) for reason in summary.verdict.reasons] == [(0, "entropy")]
    assert said in str(summary.verdict.reasons[0])
    put(planted.run, tmp_path, winning[0])
    assert gate(tmp_path)[0] == ExitCode.DONE


def test_entropy_that_fell_before_the_last_half_and_holds_passes(
    planted: Market, winner: list[Account], winning: list[FoldMetrics], tmp_path: Path
) -> None:
    settled = metrics(planted.folds[0], 0, winner[0], np.interp(STEPS, [0, 150, 399], [1.0, 0.5, 0.5]))
    assert judged(planted.run, tmp_path, [settled, winning[1]])[0] == ExitCode.DONE
