"""Every change of the book is an event: what trades take is gone, what nothing touches stays."""

import numpy as np
import pytest

from trainer.config import Config
from trainer.data import orderflow
from trainer.data.latent import MEAN_SPREAD_TICKS, LatentModel, LatentPath
from trainer.data.orderflow import Events, OrderFlow, Quotes, quotes_around
from trainer.data.queues import ASK, BID, SLOTS
from trainer.presets import PRESETS

ROWS = 24_000  # several blocks
AWAY = np.array([-1, 1])


def joined(blocks: list[Events]) -> Events:
    """Blocks as one, the rows of trades counted from the first block on."""
    starts = np.cumsum([0, *(len(block.last.side) for block in blocks[:-1])])
    trades = {
        name: np.concatenate([getattr(block.trades, name) for block in blocks])
        for name in ("buyer", "ticks", "lots", "sweep")
    }
    row = np.concatenate([block.trades.row + start for block, start in zip(blocks, starts, strict=True)])
    last = {
        name: np.concatenate([getattr(block.last, name) for block in blocks]) for name in vars(blocks[0].last)
    }
    return Events(
        quotes=Quotes(np.concatenate([block.quotes.ticks for block in blocks], axis=1)),
        lots=np.concatenate([block.lots for block in blocks], axis=1),
        orders=np.concatenate([block.orders for block in blocks], axis=1),
        last=orderflow.Orders(**last),
        trades=orderflow.Trades(row=row, **trades),
    )


def market(config: Config, seed: int = 0) -> tuple[LatentPath, Events]:
    path = LatentModel.from_config(config).path(ROWS, np.random.default_rng(seed), 20_000.0)
    rng = np.random.default_rng([seed, 1])
    quotes = quotes_around(path.mid_ticks, rng)
    events = joined(list(OrderFlow(config.data.decision_rows, rng).run(path.signal, quotes)))
    np.testing.assert_array_equal(events.quotes.ticks, quotes.ticks)
    return path, events


@pytest.fixture(scope="module", params=["demo", "default"])
def events(request: pytest.FixtureRequest) -> Events:
    return market(PRESETS[request.param]().replaced(market_source="planted"))[1]


def lots_at(events: Events, side: np.ndarray, row: np.ndarray, ticks: np.ndarray) -> np.ndarray:
    """Lots at prices `[m]` of rows `[m]`, 0 where the price is better than the best or out of reach."""
    slot = (ticks - events.quotes.ticks[side, row]) * AWAY[side]
    inside = (slot >= 0) & (slot < SLOTS)
    return np.where(inside, events.lots[side, row, slot.clip(0, SLOTS - 1)], 0)


def test_a_trade_inside_a_queue_takes_its_lots_and_leaves_the_price(events: Events) -> None:
    trades = events.trades
    at = np.flatnonzero(~trades.sweep)
    row, side = trades.row[at], np.where(trades.buyer[at], ASK, BID)
    before, after = (lots_at(events, side, row - back, trades.ticks[at]) for back in (1, 0))
    assert len(at) > 500
    np.testing.assert_array_equal(trades.ticks[at], events.quotes.ticks[side, row - 1])
    np.testing.assert_array_equal(before - after, trades.lots[at])
    assert (after > 0).all()


def test_a_sweep_takes_whole_queues_and_their_prices_are_gone(events: Events) -> None:
    trades = events.trades
    at = np.flatnonzero(trades.sweep)
    row, side = trades.row[at], np.where(trades.buyer[at], ASK, BID)
    assert len(at) > 200
    np.testing.assert_array_equal(lots_at(events, side, row - 1, trades.ticks[at]), trades.lots[at])
    best = events.quotes.ticks[side, row] * AWAY[side]
    assert (best > trades.ticks[at] * AWAY[side]).all()
    keys = np.stack([row, side, trades.ticks[at]])
    assert len(np.unique(keys, axis=1).T) == len(at), "no queue is taken twice"


def test_queues_that_no_order_touches_keep_lots_and_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """With touches and trades switched off, only prices that come into reach may show other lots."""
    untouched = orderflow.draw_touches

    def none(signal: np.ndarray, *rest: object) -> object:
        touches = untouched(signal, *rest)
        return type(touches)(*(column[:0] for column in vars(touches).values()))

    monkeypatch.setattr(orderflow, "draw_touches", none)
    monkeypatch.setattr(orderflow, "draw_trades", lambda signal, rng: np.zeros(len(signal), np.int64))
    _, events = market(PRESETS["demo"]().replaced(market_source="planted"))
    grid = np.arange(SLOTS)
    for side in (BID, ASK):
        best = events.quotes.ticks[side]
        earlier = grid + ((best[1:] - best[:-1]) * AWAY[side])[:, None]
        known = (earlier >= 0) & (earlier < SLOTS)
        # A tick at which nothing rested may become the best price only by a new order.
        known[:, 0] &= (
            np.take_along_axis(events.lots[side, :-1], earlier.clip(0, SLOTS - 1), axis=1)[:, 0] > 0
        )
        for column in (events.lots[side], events.orders[side]):
            before = np.take_along_axis(column[:-1], earlier.clip(0, SLOTS - 1), axis=1)
            np.testing.assert_array_equal(column[1:][known], before[known])
        assert known.mean() > 0.8


def test_the_order_at_the_end_of_an_event_is_the_change_of_its_queue(events: Events) -> None:
    last, row = events.last, np.arange(1, ROWS)
    after = lots_at(events, last.side[1:], row, last.ticks[1:])
    before = lots_at(events, last.side[1:], row - 1, last.ticks[1:])
    np.testing.assert_array_equal(last.lots_change[1:], after - before)
    moved = (np.diff(events.quotes.ticks, axis=1) != 0).any(axis=0)
    assert (last.lots_change[1:][moved] != 0).all(), "a quote moves by an order, never by itself"
    assert (last.lots_change[1:] == 0).mean() < 0.02, "re-quotes of the same size are rare"


def test_a_quote_moves_where_its_best_queue_is_gone_or_an_order_enters_before_it(events: Events) -> None:
    for side in (BID, ASK):
        best = events.quotes.ticks[side]
        row = np.flatnonzero(np.diff(best)) + 1
        worse = (best[row] - best[row - 1]) * AWAY[side] > 0
        sides = np.full(len(row), side)
        assert (lots_at(events, sides, row, best[row - 1])[worse] == 0).all()
        assert (lots_at(events, sides, row - 1, best[row])[~worse] == 0).all()
    assert (events.lots[:, :, 0] > 0).all()


def test_lots_and_orders_do_not_drift_over_a_session(events: Events) -> None:
    third = ROWS // 3
    for column in (events.lots, events.orders):
        logs = np.log1p(column)
        early, late = logs[:, 200:third].mean(axis=1), logs[:, -third:].mean(axis=1)
        np.testing.assert_allclose(early, late, atol=0.12)
        np.testing.assert_allclose(early[BID], early[ASK], atol=0.12)
    assert (events.lots >= events.orders).all()
    empty = (events.lots == 0).mean(axis=(0, 1))
    assert empty[0] == 0
    assert 0.005 < empty[1:].min() <= empty[1:].max() < 0.05


def test_the_quote_is_unbiased_and_its_spread_one_or_two_ticks() -> None:
    mid = np.random.default_rng(0).normal(0.0, 0.4, 200_000).cumsum()
    quotes = quotes_around(mid, np.random.default_rng(1))
    spread = quotes.ticks[ASK] - quotes.ticks[BID]
    assert set(np.unique(spread)) == {1, 2}
    assert spread.mean() == pytest.approx(MEAN_SPREAD_TICKS, abs=0.01)
    error = quotes.mid_ticks - mid
    assert np.abs(error).max() <= 0.5
    assert abs(error.mean()) < 0.005


def test_aggressors_lean_with_the_signal() -> None:
    path, events = market(PRESETS["default"]().replaced(market_source="martingale"))
    inside = ~events.trades.sweep
    signal, buyer = path.signal[events.trades.row[inside]], events.trades.buyer[inside]
    assert buyer[signal > 0.5].mean() > 0.65 > 0.35 > buyer[signal < -0.5].mean()
