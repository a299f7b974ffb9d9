"""Holding times are grouped as by hand, and the mid around orders is that of the book."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.trading.course import AROUND, HOLD_NAMES, by_hold, mid_after, mid_around
from benchmarks.trading.fold import TradedFold
from tests.benchmarks.trading.test_account import hand_made


def test_trades_are_grouped_by_the_decisions_held() -> None:
    # Held for 2, 3 and 2 decisions; 0, 0.5 and 1.5 ticks over 10 decisions.
    found = by_hold(hand_made())
    assert tuple(found) == HOLD_NAMES == ("1", "2", "3", "4-5", "6-8", "9-16", "17+")
    assert found["2"] == pytest.approx({"share": 2 / 3, "net_per_decision": 0.15})
    assert found["3"] == pytest.approx({"share": 1 / 3, "net_per_decision": 0.05})
    assert sum(group["share"] for group in found.values()) == pytest.approx(1.0)


def test_the_mid_around_orders_is_that_of_the_book_in_the_trades_favour(fold: TradedFold) -> None:
    trader, rows = fold.agent, fold.rows
    moves = []
    for sent, side in zip(trader.entries.tolist(), trader.trades.side.tolist(), strict=True):
        if sent < 6 or sent + 8 >= len(rows):
            continue
        first, last = rows[sent - 6], rows[sent + 8]
        if fold.segment_start[first] == fold.segment_start[last]:
            (bid, ask), (bid_2, ask_2) = fold.book[[rows[sent], rows[sent + 2]], :, 0, 0].tolist()
            moves.append(side * (bid_2 + ask_2 - bid - ask) / 2)
    assert len(moves) > 10
    assert mid_after(fold, trader)["entry"][2] == pytest.approx(sum(moves) / len(moves))
    around = mid_around(fold, trader, trader.entries)
    assert around[AROUND == 0] == 0.0
    assert mid_after(fold, trader)["exit"][1] != mid_after(fold, trader)["entry"][1]


def test_orders_near_the_end_of_a_segment_are_left_out(fold: TradedFold) -> None:
    every_row = replace(fold, segment_start=np.arange(len(fold.segment_start)))
    assert np.isnan(mid_around(every_row, fold.agent, fold.agent.entries)).all()
