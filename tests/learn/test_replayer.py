"""Replaying a policy over tiles: accounts add up, and no tile or trader moves another."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.learn.accounts import same_account
from tests.market.recorded import Recorded, random_market, steady
from trainer.learn import replayer
from trainer.learn.random import Stream, uniform
from trainer.learn.replayer import Account, Policy, replay_policy
from trainer.learn.tiles import Tiles
from trainer.market.lanes import Lanes
from trainer.types import Action


def scripted(actions: Sequence[Action]) -> Policy:
    """The same action for all lanes, decision by decision; Hold where it is not feasible."""

    def policy(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        wanted = int(actions[int(step)]) if step < len(actions) else int(Action.HOLD)
        action = torch.where(feasible[:, wanted], wanted, int(Action.HOLD))
        return action, torch.zeros(len(feasible))

    return policy


def by_row(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """Any feasible action, drawn by the cursor's row alone."""
    draws = uniform(torch.tensor(5), torch.tensor(0), Stream.ACTION, (10_000, feasible.shape[1]))
    score = draws[lanes.cursor].masked_fill(~feasible, -1.0)
    return score.argmax(1), score.amax(1)


def run(
    market: Recorded, policy: Policy, bounds: Sequence[tuple[int, int]], traders: int = 1, **options: bool
) -> list[Account]:
    tiles = Tiles(np.array([b[0] for b in bounds]), np.array([b[1] for b in bounds]))
    config = market.config.replaced(evaluate={"tile_decisions": 1000})
    return replay_policy(market.tape, tiles, policy, config, market.instrument, traders, **options)


def test_a_scripted_round_trip_is_one_trade_at_the_fills_of_the_book() -> None:
    # Bid 1000 ask 1001 until the mid rises by 3 between rows 3 and 4; a fee of 0.25 ticks a lot and side.
    market = steady(12, moves=[0, 0, 0, 0, 3])
    actions = [Action.OPEN_LONG, *[Action.HOLD] * 4, Action.FLAT_FROM_LONG]
    (account,) = run(market, scripted(actions), [(0, 10)])
    decisions, trades, defects = account
    assert defects == {}
    assert len(trades) == 1
    assert (trades.entry_ticks[0], trades.exit_ticks[0]) == (1001, 1003)
    assert (trades.side[0], trades.lots[0], trades.forced[0]) == (1, 1, False)
    assert trades.gross_ticks[0] == pytest.approx(2)
    assert trades.fee_ticks[0] == pytest.approx(0.5)
    assert trades.pnl_ticks[0] == pytest.approx(1.5)
    assert trades.spread_ticks is not None
    assert trades.spread_ticks[0] == pytest.approx(1)
    assert decisions.pnl_ticks.sum() == pytest.approx(1.5)
    assert decisions.ordered.tolist() == [True, *[False] * 4, True, *[False] * 4]


def test_a_position_at_the_tiles_end_is_closed_charged_and_called_forced() -> None:
    (account,) = run(steady(12), scripted([Action.OPEN_SHORT]), [(0, 6)])
    assert account.trades.forced.tolist() == [True]
    assert account.trades.pnl_ticks[0] == pytest.approx(-1 - 0.5)
    assert account.decisions.pnl_ticks.sum() == pytest.approx(-1.5)


@pytest.mark.parametrize("seed", range(6))
def test_decisions_and_trades_add_up_to_the_same_money(seed: int) -> None:
    market = random_market(seed, num_rows=200)
    (account,) = run(market, by_row, whole_tiles(market))
    assert len(account.trades) > 3
    assert account.decisions.pnl_ticks.sum() == pytest.approx(account.trades.pnl_ticks.sum(), abs=1e-9)
    spread = account.trades.spread_ticks
    assert spread is not None
    assert np.isfinite(spread).all()


def whole_tiles(market: Recorded) -> list[tuple[int, int]]:
    first, exits = market.tape.first_row.numpy(), market.tape.exit_row.numpy()
    return [(int(low), int(exits[low])) for low in np.unique(first) if exits[low] > low]


@pytest.mark.parametrize("seed", range(4))
def test_a_tile_alone_equals_the_tile_among_others(seed: int) -> None:
    market = random_market(seed, num_rows=200)
    bounds = [(low, low + 12) for low in range(0, 40, 12)]
    (together,) = run(market, by_row, bounds)
    for index, bound in enumerate(bounds):
        (alone,) = run(market, by_row, [bound])
        mine = together.decisions.tile == index
        for name in ("ts_ns", "pnl_ticks", "action", "entropy", "in_market", "num_feasible"):
            assert np.array_equal(getattr(together.decisions, name)[mine], getattr(alone.decisions, name)), (
                name
            )


def test_defects_are_those_of_the_live_decisions_and_add_up_over_tiles() -> None:
    """Thin books fill orders partly; lanes of short tiles run on behind their ends, which counts nowhere."""
    market = random_market(0, num_rows=200)
    bounds = whole_tiles(market)
    (together,) = run(market, by_row, bounds)
    alone = [account.defects for bound in bounds for account in run(market, by_row, [bound])]
    summed = sum((Counter(defects) for defects in alone), Counter())
    assert len(bounds) > 1
    assert together.defects == dict(summed)
    assert together.defects["partial_fills"] > 3


def test_copies_of_a_trader_are_equal_to_one_alone() -> None:
    market = random_market(3, num_rows=200)
    bounds = whole_tiles(market)
    (alone,) = run(market, by_row, bounds)
    for copy in run(market, by_row, bounds, traders=3):
        assert np.array_equal(copy.decisions.pnl_ticks, alone.decisions.pnl_ticks)
        assert np.array_equal(copy.decisions.action, alone.decisions.action)
        assert np.array_equal(copy.trades.exit_ns, alone.trades.exit_ns)


def test_each_tile_starts_flat_and_decisions_are_in_time_order() -> None:
    market = steady(40)
    (account,) = run(market, scripted([Action.OPEN_LONG, *[Action.HOLD] * 30]), [(0, 10), (10, 20), (20, 30)])
    assert (np.diff(account.decisions.ts_ns) > 0).all()
    assert np.flatnonzero(account.decisions.ordered).tolist() == [0, 10, 20]
    assert account.trades.lots.tolist() == [1, 1, 1]


def test_a_captured_replay_has_the_accounts_of_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, tensors in place and decisions behind the end, without a GPU: a graph repeats its body on
    the same tensors (test_replayer_gpu.py has a real one)."""

    class Repeats:
        def __init__(self, body: Callable[[], object], warm_up: Callable[[], object]) -> None:
            warm_up()
            self.replay = body

    monkeypatch.setattr(replayer, "captured", Repeats)
    market = random_market(1, num_rows=200)
    bounds = whole_tiles(market)
    plain = run(market, by_row, bounds, traders=2)
    graph = run(market, by_row, bounds, traders=2, use_graph=True)
    assert len(plain[0].trades) > 3
    for one, other in zip(plain, graph, strict=True):
        assert same_account(one, other) == []
