"""The planted signal is the one of the book, and the oracle and the price of a mistake are what they say."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.trading.fold import ORACLE, TradedFold
from benchmarks.trading.truth import cells, planted_signal, regret_ticks
from tests.benchmarks.conftest import CONFIG
from tests.gate import traders
from tests.gate.market import Fold, hidden_signal, open_fold
from trainer.data.cache import open_cache
from trainer.data.latent import LatentModel
from trainer.data.oracle_trader import OracleTrader, simulate, solve
from trainer.errors import MismatchError
from trainer.learn.run import Run


def test_the_signal_is_the_one_that_the_market_was_written_with(planted: Path) -> None:
    run = Run.load(planted)
    cache = open_cache(run.cache_dir)
    found = planted_signal(run.config, cache)
    assert np.array_equal(found, hidden_signal("trading", run.config))
    other = run.config.replaced(synthetic={"seed": 5})
    with pytest.raises(MismatchError, match="the book is not that of the configured market"):
        planted_signal(other, cache)


def test_the_oracle_is_the_optimal_trader_of_the_gates_tests(planted: Path, fold: TradedFold) -> None:
    run = Run.load(planted)
    window: Fold = open_fold(run, open_cache(run.cache_dir), 0)
    (account,) = window.replay(traders.optimal(window))
    mine = fold.traders[ORACLE]
    assert np.array_equal(account.decisions.pnl_ticks, mine.decisions.pnl_ticks)
    assert np.array_equal(account.decisions.action, mine.decisions.action)
    assert fold.signal is not None
    assert np.array_equal(window.signal[torch.from_numpy(fold.rows)].numpy(), fold.signal)


def test_no_choice_is_better_than_the_policys() -> None:
    """Greedy in its own values: the policy that value iteration found is the optimum."""
    trader = solve(CONFIG)
    regret = regret_ticks(trader, CONFIG)
    assert regret.min() > -1e-9
    own = np.take_along_axis(regret, trader.policy[:, :, None], axis=2)
    assert np.abs(own).max() < 1e-12
    assert regret.max() > 5.0, "the wrong side of a strong signal is dear"


def test_mean_regret_is_what_a_trader_earns_less() -> None:
    """A trader with thresholds of his own on a fresh path, filled a row after each decision."""
    oracle, num = solve(CONFIG), 100_000
    span, model = CONFIG.signal_rows, LatentModel.from_config(CONFIG)
    path = model.path(num * span + 1, np.random.default_rng(3))
    signal, late, fills = path.signal[:-1:span], path.signal[1::span], path.mid_ticks[1::span]
    side = np.where(oracle.signal_grid > 1.2, 2, np.where(oracle.signal_grid < -1.2, 0, 1))
    lazy = OracleTrader(oracle.signal_grid, np.repeat(side[:, None], 3, axis=1), oracle.cost_ticks)
    best, his = (simulate(trader, signal, fills).net_ticks_per_decision for trader in (oracle, lazy))
    cell = cells(oracle, signal)
    wanted = side[cell]
    held = np.concatenate([[1], wanted[:-1]])
    kept = float(signal @ late / (signal @ signal))
    assert 0.9 < kept < 1.0
    lost = regret_ticks(oracle, CONFIG, kept)[cell, held, wanted].mean()
    # A signal over one decision is nearly, not quite, the first-order process that the values are solved for.
    assert lost == pytest.approx(best - his, rel=0.05)
    assert lost > 0.5
