"""The trader's page from the command line: all pictures, the same figures, and one line for what is wrong."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch

from benchmarks import trader
from benchmarks.picture import as_svg
from benchmarks.trader import main
from benchmarks.trading.choices import after_flat, by_signal, shortfall_by_signal, unexplained
from benchmarks.trading.course import by_hold, mid_after
from benchmarks.trading.figure import equity, pictures
from benchmarks.trading.findings import best_lots
from benchmarks.trading.fold import TradedFold, open_fold
from tests.benchmarks.conftest import act
from trainer.errors import ExitCode
from trainer.learn.account import Decisions, Trades
from trainer.learn.evaluate import no_progress
from trainer.learn.metrics import FoldMetrics

PAGES = ("equity", "prices", "actions", "holding", "profit")


def texts(path: Path) -> list[str]:
    return [str(t.text) for t in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_pictures_and_tables_of_a_planted_run(
    planted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(planted), "--out", str(tmp_path), "--name", "demo"]) == ExitCode.DONE
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"demo-{page}.svg" for page in PAGES)
    shown = capsys.readouterr().out
    decisions = Decisions.read_parquet(planted / "fold0" / "decisions.parquet")
    (line,) = (line for line in shown.splitlines() if line.startswith("| net_per_decision "))
    assert line.split("|")[2].strip() == f"{decisions.pnl_ticks.mean():.3f}"
    assert "stayed where turning paid" in shown
    assert f"agent {decisions.pnl_ticks.sum():+,.0f}" in texts(tmp_path / "demo-equity.svg")
    assert {"signal", "agent", "oracle"} <= set(texts(tmp_path / "demo-prices.svg"))


def test_the_figures_of_a_script_are_those_of_the_metrics(
    martingale: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(martingale), "--json"]) == ExitCode.DONE
    (found,) = json.loads(capsys.readouterr().out)
    metrics = FoldMetrics.model_validate_json((martingale / "fold0" / "metrics.json").read_bytes())
    assert found["random"]["net_per_decision"] == pytest.approx(metrics.baselines["random"])
    assert found["agent"]["net_per_decision"] == pytest.approx(metrics.net_ticks_per_decision)
    assert found["agent"]["trades"] == metrics.num_trades
    assert found["agent"]["hold_percent"] == pytest.approx(metrics.hold_percent)
    assert found["agent"]["max_drawdown"] == pytest.approx(metrics.max_drawdown_ticks)
    assert found["oracle"]["trades"] == 0, "nothing is promised"
    assert found["oracle"]["best_tenth"] is None
    assert found["oracle"]["by_signal"]["1 or more"]["turns"] is None, "JSON has no NaN"


def test_every_figure_of_the_page_is_in_the_json(
    planted: Path, fold: TradedFold, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(planted), "--json"]) == ExitCode.DONE
    (found,) = json.loads(capsys.readouterr().out)
    assert found["best_lots"] == best_lots(fold)
    for name, account in fold.traders.items():
        shown = found[name]
        assert shown["by_signal"] == by_signal(fold, account)
        assert shown["shortfall_by_signal"] == shortfall_by_signal(fold, name)
        assert shown["unexplained"] == unexplained(fold, name)
        assert shown["by_hold"] == by_hold(account)
        assert shown["mid_after"]["exit"]["1"] == mid_after(fold, account)["exit"][1]
    assert found["agent"]["after_flat"] == after_flat(fold.agent)


def test_a_run_that_is_not_all_evaluated_says_which_folds_are_shown(
    copied: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trader, "EVERY_S", 1e9)
    path = copied / "run.json"
    run = json.loads(path.read_bytes())
    run["folds"] += run["folds"]
    path.write_text(json.dumps(run))
    assert main([str(copied), "--json"]) == ExitCode.DONE
    printed = capsys.readouterr()
    assert printed.err == "fold 0 of 2: the others are not evaluated\n"
    assert [fold["fold"] for fold in json.loads(printed.out)] == [0]
    assert main([str(copied), "--json", "--fold", "0"]) == ExitCode.DONE
    assert capsys.readouterr().err == "", "asked for"


def test_files_of_unknown_origin_have_no_oracle_and_the_page_says_so(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(files)]) == ExitCode.DONE
    assert "No optimal trader is known: the data are files." in capsys.readouterr().out
    (axes,) = equity([open_fold(files, 0, no_progress)]).axes
    assert axes.get_xlabel() == "decisions; no optimal trader is known: the data are files"
    assert sorted(text.get_text().split()[0] for text in axes.texts) == ["agent", "random"]


def test_a_trader_who_never_trades_is_drawn(martingale: Path, tmp_path: Path) -> None:
    run_dir = Path(shutil.copytree(martingale, tmp_path / "run"))
    act(run_dir, lambda *_: lambda lanes, *_: (torch.zeros_like(lanes.lots), torch.zeros(len(lanes.lots))))
    drawn = pictures([open_fold(run_dir, 0, no_progress)])
    assert "nan" not in as_svg(drawn["profit"], "profit")
    assert drawn["prices"].axes[0].get_title(loc="left").endswith(" 0 trades")
    assert list(drawn) == list(PAGES)


def test_what_cannot_be_shown_is_one_line(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trader, "EVERY_S", 1e9)

    def refused(code: ExitCode, said: str, *words: str) -> None:
        assert main([*words]) == code
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("error: ")
        assert said in printed.err
        assert printed.err.count("\n") == 1

    run = str(copied)
    refused(ExitCode.BAD_INPUT, "no prepared run here", str(tmp_path / "absent"))
    refused(ExitCode.BAD_INPUT, "there is no fold 3", run, "--fold", "3")
    refused(ExitCode.BAD_INPUT, "choose another --out", run, "--out", str(tmp_path / "absent"))
    directory = copied / "fold0"
    trades = Trades.read_parquet(directory / "trades.parquet")
    Trades(**{**vars(trades), "pnl_ticks": trades.pnl_ticks + 0.01}).write_parquet(
        directory / "trades.parquet"
    )
    refused(ExitCode.MISMATCH, "of the agent's account is in no trade", run)
    decisions = Decisions.read_parquet(directory / "decisions.parquet")
    action = np.where(decisions.action == 1, 2, decisions.action)
    Decisions(**{**vars(decisions), "action": action}).write_parquet(directory / "decisions.parquet")
    refused(ExitCode.MISMATCH, "its actions do not earn its account", run)
    Decisions(**{**vars(decisions), "ts_ns": decisions.ts_ns + 1}).write_parquet(
        directory / "decisions.parquet"
    )
    refused(ExitCode.MISMATCH, "the account is of another window", run)
    (directory / "evaluate.DONE.json").unlink()
    refused(ExitCode.BAD_INPUT, "no fold was evaluated", run)
    refused(ExitCode.BAD_INPUT, "this fold was not evaluated", run, "--fold", "0")
