"""The figures add up, and are those of a plain count."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trading.choices import by_signal, shortfall, shortfall_by_signal, unexplained
from benchmarks.trading.findings import best_lots, best_tenth, capacity, findings
from benchmarks.trading.fold import AGENT, ORACLE, TradedFold, open_fold
from trainer.learn.evaluate import no_progress
from trainer.types import Action


@pytest.mark.parametrize("name", [AGENT, ORACLE])
def test_what_is_earned_is_promised_or_luck_less_costs(fold: TradedFold, name: str) -> None:
    found = findings(fold, name)
    per_decision = found.trades / len(fold.rows)
    gained = found.promised_per_decision - found.before_fill_per_decision + found.luck_per_decision
    assert found.mid_per_trade * per_decision == pytest.approx(gained)
    assert abs(found.luck_per_decision) < 0.3, "noise of 1.2 ticks a decision over 256 of them"
    paid = (found.spread_per_trade + found.fee_per_trade) * per_decision
    assert found.net_per_decision == pytest.approx(gained - paid)
    assert found.fee_per_trade == pytest.approx(2 * fold.instrument.fee_ticks)
    assert found.mid_per_trade - found.spread_per_trade - found.fee_per_trade == pytest.approx(
        found.net_per_trade
    )


def test_the_oracle_makes_no_mistake_and_a_random_trader_many(fold: TradedFold) -> None:
    oracle, agent = findings(fold, ORACLE), findings(fold, AGENT)
    assert oracle.on_time == 1.0
    assert oracle.signal_at_entry > 0.5 > abs(agent.signal_at_entry)
    assert math.isnan(oracle.by_stop)
    lost = {name: sum(cost for _, cost in shortfall(fold, name).values()) for name in fold.traders}
    # Tiles end: there the oracle is forced flat, and cannot enter in the last decisions.
    assert lost[ORACLE] < 0.05 < 0.5 < lost[AGENT]


def test_counts_are_those_of_a_loop(fold: TradedFold) -> None:
    found, trader = findings(fold, AGENT), fold.agent
    trades, came_back = trader.trades, 0
    turned: dict[int, list[bool]] = {-1: [], 1: []}
    for k in range(len(trades) - 1):
        gap = trader.entries[k + 1] - trader.exits[k]
        came_back += gap <= 2 and trades.side[k + 1] == trades.side[k]
    for k in range(len(trades)):
        by_order = not trades.forced[k] and trader.decisions.action[trader.exits[k]] == Action.REVERSE
        turned[int(trades.side[k])].append(by_order)
    assert found.flat == sum(side == 0 for side in trader.side) / len(trader.side)
    peak = fallen = 0.0
    for equity in trader.equity_ticks:
        peak, fallen = max(peak, equity), max(fallen, peak - equity)
    assert found.max_drawdown == pytest.approx(fallen)
    assert found.came_back == came_back / (len(trades) - 1)
    assert found.long_by_reversal == sum(turned[1]) / len(turned[1])
    assert found.short_by_reversal == sum(turned[-1]) / len(turned[-1])
    assert found.long_share == sum(side > 0 for side in trades.side) / len(trades)


def test_more_lots_pay_what_a_walk_through_the_book_costs(fold: TradedFold) -> None:
    trader, found = fold.agent, capacity(fold, fold.agent)
    kept = ~trader.trades.forced
    assert found[1] * len(fold.rows) == pytest.approx(trader.trades.pnl_ticks[kept].sum())
    lots, total = 50, 0.0
    for trade in np.flatnonzero(kept):
        side = int(trader.trades.side[trade])
        total += lots * trader.trades.pnl_ticks[trade]
        for sent, direction in ((trader.entries[trade], side), (trader.exits[trade], -side)):
            prices, sizes = fold.book[fold.fill_rows[sent], int(direction > 0)].tolist()
            left = lots
            for price, size in zip(prices, sizes, strict=True):
                taken = min(left, size)
                total -= taken * direction * (price - prices[0])
                left -= taken
            total -= left * (direction * (prices[-1] - prices[0]) + 1)
    assert found[lots] * len(fold.rows) == pytest.approx(total)
    assert found[lots] < lots * found[1]


def test_the_best_tenth_is_counted_in_whole_trades() -> None:
    assert best_tenth(np.array([1.0] * 18 + [5.0, 7.0])) == 12 / 30
    assert best_tenth(np.array([3.0, -1.0])) == 3 / 2, "one trade at least"
    assert math.isnan(best_tenth(np.array([3.0, -3.0])))
    assert math.isnan(best_tenth(np.zeros(0)))


def test_the_lots_at_the_best_price_are_those_of_the_rows_that_fill(fold: TradedFold) -> None:
    book = fold.book.copy()
    book[..., 1, :] = 1000
    book[fold.fill_rows, 1, 1, 0] = 7
    assert best_lots(replace(fold, book=book)) == 7.0


def test_stops_are_those_of_the_replay(fold: TradedFold) -> None:
    """The coin obeys no stops, so that what a stop would have ordered is seen beside what it did."""
    held = fold.agent.side_before
    assert fold.stopped.any()
    assert (held[fold.stopped] != 0).all(), "a flat lane has none"


def test_without_the_truth_what_needs_it_is_undefined(files: Path) -> None:
    fold = open_fold(files, 0, no_progress)
    assert list(fold.traders) == [AGENT]
    found = findings(fold, AGENT)
    assert math.isnan(found.signal_at_entry)
    assert math.isnan(found.luck_per_decision)
    assert found.net_per_decision == pytest.approx(fold.agent.decisions.pnl_ticks.mean())
    assert shortfall(fold, AGENT) == shortfall_by_signal(fold, AGENT) == unexplained(fold, AGENT) == {}
    assert by_signal(fold, fold.agent) == {}
