"""Choices are counted by position and signal as by hand, and their cost is all of the shortfall."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.trading.account import Trader
from benchmarks.trading.choices import (
    after_flat,
    block_error,
    by_signal,
    shortfall,
    shortfall_by_signal,
    unexplained,
)
from benchmarks.trading.fold import AGENT, ORACLE, TradedFold
from benchmarks.trading.truth import cells, regret_ticks
from trainer.learn.account import Decisions, Trades


def wants(side: list[int], tile: list[int]) -> Trader:
    """A trader of those sides: decisions every 10 ns fill 1 ns later; a position at a tile's end is closed
    just before the next decision."""
    ends = [k + 1 == len(tile) or tile[k + 1] != tile[k] for k in range(len(tile))]
    spans: list[list[int]] = []  # first decision, one behind the last, side, forced
    for k, (held, wanted) in enumerate(zip([0, *side], side, strict=False)):
        if wanted and (k == 0 or ends[k - 1] or wanted != held):
            spans.append([k, k + 1, wanted, ends[k]])
        elif wanted:
            spans[-1][1::2] = k + 1, ends[k]
    first, last, sides, forced = np.array(spans).T
    num, ordered = len(spans), np.zeros(len(side) + 1, bool)
    ordered[first] = ordered[last[forced == 0]] = True
    length = dict.fromkeys(("num_feasible", "entropy", "pnl_ticks", "action", "in_market"), [0] * len(side))
    fills = {"entry_ns": 10 * first + 1, "exit_ns": 10 * last + 1 - 2 * forced}
    empty = ("pnl_ticks", "fee_ticks", "gross_ticks", "age", "r", "entry_ticks", "exit_ticks")
    return Trader(
        Decisions(ts_ns=np.arange(len(side)) * 10, ordered=ordered[:-1], tile=tile, **length),
        Trades(**fills, side=sides, lots=[1] * num, forced=forced, **dict.fromkeys(empty, [0] * num)),
    )


def test_the_hand_made_sides_are_the_traders() -> None:
    side, tile = [1, 0, -1, 1, 1, 1, 0, -1], [0] * 4 + [1] * 4
    trader = wants(side, tile)
    assert trader.side.tolist() == side
    assert trader.side_before.tolist() == [0, 1, 0, -1, 0, 1, 1, 0]
    assert trader.trades.forced.tolist() == [False, False, True, False, True]


def test_choices_are_counted_by_the_signal_against_the_position(fold: TradedFold) -> None:
    # Held before each decision: 0, +1, +1, -1, -1, 0, +1, +1.
    trader = wants([1, 1, -1, -1, 0, 1, 1, 0], [0] * 8)
    signal = np.array([9.0, 0.1, -0.25, 0.6, -0.2, 3.0, -0.3, -0.3])
    table = by_signal(replace(fold, signal=signal), trader)
    assert table["for the position"] == {"decisions": 2, "stays": 0.5, "goes_flat": 0.5, "turns": 0.0}
    assert table["0.25 to 0.5"] == pytest.approx(
        {"decisions": 3, "stays": 1 / 3, "goes_flat": 1 / 3, "turns": 1 / 3}
    )
    assert table["0.5 to 1"] == {"decisions": 1, "stays": 1.0, "goes_flat": 0.0, "turns": 0.0}
    assert table["0 to 0.25"]["decisions"] == table["1 or more"]["decisions"] == 0
    assert math.isnan(table["0 to 0.25"]["stays"])


def test_after_a_flat_the_next_decision_of_its_tile_counts() -> None:
    # Flat at 1 (then back), 3 (then the other side), 5 (stays flat), 9 (the last of its tile).
    trader = wants([1, 0, 1, 0, -1, 0, 0, 1, 1, 0], [0] * 10)
    assert after_flat(trader) == pytest.approx({"same_side": 1 / 3, "other_side": 1 / 3, "flat": 1 / 3})
    cut = wants([1, 0, 1, 0, -1, 0, 0, 1, 1, 0], [0] * 4 + [1] * 6)
    assert after_flat(cut) == {"same_side": 0.5, "other_side": 0.0, "flat": 0.5}


def test_kinds_of_mistakes_are_disjoint_and_are_all(fold: TradedFold) -> None:
    trader, kinds = fold.agent, shortfall(fold, AGENT)
    assert fold.oracle is not None
    assert fold.signal is not None
    held = trader.side_before
    best = fold.oracle.act(fold.signal)[np.arange(len(held)), held + 1] - 1
    assert sum(share for share, _ in kinds.values()) == pytest.approx((trader.side != best).mean())


def test_the_cost_by_signal_is_that_of_a_loop_and_of_all_kinds(fold: TradedFold) -> None:
    found, trader = shortfall_by_signal(fold, AGENT), fold.agent
    assert sum(found.values()) == pytest.approx(sum(cost for _, cost in shortfall(fold, AGENT).values()))
    assert fold.oracle is not None
    assert fold.signal is not None
    assert fold.fill_signal is not None
    kept = float(fold.signal @ fold.fill_signal / (fold.signal @ fold.signal))
    cost, cell = regret_ticks(fold.oracle, fold.config, kept), cells(fold.oracle, fold.signal)
    small = 0.0
    for k, signal in enumerate(fold.signal.tolist()):
        if 0.25 <= abs(signal) < 0.5:
            small += cost[cell[k], trader.side_before[k] + 1, trader.side[k] + 1]
    assert found["0.25 to 0.5"] == pytest.approx(small / len(trader.side))


def test_what_choices_leave_unexplained_is_chance(fold: TradedFold) -> None:
    found = unexplained(fold, AGENT)
    agent, oracle = (fold.traders[name].decisions.pnl_ticks.mean() for name in (AGENT, ORACLE))
    assert found["behind"] == pytest.approx(oracle - agent)
    cost = sum(cost for _, cost in shortfall(fold, AGENT).values())
    assert found["rest"] == pytest.approx(found["behind"] - cost)
    assert abs(found["rest"]) < 3 * found["rest_se"] < found["behind"]


def test_the_error_of_a_mean_is_that_of_whole_blocks() -> None:
    values = np.array([1.0, 1.0, 3.0, 3.0, 5.0, 5.0, 99.0])
    assert block_error(values, 2) == pytest.approx(2.0 / math.sqrt(3)), (
        "means 1, 3 and 5; the rest is cut off"
    )
    assert math.isnan(block_error(values[:3], 2))
