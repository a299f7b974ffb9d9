"""Traders that a learned one must beat, replayed on the same tiles with the same costs and latency.

None of them uses the agent's stop rules: each is the plain rule of its name.
"""

import torch
from torch import Tensor

from trainer.learn.account import Decisions, Trades
from trainer.learn.random import Stream, uniform
from trainer.learn.replayer import Policy
from trainer.market.lanes import Lanes
from trainer.market.tape import Tape
from trainer.types import Action

RULES = ("flat", "always_long", "always_short", "momentum")


def _no_entropy(lanes: Lanes) -> Tensor:
    return torch.zeros(lanes.lots.shape[0], device=lanes.lots.device)


def _if_feasible(action: Tensor, feasible: Tensor) -> Tensor:
    allowed = feasible.gather(1, action[:, None])[:, 0]
    return torch.where(allowed, action, int(Action.HOLD))


def rule_traders(tape: Tape, window_rows: int, num_tiles: int) -> Policy:
    """All of RULES at once, trader-major: never trade, hold long, hold short, follow the last window's move.

    Momentum reads the mids of the cursor's row and of the one `window_rows` before, in its segment.
    """
    device = tape.ts_ns.device
    rule = torch.arange(len(RULES), device=device).repeat_interleave(num_tiles)

    def policy(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        now = lanes.cursor
        before = torch.maximum(now - window_rows, tape.first_row[now])
        mid = tape.bid_px[:, 0] + tape.ask_px[:, 0]
        trend = (mid[now] - mid[before]).sign()
        wanted = torch.where(rule == 1, 1, torch.where(rule == 2, -1, torch.where(rule == 3, trend, 0)))
        held = lanes.lots.sign()
        opening = torch.where(wanted > 0, int(Action.OPEN_LONG), int(Action.OPEN_SHORT))
        action = torch.where(held == 0, opening, int(Action.REVERSE))
        action = torch.where((wanted == 0) | (wanted == held), int(Action.HOLD), action)
        return _if_feasible(action, feasible), _no_entropy(lanes)

    return policy


def random_trader(decisions: Decisions, trades: Trades, seed: int, device: torch.device) -> Policy:
    """Enters and leaves at random, as often and for as long on average as the given account.

    A forced exit is no leaving: the random trader meets the same ends of tiles and sessions. So it leaves at
    the rate at which the account did of its own accord (a geometric distribution censored by those ends).
    """
    flat = int((~decisions.in_market).sum())
    enter = min(1.0, len(trades) / max(flat + len(trades), 1))
    leave = min(1.0, float((~trades.forced).sum()) / max(float(trades.age.sum()), 1.0))
    key = torch.tensor(seed, dtype=torch.int64, device=device)

    def policy(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        draw = uniform(key, step, Stream.ACTION, (2, lanes.lots.shape[0]))
        opening = torch.where(draw[1] < 0.5, int(Action.OPEN_LONG), int(Action.OPEN_SHORT))
        closing = torch.where(lanes.lots > 0, int(Action.FLAT_FROM_LONG), int(Action.FLAT_FROM_SHORT))
        action = torch.where(lanes.lots == 0, opening, closing)
        rate = torch.where(lanes.lots == 0, enter, leave)
        action = torch.where(draw[0] < rate, action, int(Action.HOLD))
        return _if_feasible(action, feasible), _no_entropy(lanes)

    return policy
