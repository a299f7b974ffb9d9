"""Traders whose worth is known, as policies of the replay. Each reads rows up to its lane's cursor only."""

from collections.abc import Callable

import torch
from torch import Tensor

from tests.gate.market import Fold
from trainer.data.oracle_trader import solve
from trainer.learn.random import Stream, uniform
from trainer.learn.replayer import Policy
from trainer.market.lanes import Lanes
from trainer.types import Action

Target = Callable[[Lanes, Tensor], Tensor]
"""`(lanes, step) -> [B] int64`: the side wanted, -1, 0 or +1."""


def follows(target: Target) -> Policy:
    """The orders that take a lane to the wanted side; a reversal that is not allowed leaves only."""

    def policy(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        wanted, held = target(lanes, step), lanes.lots.sign()
        leaving = torch.where(held > 0, int(Action.FLAT_FROM_LONG), int(Action.FLAT_FROM_SHORT))
        opening = torch.where(wanted > 0, int(Action.OPEN_LONG), int(Action.OPEN_SHORT))
        turning = torch.where(feasible[:, int(Action.REVERSE)], int(Action.REVERSE), leaving)
        action = torch.where(held == 0, opening, torch.where(wanted == 0, leaving, turning))
        action = torch.where(wanted == held, int(Action.HOLD), action)
        allowed = feasible.gather(1, action[:, None])[:, 0]
        return torch.where(allowed, action, int(Action.HOLD)), torch.zeros(len(feasible))

    return policy


def optimal(fold: Fold) -> Policy:
    """Knows the planted signal of its row and trades it as the dynamic programme says.

    On a martingale it goes on trading the planted market's way: the same signal, which moves nothing there.
    """
    trader = solve(fold.config.replaced(market_source="planted"))  # type: ignore[arg-type]
    table = torch.from_numpy(trader.act(fold.signal.numpy())) - 1

    def target(lanes: Lanes, step: Tensor) -> Tensor:
        return table[lanes.cursor].gather(1, (lanes.lots.sign() + 1)[:, None])[:, 0]

    return follows(target)


def never(fold: Fold) -> Policy:
    """Stays flat."""
    return follows(lambda lanes, step: torch.zeros_like(lanes.lots))


def at_random(fold: Fold) -> Policy:
    """Draws a side, or none, at every second decision."""
    key = torch.tensor(11)

    def target(lanes: Lanes, step: Tensor) -> Tensor:
        draw = uniform(key, step, Stream.ACTION, (1, len(lanes.lots)))[0]
        return torch.where(step % 2 == 0, (3.0 * draw).long() - 1, lanes.lots.sign())

    return follows(target)


def takes_profit(fold: Fold, profit_ticks: float, stop_ticks: float, least_signal: float = 0.0) -> Policy:
    """Leaves when a close would net `profit_ticks` or lose `stop_ticks`, fees included.

    Long whenever flat; with `least_signal` it waits for a hidden signal as strong and takes its side.
    """
    fee = fold.instrument.fee_ticks
    side = (fold.signal.abs() > least_signal) * fold.signal.sign().long()

    def target(lanes: Lanes, step: Tensor) -> Tensor:
        net = lanes.open_pnl_ticks - fee * lanes.lots.abs()
        done = (net >= profit_ticks) | (net <= -stop_ticks)
        entry = side[lanes.cursor] if least_signal else torch.ones_like(lanes.lots)
        return torch.where(lanes.lots == 0, entry, torch.where(done, 0, lanes.lots.sign()))

    return follows(target)


def scratches(fold: Fold, strong: float, weak: float) -> Policy:
    """Trades strong signals for much and feeble ones for the costs, a decision each: wins few, but large."""
    size, side = fold.signal.abs(), fold.signal.sign().long()
    chosen = torch.where((size > strong) | (size < weak), side, 0)

    def target(lanes: Lanes, step: Tensor) -> Tensor:
        return torch.where(lanes.lots == 0, chosen[lanes.cursor], 0)

    return follows(target)


def holds_long(fold: Fold) -> Policy:
    """Long from the first decision on; left by force only."""
    return follows(lambda lanes, step: torch.ones_like(lanes.lots))
