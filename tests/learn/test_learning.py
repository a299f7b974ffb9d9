"""Does it learn? A planted signal is found and earns out of sample; no signal, no sure profit."""

import io
from pathlib import Path

import pytest

from trainer.config import Config
from trainer.learn.evaluate import UNTRAINED, evaluate
from trainer.learn.loop import train
from trainer.learn.metrics import RANDOM, FoldMetrics
from trainer.learn.prepare import prepare


def learnt(config: Config, market: str, root: Path) -> FoldMetrics:
    """One fold: 250 steps on one session, judged on the next."""
    chosen = config.replaced(
        market_source=market,  # type: ignore[arg-type]
        synthetic={"rows_per_session": 4096, "sessions": 2},
        data={"folds": 1},
        learn={"n_backtests": 64, "per_capacity": 1024, "batch_size": 128, "learning_rate": 2e-3},
        run={"n_steps": 250, "checkpoint_every": 0},
    )
    run = prepare(chosen, root / market, root / "cache", lambda what, done, total: None)
    train(run, root / market, 0, io.StringIO())
    metrics = evaluate(run, root / market, 0)
    assert metrics is not None
    return metrics


def test_a_planted_signal_earns_out_of_sample_more_than_chance_and_than_no_training(
    tiny_config: Config, tmp_path: Path
) -> None:
    found = learnt(tiny_config, "planted", tmp_path)
    net, others = found.net_ticks_per_decision, found.baselines
    assert found.num_trades >= 40
    assert net > 0.1, f"{net=:+.3f} ticks a decision after all costs; {others}"
    assert net > others[RANDOM] + 0.3, others
    assert net > others[UNTRAINED] + 0.3, others
    assert found.net_lower_ticks > 0
    assert found.excess_lower_ticks > 0
    assert found.win_rate > 0.5


def test_a_martingale_shows_no_profit_that_is_sure(tiny_config: Config, tmp_path: Path) -> None:
    found = learnt(tiny_config, "martingale", tmp_path)
    assert not found.net_lower_ticks > 0, f"a profit where there is none: {found.net_ticks_per_decision:+.3f}"
    # What can be learnt is that trading costs: less is lost than without training.
    assert found.net_ticks_per_decision > found.baselines[UNTRAINED]


@pytest.mark.parametrize("market", ["planted", "martingale"])
def test_both_markets_cost_a_careless_trader_money(tiny_config: Config, tmp_path: Path, market: str) -> None:
    """The bar above is not trivially low: random trading as often as every few decisions loses."""
    config = tiny_config.replaced(run={"n_steps": 1})
    run = prepare(
        config.replaced(market_source=market),  # type: ignore[arg-type]
        tmp_path / market,
        tmp_path / "cache",
        lambda what, done, total: None,
    )
    train(run, tmp_path / market, 0, io.StringIO())
    found = evaluate(run, tmp_path / market, 0)
    assert found is not None
    assert found.baselines[UNTRAINED] < -0.1
    assert found.baselines["momentum"] < -0.1
