"""Queues follow a scalar replay order by order, and hold lots and orders that could exist."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.queues import (
    ARRIVALS,
    ASK,
    BID,
    LOG_LOTS,
    ORDER_BITS,
    ORDER_MASK,
    SLOTS,
    TOUCHED_SLOTS,
    Touches,
    draw_entering,
    draw_queues,
    draw_touches,
    draw_trades,
    play,
)

DECISION_ROWS = 8


class Queue(NamedTuple):
    """The oracle's form of a queue."""

    lots: int
    orders: int


def unpacked(packed: int) -> Queue:
    return Queue(packed >> ORDER_BITS, packed & ORDER_MASK)


def drawn(seed: int, num_rows: int, largest_move: int) -> tuple:
    """Everything `play` needs, drawn as the generator draws it, around a random quote."""
    rng = np.random.default_rng(seed)
    away = rng.integers(-largest_move, largest_move + 1, (2, num_rows)) * (rng.random((2, num_rows)) < 0.5)
    signal = rng.standard_normal(num_rows)
    wanted = draw_trades(signal, rng) + 9 * (rng.random(num_rows) < 0.2)
    wanted[away[np.where(wanted > 0, ASK, BID), np.arange(num_rows)] != 0] = 0
    touches = draw_touches(signal, DECISION_ROWS, wanted, rng)
    entering = tuple(draw_entering(away[side], signal, rng) for side in (BID, ASK))
    queues = tuple(draw_queues(np.arange(SLOTS), np.zeros(SLOTS), rng).tolist() for _ in range(2))
    return queues, away, entering, touches, wanted


def touched(queue: Queue, limit: float, lots: int) -> Queue:
    """A small order in words: a short queue is joined, a long one left, and its last order stays."""
    if queue.lots < limit or queue.lots <= 1:
        return Queue(queue.lots + lots, queue.orders + 1)
    if queue.orders == 1:
        return Queue(max(queue.lots - lots, 1), 1)
    orders = queue.orders - 1
    return Queue(max(queue.lots - lots, orders), orders)


def replayed(queues, away, entering, touches: Touches, wanted) -> tuple[np.ndarray, np.ndarray]:
    """The same rows in a book keyed by absolute price, one order at a time."""
    best, books, traded = [0, 0], [], []
    for side in (BID, ASK):
        books.append({slot: unpacked(packed) for slot, packed in enumerate(queues[side])})
    coming, shown = [list(side) for side in entering], []
    for row in range(len(wanted)):
        for side in (BID, ASK):
            move = int(away[side, row])
            if not move:
                continue
            old = set(range(best[side], best[side] + SLOTS))
            best[side] += move
            reach = range(best[side], best[side] + SLOTS)
            books[side] = {price: queue for price, queue in books[side].items() if price in reach}
            for price in reach:
                if price not in old:
                    books[side][price] = unpacked(coming[side].pop(0))
            spare = unpacked(coming[side].pop(0))
            if not books[side][best[side]].lots:
                books[side][best[side]] = spare
        for index in np.flatnonzero(touches.row == row):
            side, price = touches.side[index], best[touches.side[index]] + touches.slot[index]
            value = int(touches.value[index])
            order = float(touches.limit_lots[index]), int(touches.small_lots[index])
            books[side][price] = unpacked(value) if value >= 0 else touched(books[side][price], *order)
        taken = 0
        if wanted[row]:
            side = ASK if wanted[row] > 0 else BID
            queue = books[side][best[side]]
            taken = min(abs(int(wanted[row])), queue.lots - 1)
            left = queue.lots - taken
            books[side][best[side]] = Queue(left, int(np.ceil(queue.orders * left / queue.lots)))
        traded.append(taken if wanted[row] > 0 else -taken)
        shown.append([[books[side][best[side] + slot] for slot in range(SLOTS)] for side in (BID, ASK)])
    return np.array(shown).transpose(1, 0, 2, 3), np.array(traded)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), largest_move=st.sampled_from([0, 1, 3, 20]))
def test_queues_equal_a_scalar_replay_keyed_by_price(seed: int, largest_move: int) -> None:
    queues, away, entering, touches, wanted = drawn(seed, 40, largest_move)
    expected, taken = replayed(queues, away, entering, touches, wanted)
    packed, traded = play(queues, away, entering, touches, wanted)
    np.testing.assert_array_equal(packed >> ORDER_BITS, expected[..., 0])
    np.testing.assert_array_equal(packed & ORDER_MASK, expected[..., 1])
    np.testing.assert_array_equal(traded, taken)
    lots, orders = packed >> ORDER_BITS, packed & ORDER_MASK
    assert (lots >= orders).all(), "an order has a lot at least"
    assert ((lots > 0) == (orders > 0)).all()
    assert (lots[:, :, 0] > 0).all(), "the best price is a price at which orders rest"


def test_a_queue_is_touched_once_a_row_and_never_where_a_trade_takes_from_it() -> None:
    rng = np.random.default_rng(0)
    wanted = np.where(rng.random(20_000) < 0.5, 3, -3) * (rng.random(20_000) < 0.3)
    touches = draw_touches(np.zeros(20_000), DECISION_ROWS, wanted, rng)
    keys = (touches.row * 2 + touches.side) * SLOTS + touches.slot
    assert len(np.unique(keys)) == len(keys)
    taken_from = np.where(wanted > 0, ASK, BID)[touches.row]
    assert not ((wanted[touches.row] != 0) & (touches.side == taken_from) & (touches.slot == 0)).any()
    assert (np.diff(touches.row) >= 0).all()
    assert set(np.unique(touches.row)) >= set(np.flatnonzero(wanted == 0)), "no row without an event"


def test_orders_are_rarer_the_further_they_are_from_the_best_price() -> None:
    touches = draw_touches(np.zeros(50_000), 32, np.zeros(50_000, np.int64), np.random.default_rng(1))
    by_slot = np.bincount(touches.slot[touches.value < 0], minlength=SLOTS)
    assert (np.diff(by_slot[:TOUCHED_SLOTS]) < 0).all()
    assert by_slot[1] / 100_000 == pytest.approx(ARRIVALS[1], rel=0.05), "per row and side"


def test_a_bid_queue_grows_with_the_signal_and_an_ask_queue_shrinks() -> None:
    rng, slot = np.random.default_rng(2), np.zeros(20_000, np.int64)
    low, usual, high = (
        draw_queues(slot, np.full(20_000, lean), rng) >> ORDER_BITS for lean in (-1.0, 0, 1.0)
    )
    assert np.median(low) < np.median(usual) < np.median(high)
    assert np.median(usual) == pytest.approx(np.exp(LOG_LOTS[0]), rel=0.05)


def test_long_queues_are_left_and_short_ones_joined_more_often() -> None:
    """From far above or below, small orders alone bring a queue back to what is usual."""
    rng, num_rows = np.random.default_rng(3), 4000
    still = np.zeros((2, num_rows), np.int64)
    touches = draw_touches(np.zeros(num_rows), 10**9, np.zeros(num_rows, np.int64), rng)
    assert (touches.value < 0).all(), "re-quotes are switched off"
    for lots in (2, 400):
        queues = tuple([(lots << ORDER_BITS) + 2] * SLOTS for _ in range(2))
        packed, _ = play(queues, still, ([], []), touches, still[0])
        late = (packed >> ORDER_BITS)[:, num_rows // 2 :, 0].mean()
        assert late == pytest.approx(np.exp(LOG_LOTS[0]), rel=0.35), lots
