"""Events become records in the order of a venue: the crossed book, the trades, then the row."""

import numpy as np
import pytest

from trainer.data.dbn import LAST, UNDEF_PRICE
from trainer.data.mbp import TICK_NANOS, Recorder, book_rows, crossed_records
from trainer.data.orderflow import Events, Orders, Quotes, Trades
from trainer.data.queues import ASK, BID, SLOTS


def event(
    ask_ticks: int,
    best_ask_lots: int,
    trades: list[tuple[bool, int, int, bool]],
    change: tuple[int, int] = (3, 1),
) -> Events:
    """One row, bid 99, of queues of 20 lots in 5 orders, with `trades` (buyer, ticks, lots, sweep)."""
    lots = np.full((2, 1, SLOTS), 20)
    lots[ASK, 0, 0] = best_ask_lots
    columns = [np.array(column) for column in zip(*trades, strict=True)] or [np.zeros(0, np.int64)] * 4
    buyer, ticks, taken, sweep = columns
    return Events(
        quotes=Quotes(np.array([[99], [ask_ticks]])),
        lots=lots,
        orders=np.full((2, 1, SLOTS), 5),
        last=Orders(*(np.array([value]) for value in (ASK, ask_ticks, 0, *change))),
        trades=Trades(np.zeros(len(buyer), np.int64), buyer.astype(bool), ticks, taken, sweep.astype(bool)),
    )


def recorded(*events: Events, seed: int = 0) -> list[np.ndarray]:
    recorder = Recorder(np.random.default_rng(seed))
    return [recorder.records(one, np.array([1000 * (index + 1)])) for index, one in enumerate(events)]


def test_a_trade_that_begins_a_block_shows_the_book_of_the_block_before() -> None:
    first, second = recorded(event(100, 20, []), event(100, 13, [(True, 100, 7, False)]))
    trade, row = second
    assert (trade["action"], row["action"]) == (b"T", b"A")
    np.testing.assert_array_equal(trade["levels"], first[0]["levels"])
    assert row["levels"]["ask_sz"][0] == 13
    assert (trade["price"], trade["size"]) == (100 * TICK_NANOS, 7)
    assert trade["ts_recv"] == row["ts_recv"] == 2000


def test_a_sweep_may_show_its_order_crossed_before_the_trades() -> None:
    sweep = event(102, 20, [(True, 100, 20, True), (True, 101, 20, True)])
    torn, *trades, row = next(
        found for seed in range(20) if len(found := recorded(event(100, 20, []), sweep, seed=seed)[1]) == 4
    )
    assert [trade["price"] for trade in trades] == [100 * TICK_NANOS, 101 * TICK_NANOS]
    assert (torn["action"], torn["side"], torn["flags"] & LAST) == (b"A", b"B", 0)
    levels = torn["levels"]
    assert levels["bid_px"][0] == levels["ask_px"][1] == torn["price"], "reaches over the queue that it takes"
    assert levels["bid_px"][1] == 99 * TICK_NANOS, "its own side moves down one level"
    assert row["levels"]["ask_px"][0] == 102 * TICK_NANOS
    assert row["flags"] & LAST


@pytest.mark.parametrize(
    ("change", "action", "size"),
    [((3, 1), b"A", 3), ((-4, -2), b"C", 4), ((-4, 0), b"M", 4), ((2, -1), b"M", 2), ((0, 0), b"M", 1)],
)
def test_the_action_follows_lots_and_orders(change: tuple[int, int], action: bytes, size: int) -> None:
    [row] = book_rows(event(100, 20, [], change))
    assert (row["action"], row["size"], row["side"]) == (action, size, b"A")


def test_an_empty_tick_is_no_level_and_a_side_without_ten_misses_some() -> None:
    one = event(100, 20, [])
    one.lots[ASK, 0, 2] = one.orders[ASK, 0, 2] = 0
    levels = book_rows(one)["levels"][0]
    assert (levels["ask_px"] // TICK_NANOS).tolist() == [100, 101, *range(103, 111)]
    one.lots[ASK, 0, 3:6] = one.orders[ASK, 0, 3:6] = 0
    levels = book_rows(one)["levels"][0]
    assert (levels["ask_px"][:8] // TICK_NANOS).tolist() == [100, 101, *range(106, 112)]
    assert (levels["ask_px"][8:] == UNDEF_PRICE).all()
    assert levels["ask_sz"][8:].tolist() == levels["ask_ct"][8:].tolist() == [0, 0]
    assert (levels["bid_px"] // TICK_NANOS).tolist() == list(range(99, 89, -1))


def test_auction_books_are_crossed_and_stamps_go_on() -> None:
    [rows] = recorded(event(100, 20, []))
    recorder = Recorder(np.random.default_rng(0))
    crossed = recorder.stamped(crossed_records(rows, np.array([10_000_000, 20_000_000])))
    best = crossed["levels"][:, 0]
    assert (best["bid_px"] > best["ask_px"]).all()
    assert crossed["ts_recv"].tolist() == [10_000_000, 20_000_000]
    assert recorder.stamped(rows)["sequence"].tolist() == [3]
    assert (crossed["ts_event"] < crossed["ts_recv"]).all()
    assert rows["side"][0] == b"A"
    assert BID == 0
