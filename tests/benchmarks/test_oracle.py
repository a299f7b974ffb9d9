"""The oracle benchmark prints what the generator's truth allows."""

import json

import pytest

from benchmarks.oracle import main


def test_the_planted_market_pays_the_oracle_and_the_martingale_pays_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--decisions", "20000", "--json"]) == 0
    planted = json.loads(capsys.readouterr().out)
    assert planted["oracle"]["net_ticks_per_decision"] > planted["book only"]["net_ticks_per_decision"] > 1.0
    assert main(["--decisions", "20000", "--market", "martingale", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["oracle"]["num_trades"] == 0


def test_the_table_names_both_traders_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--decisions", "5000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "net ticks/decision" in lines[0]
    assert [line.split("  ")[0] for line in lines[1:]] == ["oracle", "book only"]
