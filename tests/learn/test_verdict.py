"""What a person and a script read of a verdict."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from trainer.config import GateConfig
from trainer.errors import InputError
from trainer.learn.gate import judge
from trainer.learn.metrics import FoldMetrics
from trainer.learn.verdict import CAVEAT, Summary, read_summary, verdict_line, verdict_table, write_summary

CFG = GateConfig()


@pytest.fixture(scope="module")
def folds(make_fold: Any) -> list[FoldMetrics | None]:
    """A passing fold, one that loses money, and a missing one."""
    generator = np.random.default_rng(0)
    losing = np.where(generator.random(400) < 0.7, 0.1, -2.0)
    return [make_fold(generator.normal(0.9, 1.5, 400)), make_fold(losing), None]


def rendered(folds: list[FoldMetrics | None], width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(verdict_table(judge(folds, CFG), folds))
    return capture.get()


def summary(folds: list[FoldMetrics | None]) -> Summary:
    return Summary(
        run_id="abc-1",
        config_digest="aa",
        data_fingerprint="dd",
        verdict=judge(folds, CFG),
        folds=tuple(folds),
    )


def test_the_table_shows_every_fold_with_marks_and_not_by_colour_alone(
    folds: list[FoldMetrics | None],
) -> None:
    text = rendered(folds[:2])
    rows = [line for line in text.splitlines() if line.startswith("│    0") or line.startswith("│    1")]
    assert rows[0].count("✓") == 6
    assert rows[1].count("✗") >= 1
    assert f"{folds[0].win_rate:.3f} ✓" in rows[0]
    assert "✗ verdict: FAIL, exit code 3" in text
    assert "fold 1: net P&L, lower bound is -" in text


def test_the_table_fits_80_columns(folds: list[FoldMetrics | None]) -> None:
    text = rendered(folds)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text


def test_a_missing_fold_is_shown_as_missing(folds: list[FoldMetrics | None]) -> None:
    text = rendered(folds)
    assert "✗ missing" in text
    assert "✗ fold 2: missing, it was not evaluated" in text


def test_a_pass_has_no_reasons_but_the_caveat(folds: list[FoldMetrics | None]) -> None:
    text = rendered(folds[:1])
    assert "✓ verdict: PASS, exit code 0" in text
    assert "✗" not in text
    assert " ".join(CAVEAT.split()) in " ".join(text.split())


def test_undefined_numbers_are_said_to_be_undefined(make_fold: Any) -> None:
    assert "undefined ✗" in rendered([make_fold([], idle=600)])


def test_costs_and_baselines_stand_beside_the_agents_result(folds: list[FoldMetrics | None]) -> None:
    fold = folds[0]
    assert fold is not None
    text = " ".join(rendered([fold.model_copy(update={"spread_cost_ticks": 41.5})]).split())
    assert f"gross {fold.gross_ticks:+,.1f} (after 41.5 of spread), fees {fold.fee_ticks:,.1f}, net" in text
    columns = [cell.strip() for cell in text.split("Net ticks per decision")[1].split("│")]
    assert [f"{fold.net_ticks_per_decision:+.3f}", "-0.300", "+0.000"] == columns[2:5]
    bounds = fold.baseline_lower_ticks
    assert [f"{bounds['random']:+.3f}", f"{bounds['flat']:+.3f}"] == columns[columns.index("by ≥") + 2 :][:2]


def test_money_that_is_in_no_trade_is_pointed_out(folds: list[FoldMetrics | None]) -> None:
    assert folds[0] is not None
    assert "ticks are in no trade" not in rendered(folds)
    text = rendered([folds[0].model_copy(update={"unexplained_ticks": 3.5})])
    assert "! fold 0: +3.5 ticks are in no trade." in text


@pytest.mark.parametrize("changes", [{}, {"win_rate": 0.4}, {"num_trades": 3}])
def test_the_verdict_line_names_outcome_and_exit_code(
    folds: list[FoldMetrics | None], changes: dict[str, Any]
) -> None:
    assert folds[0] is not None
    verdict = judge([folds[0].model_copy(update=changes)], CFG)
    expected = {"pass": "PASS, exit code 0", "reject": "REJECT, exit code 3"}
    assert expected.get(verdict.outcome, "INCONCLUSIVE, exit code 4") in verdict_line(verdict)


def test_the_summary_round_trips(tmp_path: Path, folds: list[FoldMetrics | None]) -> None:
    assert folds[0] is not None
    odd = folds[0].model_copy(update={"profit_factor": math.inf, "sortino": -math.inf})
    path = tmp_path / "summary.json"
    write_summary(path, summary([odd, None]))
    body = json.loads(path.read_text())
    assert (body["schema_version"], body["verdict"]["outcome"], body["verdict"]["exit_code"]) == (
        1,
        "fail",
        3,
    )
    assert (body["folds"][0]["profit_factor"], body["folds"][0]["sortino"], body["folds"][1]) == (
        "inf",
        "-inf",
        None,
    )
    assert read_summary(path) == summary([odd, None])
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]


def test_a_summary_that_cannot_be_written_or_read_is_one_clear_line(
    tmp_path: Path, folds: list[FoldMetrics | None]
) -> None:
    with pytest.raises(InputError, match="cannot write the summary: No such file"):
        write_summary(tmp_path / "absent" / "summary.json", summary(folds))
    with pytest.raises(InputError, match="cannot read the summary"):
        read_summary(tmp_path / "summary.json")
    (tmp_path / "summary.json").write_text('{"schema_version": 2}')
    with pytest.raises(InputError, match="not a summary: schema_version"):
        read_summary(tmp_path / "summary.json")
