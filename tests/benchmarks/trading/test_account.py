"""Accounts: what opened and closed each trade, and that the money is the same by every way to count it."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from benchmarks.trading.account import Trader
from benchmarks.trading.fold import TradedFold
from trainer.learn.account import Decisions, Trades


def hand_made(tile: Sequence[int] = (0,) * 10) -> Trader:
    """Decisions every 10 ns; orders fill 2 ns later, the third only after the decision that follows it.

    Long from 1 to 3, short until 6 (filled at 71, behind decision 7), long from 8 to the forced end.
    """
    decisions = Decisions(
        ts_ns=np.arange(10) * 10,
        pnl_ticks=[0.0, -1.0, 2.0, -1.0, 1.0, 0.0, 0.0, -0.5, 1.0, 0.5],
        ordered=[0, 1, 0, 1, 0, 0, 1, 0, 1, 0],
        action=[0] * 10, num_feasible=[3] * 10, entropy=[0.5] * 10, in_market=[1] * 10, tile=tile,
    )  # fmt: skip
    trades = Trades(
        entry_ns=[12, 32, 82], exit_ns=[32, 71, 100], side=[1, -1, 1], lots=[1, 1, 1],
        pnl_ticks=[0.0, 0.5, 1.5], fee_ticks=[0.0] * 3, gross_ticks=[0.0, 0.5, 1.5], age=[2, 3, 1],
        forced=[False, False, True], r=[0.0] * 3, entry_ticks=[0.0] * 3, exit_ticks=[0.0] * 3,
    )  # fmt: skip
    return Trader(decisions, trades)


def test_each_trade_is_opened_and_closed_by_the_order_that_was_sent_for_it() -> None:
    trader = hand_made()
    assert trader.entries.tolist() == [1, 3, 8]
    assert trader.exits.tolist() == [3, 6, 10], "a late fill belongs to its order; a forced close has none"
    assert trader.side.tolist() == [0, 1, 1, -1, -1, -1, 0, 0, 1, 1]
    assert trader.held_s.tolist() == pytest.approx([20e-9, 39e-9, 18e-9])


def test_a_tile_begins_flat_whatever_the_one_before_ended_with() -> None:
    assert hand_made().side_before.tolist() == [0, 0, 1, 1, -1, -1, -1, 0, 0, 1]
    assert hand_made((0,) * 5 + (1,) * 5).side_before.tolist() == [0, 0, 1, 1, -1, 0, -1, 0, 0, 1]


def test_money_that_is_in_no_trade_is_seen() -> None:
    trader = hand_made()
    # -1 + 2 - 1 at the reversal is a position: the first moment without one is after decision 7.
    assert trader.unexplained_ticks() == 0.0
    pnl = trader.decisions.pnl_ticks.copy()
    pnl[4] += 0.25
    more = Trader(replace(trader.decisions, pnl_ticks=pnl), trader.trades)
    assert more.unexplained_ticks() == 0.25


def test_equity_is_the_trades_money_to_the_cent(fold: TradedFold) -> None:
    """From the fills alone, in decimals: prices from the recorded book, two fees a trade."""
    value = Decimal(str(fold.instrument.tick_value))
    fee = Decimal(str(fold.instrument.fee_per_lot))
    for trader in fold.traders.values():
        trades, total = trader.trades, Decimal(0)
        assert len(trades) > 20
        assert (trades.lots == 1).all()
        for k in range(len(trades)):
            side = int(trades.side[k])
            bought, sold = (trades.entry_ns[k], trades.exit_ns[k])[::side]
            ask, bid = (
                fold.book[np.searchsorted(fold.ts_ns, time), taken, 0, 0]
                for time, taken in ((bought, 1), (sold, 0))
            )
            total += (int(bid) - int(ask)) * value - 2 * fee
        equity = Decimal(str(round(float(trader.equity_ticks[-1] * fold.instrument.tick_value), 6)))
        assert equity == total


def test_holding_agrees_with_the_replays_own_count(fold: TradedFold) -> None:
    for trader in fold.traders.values():
        kept = ~trader.trades.forced
        assert np.array_equal((trader.exits - trader.entries)[kept], trader.trades.age[kept])
        flat = np.flatnonzero(trader.side == 0)
        assert len(flat)
