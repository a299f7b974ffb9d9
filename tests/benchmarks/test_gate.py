"""The gate benchmark: its accounts are exact, its figures are those of the code that judges runs."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gate import main
from benchmarks.gate_bound import coverage
from benchmarks.gate_paths import (
    COSTS,
    Costs,
    Paths,
    Size,
    account,
    best_trader,
    coin,
    draw_paths,
    market,
    random_pnl,
    take_profit,
    trade,
)
from trainer.data.latent import LatentModel
from trainer.data.oracle_trader import simulate, solve
from trainer.errors import ExitCode
from trainer.presets import demo

CONFIG = demo()


def test_account_of_a_hand_made_path() -> None:
    sides = iter([1, 1, -1, 0, 1])
    paths = Paths(np.zeros((1, 5)), np.array([[10.0, 12.0, 14.0, 15.0, 15.0, 18.0]]))
    costs = Costs(spread=1.0, fee=0.25)
    seen: list[float] = []

    def trader(signal: np.ndarray, side: np.ndarray, net: np.ndarray) -> np.ndarray:
        seen.append(float(net[0]))
        return np.array([next(sides)])

    book = trade(paths, trader, costs)
    # Long at 10 for two decisions, reversed at 14, closed at 15, long again at 15 and closed by force at 18.
    assert book.pnl[0].tolist() == [2 - 1.25, 2.0, -1 - 1.25 - 0.25, -0.25, 3 - 1.25 - 0.25]
    assert seen == [0.0, 0.5, 2.5, -2.5, 0.0], "what a close would have got, both fees paid"
    decisions, trades = account(paths, book, 0, costs)
    assert trades.pnl_ticks.tolist() == [4 - 1.5, -1 - 1.5, 3 - 1.5]
    assert trades.forced.tolist() == [False, False, True]
    assert trades.age.tolist() == [2, 1, 1]
    assert decisions.pnl_ticks.sum() == trades.pnl_ticks.sum()
    assert decisions.ordered.tolist() == [True, False, True, True, True]
    assert decisions.in_market.tolist() == [True] * 5


def test_accounts_agree_with_the_oracles_own_simulation() -> None:
    paths, trader = draw_paths(CONFIG, 2, 3000, 5), solve(CONFIG)
    book = trade(paths, best_trader(CONFIG), COSTS)
    for path in range(2):
        report = simulate(trader, paths.signal[path], paths.fills[path, :-1])
        _, trades = account(paths, book, path, COSTS)
        closed = ~trades.forced
        assert closed.sum() == report.num_trades
        assert trades.pnl_ticks[closed].sum() / 3000 == pytest.approx(report.net_ticks_per_decision)
        assert (trades.pnl_ticks[closed] > 0).mean() == pytest.approx(report.wr)


@pytest.mark.parametrize("name", ["take-profit", "coin"])
def test_every_traders_money_is_conserved(name: str) -> None:
    rng = np.random.default_rng(0)
    trader = take_profit(0.1, 8.0, rng) if name == "take-profit" else coin(0.5, 0.3, rng)
    paths = draw_paths(market(CONFIG, 0.0), 3, 500, 1)
    book = trade(paths, trader, COSTS)
    for path in range(3):
        decisions, trades = account(paths, book, path, COSTS)
        assert len(trades) > 20
        assert trades.pnl_ticks.sum() == pytest.approx(decisions.pnl_ticks.sum())


def test_random_traders_pay_for_their_turnover_and_earn_nothing() -> None:
    """On a price that stands still: round trips times their cost, at the rates asked for."""
    still = Paths(np.zeros((2, 4000)), np.zeros((2, 4001)))
    enter, leave = np.array([0.2, 0.5]), np.array([0.5, 0.25])
    pnl = random_pnl(still, enter, leave, Costs(1.0, 0.25), 64, np.random.default_rng(0))
    rate = enter * leave / (enter + leave)
    np.testing.assert_allclose(-pnl.mean(axis=1), 1.5 * rate, rtol=0.02)


def test_the_market_keeps_its_volatility_whatever_the_alpha() -> None:
    whole = LatentModel.from_config(market(CONFIG, 1.0))
    assert tuple(vars(whole).values()) == pytest.approx(tuple(vars(LatentModel.from_config(CONFIG)).values()))
    for strength in (0.0, 0.3, 0.9):
        model = LatentModel.from_config(market(CONFIG, strength))
        assert model.drift_sd_ticks == pytest.approx(strength * whole.drift_sd_ticks)
        total = np.hypot(model.drift_sd_ticks, model.noise_sd_ticks)
        assert total == pytest.approx(np.hypot(whole.drift_sd_ticks, whole.noise_sd_ticks))
    strong = LatentModel.from_config(market(CONFIG, 1.5))
    assert strong.noise_sd_ticks == pytest.approx(whole.noise_sd_ticks)


def test_coverage_is_nominal_for_independent_series_and_falls_where_the_block_is_short() -> None:
    size = Size(1, 1, 120, 1, 2048, (1.0,), 0)
    independent = coverage(CONFIG, size, 0, 2048).by_block
    assert 0.89 < independent["50"] <= 1.0
    dependent = coverage(CONFIG, size, 50, 2048).by_block
    assert dependent["1"] < 0.75 < dependent["gate"]


def test_quick_tables_figure_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gate.svg"
    assert main(["--quick", "--json", "--svg", str(path)]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    by_name = {row["trader"]: row for row in found["power"] + found["false_passes"]}
    assert [by_name[f"alpha x {s}"]["passed"] for s in ("0", "1")] == [0, 6]
    for row in found["false_passes"]:
        assert row["passed"] == 0, row["trader"]
    fine = by_name["take-profit 0.1, stop 8"]
    assert fine["runs_win"] == 1.0, "it has the win rate, and fails for money"
    assert fine["win_rate"] > 0.65
    assert fine["fold_earns"] == 0.0
    held = {row["trader"]: row for row in found["dependence"]}["coin held 100 decisions, martingale"]
    assert held["mean_holding"] > 50 > held["block"][0], "holding long is not dependence"
    texts = [str(text.text) for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
    assert "passes, with 95 % interval" in texts
    dependences = {f"forgets over {row['tau']} decisions" for row in found["coverage"] if row["tau"]}
    assert len(dependences) > 2
    assert {"independent", *dependences} <= set(texts)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runs", "0"], "--runs, --folds: fewer than 1; give at least 1"),
        (["--svg", "absent/a.svg"], "absent: no such directory; choose another --svg file"),
        (["--decisions", "100"], "--decisions: 100 decisions have no bound; give at least 600"),
    ],
)
def test_bad_options_are_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == f"{said}\n"
