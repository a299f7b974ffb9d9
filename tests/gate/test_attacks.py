"""Ways to look profitable without being so, and what stops each of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

from tests.gate.market import CONFIG, STEADY, Fold, Market, judged, metrics, open_window, raised, window
from tests.gate.traders import at_random, holds_long, optimal, takes_profit
from trainer.data.windows import Window
from trainer.errors import ExitCode
from trainer.learn.baselines import random_trader
from trainer.learn.bootstrap import lower_bound
from trainer.learn.entropy import entropy_stability
from trainer.learn.metrics import RANDOM, FoldMetrics, fold_metrics
from trainer.learn.replayer import Account, Policy
from trainer.learn.tiles import Tiles
from trainer.learn.verdict import verdict_table
from trainer.market.lanes import Lanes

NET, EXCESS = "net P&L, lower bound", "excess over random, lower bound"


def test_a_gap_over_night_is_nobodys_profit(martingale: Market) -> None:
    """The last session opens 500 ticks higher, amid a test window: who is always long gets nothing of it."""
    run, cache = martingale.run, martingale.cache
    train, first, last = (window(rows) for rows in (run.folds[0].train, run.folds[0].test, run.folds[1].test))
    test = Window(first.start_row, last.end_row, first.start_ns, last.end_ns)
    opens = int(cache.segments["first_row"][cache.segments["session"] == cache.segments["session"][-1]][0])
    accounts = []
    for prices in (cache, raised(cache, {opens: 500})):
        fold = open_window(run, prices, train, test)
        accounts += fold.replay(holds_long(fold))
    one, two = (account.decisions for account in accounts)
    assert len(np.unique(one.ts_ns // 86_400_000_000_000)) > 1
    np.testing.assert_array_equal(one.pnl_ticks, two.pnl_ticks)


def test_profit_only_by_forced_closes_is_charged_like_any_other(martingale: Market, tmp_path: Path) -> None:
    """Eight-decision tiles, each left by force: many trades, at the prices of the book, and no pass."""
    found = []
    for index, fold in enumerate(martingale.folds):
        short = replace(fold, tiles=cut_every(fold.tiles, fold.tape.next_row.numpy(), 8))
        (account,) = short.replay(holds_long(short))
        trades = account.trades
        assert trades.forced.all()
        gross = trades.side * (trades.exit_ticks - trades.entry_ticks)
        np.testing.assert_allclose(trades.pnl_ticks, gross - 2 * fold.instrument.fee_ticks)
        found.append(metrics(short, index, account))
        assert found[index].forced_close_share == 1.0
    _, summary = judged(martingale.run, tmp_path, found)
    assert all(one.net_lower_ticks < 0 and one.num_trades >= 200 for one in found)
    assert summary.verdict.outcome == "reject"


def cut_every(tiles: Tiles, next_row: np.ndarray, num_decisions: int) -> Tiles:
    """Every tile cut into tiles of so many decisions."""
    starts, limits = [], []
    for start, limit in zip(tiles.start_row.tolist(), tiles.limit_row.tolist(), strict=True):
        rows = [start]
        while rows[-1] < limit:
            rows.append(min(int(next_row[rows[-1]]), limit))
        cuts = rows[:-1:num_decisions]
        starts += cuts
        limits += [*cuts[1:], limit]
    return Tiles(np.array(starts), np.array(limits))


def test_marking_at_a_price_that_a_close_would_not_get_fails(
    planted: Market, winner: list[Account], winning: list[FoldMetrics], tmp_path: Path
) -> None:
    """Equity that never pays the half spread of its closes is not the sum of its trades."""
    spread = 0.5 * len(winner[0].trades)
    lifted = winner[0].decisions.pnl_ticks + spread / len(winner[0].decisions)
    at_mid = winner[0]._replace(decisions=replace(winner[0].decisions, pnl_ticks=lifted))
    code, summary = judged(planted.run, tmp_path, [metrics(planted.folds[0], 0, at_mid), winning[1]])
    assert code == ExitCode.REJECTED
    assert [str(reason) for reason in summary.verdict.reasons] == [
        f"fold 0: P&L in no trade is {spread:.4g}, needs 0 ticks"
    ]


def test_tiles_that_overlap_are_refused(planted: Market) -> None:
    """Decisions that are counted twice would double the evidence."""
    fold = planted.folds[0]
    start, limit = fold.tiles
    twice = replace(fold, tiles=Tiles(np.repeat(start, 2), np.repeat(limit, 2)))
    (account,) = twice.replay(optimal(twice))
    assert len(account.decisions) == 2 * 2048
    with pytest.raises(ValueError, match="time order"):
        fold_metrics(
            0, account.decisions, account.trades, baselines={RANDOM: np.zeros(2 * 2048)},
            training_entropy=entropy_stability(STEADY, fold.config.gate),
            instrument=fold.instrument, cfg=fold.config.evaluate,
        )  # fmt: skip


def test_the_best_of_many_seeds_does_not_pass_on_a_martingale(martingale: Market, tmp_path: Path) -> None:
    """Of 12 random traders of the same turnover, the luckiest on each fold, taken afterwards."""
    best = []
    for index, fold in enumerate(martingale.folds):
        (first,) = fold.replay(at_random(fold))
        policy = random_trader(first.decisions, first.trades, 5, torch.device("cpu"))
        accounts = fold.replay(policy, 12)
        best.append(metrics(fold, index, max(accounts, key=lambda a: a.decisions.pnl_ticks.sum())))
    code, summary = judged(martingale.run, tmp_path, best)
    assert code == ExitCode.REJECTED
    assert all(found.net_lower_ticks < 0 for found in best)
    assert summary.verdict.outcome in ("fail", "reject")


def test_trading_in_one_part_of_the_window_only_earns_no_pass(martingale: Market, tmp_path: Path) -> None:
    """The take-profit trader stops at half time: silence does not turn the bound positive."""

    def half_day(fold: Fold) -> Policy:
        trade, middle = takes_profit(fold, 0.1, 8.0), int(fold.tiles.start_row[len(fold.tiles) // 2])

        def policy(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
            action, entropy = trade(lanes, feasible, step)
            return torch.where(lanes.cursor < middle, action, 0), entropy

        return policy

    folds = martingale.metrics(martingale.replay(half_day))
    assert all(found.hold_percent > 80 and found.win_rate > 0.5 for found in folds)
    code, summary = judged(martingale.run, tmp_path, folds)
    assert code != ExitCode.DONE
    assert all(found.net_lower_ticks < 0 for found in summary.folds if found is not None)


def test_a_market_that_rises_in_every_window_is_seen_beside_always_long(
    martingale: Market, tmp_path: Path
) -> None:
    """The gate's one blind spot here: a long-only trader without skill passes where prices rise fast enough.

    0.8 ticks a decision, 1,600 in a test window. The baseline of holding long says what it is worth.
    """
    rise = np.floor(np.arange(martingale.cache.num_rows) * 0.8 / CONFIG.data.decision_rows).astype(np.int32)
    prices = {name: getattr(martingale.cache, name) + rise[:, None] for name in ("bid_px", "ask_px")}
    rising = martingale.changed(replace(martingale.cache, **prices))
    folds = rising.metrics(rising.replay(lambda fold: takes_profit(fold, 0.1, 8.0)))
    assert judged(rising.run, tmp_path, folds)[0] == ExitCode.DONE
    for found in folds:
        assert found.baselines["always_long"] > 2 * found.net_ticks_per_decision
        assert found.baseline_lower_ticks["always_long"] < 0


def test_dependence_longer_than_the_block_lengthens_the_block(
    planted: Market, winner: list[Account], winning: list[FoldMetrics], tmp_path: Path
) -> None:
    """A profit that comes in few long waves looks sure to blocks of 50 decisions, and is not."""
    decisions = winner[0].decisions
    wave = 0.35 * np.sin(2 * np.pi * np.arange(len(decisions)) / 683) + 0.06
    noise = np.random.default_rng(3).normal(0.0, 0.3, len(decisions))
    waved = replace(decisions, pnl_ticks=wave + noise)
    short = lower_bound(waved.pnl_ticks, block=50, num_resamples=500, confidence=0.95, seed=0)
    found = metrics(planted.folds[0], 0, winner[0]._replace(decisions=waved))
    assert winning[0].bootstrap_block_decisions == 50
    assert found.bootstrap_block_decisions > 100
    assert found.net_lower_ticks < 0 < short.lower
    code, summary = judged(planted.run, tmp_path, [found, winning[1]])
    assert code == ExitCode.REJECTED
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(verdict_table(summary.verdict, summary.folds))
    longest = found.bootstrap_block_decisions
    assert f"block bootstrap over 50 to {longest} decisions" in " ".join(capture.get().split())
