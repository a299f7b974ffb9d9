"""The optimal trader of the planted signal lies inside the gate; on a martingale he stays out."""

import numpy as np
import pytest

from trainer.config import Config
from trainer.data.oracle_trader import (
    OracleTrader,
    book_report,
    decision_path,
    oracle_report,
    simulate,
    solve,
)
from trainer.errors import InputError
from trainer.presets import PRESETS


def market(preset: str, source: str) -> Config:
    return PRESETS[preset]().replaced(market_source=source)


@pytest.mark.parametrize("preset", ["demo", "default"])
def test_the_oracle_of_the_planted_market_wins_and_lies_inside_the_gate(preset: str) -> None:
    report = oracle_report(market(preset, "planted"), 20_000)
    assert 0.60 < report.wr < 0.88
    assert 50.0 < report.hold_percent < 68.0
    assert report.net_ticks_per_decision > 0.8
    assert report.num_trades >= 400 * 20_000 // 4096, "400 trades in a window of 4,096 decisions"


@pytest.mark.parametrize("preset", ["demo", "default"])
def test_the_oracle_of_the_martingale_never_leaves_flat(preset: str) -> None:
    config = market(preset, "martingale")
    report = oracle_report(config, 5000)
    assert (report.num_trades, report.hold_percent, report.net_ticks_per_decision) == (0, 100.0, 0.0)
    assert (solve(config).policy[:, 1] == 1).all()


@pytest.mark.parametrize(("preset", "num_decisions"), [("demo", 12_000), ("default", 5000)])
def test_a_trader_who_sees_only_the_book_earns_most_of_what_the_oracle_earns(
    preset: str, num_decisions: int
) -> None:
    config = market(preset, "planted")
    oracle, book = oracle_report(config, num_decisions), book_report(config, num_decisions)
    assert 0.88 * oracle.net_ticks_per_decision < book.net_ticks_per_decision < oracle.net_ticks_per_decision
    assert book.wr > 0.65
    assert 55.0 < book.hold_percent < 68.0


def test_the_planted_markets_best_trader_loses_his_costs_on_the_martingale() -> None:
    """The same signal, seen as well and traded as often, moves nothing there."""
    trader = solve(market("demo", "planted"))
    report = simulate(trader, *decision_path(market("demo", "martingale"), 20_000, 0))
    cost = trader.cost_ticks * report.trades_per_decision
    assert report.num_trades > 5000
    assert report.net_ticks_per_decision == pytest.approx(-cost, abs=0.1)


def test_no_threshold_trader_beats_the_policy() -> None:
    config = market("demo", "planted")
    trader, best = solve(config), oracle_report(config, 20_000).net_ticks_per_decision
    signal, mids = decision_path(config, 20_000, 0)
    for threshold in (0.2, 0.5, 0.8, 1.2):
        policy = np.repeat(np.where(trader.signal_grid > threshold, 2, 1)[:, None], 3, axis=1)
        policy[trader.signal_grid < -threshold] = 0
        rival = OracleTrader(trader.signal_grid, policy, trader.cost_ticks)
        assert simulate(rival, signal, mids).net_ticks_per_decision < best, threshold


def test_policy_is_symmetric_and_rises_with_the_signal() -> None:
    policy = solve(market("default", "planted")).policy
    np.testing.assert_array_equal(policy, 2 - policy[::-1, ::-1])
    assert (np.diff(policy, axis=0) >= 0).all(), "a higher signal never means a lower position"


def test_account_of_a_hand_made_path() -> None:
    grid = np.array([-1.0, 0.0, 1.0])
    follow = OracleTrader(grid, np.array([[0] * 3, [1] * 3, [2] * 3]), cost_ticks=1.0)
    # long at 10, reversed at 14 (+3), closed at 15 (-2), long again and never closed
    report = simulate(follow, np.array([1.0, 1.0, -1.0, 0.0, 1.0]), np.array([10.0, 12.0, 14.0, 15.0, 15.0]))
    assert (report.num_trades, report.wr, report.hold_percent) == (2, 0.5, pytest.approx(20.0))
    assert report.net_ticks_per_decision == pytest.approx((3.0 - 2.0) / 5)
    assert report.mean_duration_decisions == 1.5


def test_a_config_without_a_synthetic_market_is_refused() -> None:
    with pytest.raises(InputError, match="market_source"):
        solve(Config())
