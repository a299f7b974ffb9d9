"""Baseline traders: what each must earn on hand-made tapes, and the random one's turnover."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.market.recorded import Recorded, random_market, steady
from trainer.learn.baselines import RULES, random_trader, rule_traders
from trainer.learn.replayer import Account, replay_policy
from trainer.learn.tiles import Tiles
from trainer.market.lanes import Lanes

FEE = 0.25


def rules(market: Recorded, bounds: list[tuple[int, int]], window_rows: int = 4) -> dict[str, Account]:
    tiles = Tiles(np.array([b[0] for b in bounds]), np.array([b[1] for b in bounds]))
    policy = rule_traders(market.tape, window_rows, len(tiles))
    found = replay_policy(market.tape, tiles, policy, market.config, market.instrument, len(RULES))
    return dict(zip(RULES, found, strict=True))


@pytest.mark.parametrize("moves", [[0, 0, 0, 5, 2, -1], [0, 0, -4, 0, -3]])
def test_holding_long_earns_the_mid_move_less_the_spread_and_two_fees(moves: list[int]) -> None:
    found = rules(steady(30, moves=moves), [(0, 20)])
    # Filled on row 1, after the first move; closed by force at the tile's end.
    move = sum(moves[2:])
    assert found["always_long"].decisions.pnl_ticks.sum() == pytest.approx(move - 1 - 2 * FEE)
    assert found["always_short"].decisions.pnl_ticks.sum() == pytest.approx(-move - 1 - 2 * FEE)
    for name in ("always_long", "always_short"):
        assert found[name].trades.forced.tolist() == [True]


def test_the_flat_trader_never_trades_and_earns_exactly_nothing() -> None:
    account = rules(random_market(1, 200), [(0, 30), (30, 60)])["flat"]
    assert len(account.trades) == 0
    assert not account.decisions.pnl_ticks.any()


def test_momentum_follows_the_last_windows_move_and_reverses_with_it() -> None:
    market = steady(60, moves=[0] * 10 + [1] * 10 + [-1] * 15)
    account = rules(market, [(0, 50)])["momentum"]
    assert account.trades.side.tolist() == [1, -1]
    assert account.trades.forced.tolist() == [False, True]
    # Long while the mid rose over the last 4 rows; short from its first fall over 4 rows on.
    first_ns, turn_ns = (int(t) for t in account.trades.entry_ns)
    assert first_ns == int(market.tape.ts_ns[11])
    assert turn_ns == int(market.tape.ts_ns[23])


def test_the_random_traders_together_trade_as_often_and_as_long_as_the_account() -> None:
    market = steady(4000)
    tiles = Tiles(np.arange(0, 3900, 100), np.arange(100, 4000, 100))

    def trader(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        # Opens on every 8th decision and closes 3 later.
        action = {0: 1, 3: 3}.get(int(step) % 8, 0)
        allowed = feasible[:, action]
        return torch.where(allowed, action, 0), torch.zeros(len(feasible))

    (account,) = replay_policy(market.tape, tiles, trader, market.config, market.instrument)
    random = random_trader(account.decisions, account.trades, 7, torch.device("cpu"))
    found = replay_policy(market.tape, tiles, random, market.config, market.instrument, 8)
    trades = np.mean([len(a.trades) for a in found])
    held = np.mean([a.decisions.in_market.mean() for a in found])
    assert trades == pytest.approx(len(account.trades), rel=0.15)
    assert held == pytest.approx(account.decisions.in_market.mean(), rel=0.15)
    sides = np.concatenate([a.trades.side for a in found])
    assert abs(sides.mean()) < 0.15
    assert len({tuple(a.trades.entry_ns) for a in found}) == 8, "traders must differ"


def test_an_account_that_holds_to_the_end_of_every_tile_has_random_traders_that_do() -> None:
    """A forced exit says nothing of when the account would have left."""
    market = steady(4000)
    tiles = Tiles(np.arange(0, 3900, 100), np.arange(100, 4000, 100))

    def holds(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(feasible[:, 1], 1, 0), torch.zeros(len(feasible))

    (account,) = replay_policy(market.tape, tiles, holds, market.config, market.instrument)
    assert account.trades.forced.all()
    random = random_trader(account.decisions, account.trades, 7, torch.device("cpu"))
    for found in replay_policy(market.tape, tiles, random, market.config, market.instrument, 4):
        assert found.trades.forced.all()
        assert len(found.trades) == len(account.trades)


def test_the_random_trader_of_an_account_without_trades_stays_flat() -> None:
    market = steady(60)
    account = rules(market, [(0, 50)])["flat"]
    random = random_trader(account.decisions, account.trades, 0, torch.device("cpu"))
    tiles = Tiles(np.array([0]), np.array([50]))
    (found,) = replay_policy(market.tape, tiles, random, market.config, market.instrument)
    assert len(found.trades) == 0
