"""What each action orders, which actions a lane may choose, and the fill of the order in flight."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import MarketConfig
from trainer.market.book import look, remember, take
from trainer.market.lanes import Lanes
from trainer.market.stops import steps_range
from trainer.market.tape import Tape
from trainer.types import Action

ENTRIES = (Action.OPEN_LONG, Action.OPEN_SHORT, Action.ADD_LONG, Action.ADD_SHORT, Action.REVERSE)
FLATS = (Action.FLAT_FROM_LONG, Action.FLAT_FROM_SHORT)
ORDERS = (*ENTRIES, *FLATS, Action.HALF_FLAT)


def is_any(action: Tensor, members: Iterable[Action]) -> Tensor:
    """0/1 int64 `[B]`: the action is one of `members`. A bit test: a lookup table would be a host copy."""
    mask = sum(1 << int(member) for member in members)
    return torch.bitwise_right_shift(mask, action) & 1


def feasible_actions(tape: Tape, lanes: Lanes, market: MarketConfig) -> Tensor:
    """Actions a lane may choose at its cursor, `[B, A] bool`: always Hold, and only Hold in flight.

    Entries (1, 2, 5, 6, 9) are masked in the last `entry_guard_decisions` of an episode, and when the
    announced end is so near on the clock that the fill would come after the forced close (two latencies).
    Opens need a flat lane; adds the same side and a free unit; half-flat two lots; the trail actions a unit
    that is not yet at that bound. Reads the clock of row `cursor`, never how many rows follow (SYSTEM.md 3).
    """
    clock_left = tape.close_ns[lanes.cursor] - tape.ts_ns[lanes.cursor]
    enter = (lanes.episode_left > market.entry_guard_decisions) & (clock_left > 2 * market.latency_ns)
    long, short, flat = lanes.lots > 0, lanes.lots < 0, lanes.lots == 0
    free, live = lanes.unit_lots[:, -1] == 0, lanes.unit_lots > 0
    lowest, highest = steps_range(market)
    opens, adds, idle = flat & enter, free & enter, lanes.pending_action == 0
    columns = [
        opens,
        opens,
        long,
        short,
        adds & long,
        adds & short,
        (live & (lanes.unit_trail_steps > lowest)).any(1),
        (live & (lanes.unit_trail_steps < highest)).any(1),
        enter & ~flat,
        lanes.lots.abs() >= 2,
    ]
    orders = torch.stack(columns, 1) & idle[:, None]
    return torch.cat([torch.ones_like(idle)[:, None], orders], 1)


class Fill(NamedTuple):
    """The fill of one order per lane; zeros where no order filled. Lots unsigned, `direction` +1 buys."""

    row: Tensor  # [B] int64, fill row (the cursor where no order filled)
    happened: Tensor  # [B] bool, the order met the book, whatever it found
    direction: Tensor  # [B] int64
    asked_lots: Tensor  # [B] int64
    close_lots: Tensor  # [B] int64, that reduced the position
    close_notional: Tensor  # [B] int64, tick lots
    open_lots: Tensor  # [B] int64, that opened or added
    open_notional: Tensor  # [B] int64, tick lots
    best_px: Tensor  # [B, 2] int64, best bid and ask of the fill row, ticks
    trail_ticks: Tensor  # [B] float64, initial trail of a unit opened at the row


def order_size(action: Tensor, lots: Tensor, unit_lots: int) -> tuple[Tensor, Tensor]:
    """Direction (+1 buys) and lots that `action` orders from a position of `lots` signed, `[B] int64`."""
    side, size = lots.sign(), lots.abs()
    leaving = is_any(action, (*FLATS, Action.REVERSE, Action.HALF_FLAT))
    buys = is_any(action, (Action.OPEN_LONG, Action.ADD_LONG))
    sells = is_any(action, (Action.OPEN_SHORT, Action.ADD_SHORT))
    asked = is_any(action, ENTRIES) * unit_lots + is_any(action, (*FLATS, Action.REVERSE)) * size
    asked = asked + is_any(action, (Action.HALF_FLAT,)) * (size // 2)
    return buys - sells - leaving * side, asked


def fill_order(
    tape: Tape, lanes: Lanes, until: Tensor, at_gap: Tensor, market: MarketConfig, unit_lots: int
) -> tuple[Lanes, Fill]:
    """Fill orders in flight whose row is `<= until [B]`; lanes get the new memory of taken size.

    No fill across a gap: `at_gap [B] bool` says that `until` lies behind one. A reverse is one walk of the
    book: its first lots close, the rest opens. `unit_lots` is what an entry orders. Reads the fill row only.
    """
    happened = (lanes.pending_action != 0) & (lanes.pending_row <= until)
    happened = happened & ~(at_gap & (lanes.pending_row == until))
    row = torch.where(happened, lanes.pending_row, lanes.cursor)
    direction, asked = order_size(lanes.pending_action, lanes.lots, unit_lots)
    asked = asked.masked_fill(~happened, 0)
    taker_side = (direction > 0).long()
    depth = look(tape, row, taker_side, lanes.used_keys, lanes.used_lots)
    taken = take(depth.left, asked)
    filled = taken.sum(1)
    keys, used = remember(depth, taken, filled > 0, taker_side, lanes.used_keys, lanes.used_lots)
    close_lots = torch.minimum(filled, lanes.lots.abs()) * (direction * lanes.lots < 0)
    close_notional = (take(depth.left, close_lots) * depth.px).sum(1)
    trail = tape.range_ticks[row].double() * market.trail_range_multiple
    fill = Fill(
        row=row,
        happened=happened,
        direction=direction,
        asked_lots=asked,
        close_lots=close_lots,
        close_notional=close_notional,
        open_lots=filled - close_lots,
        open_notional=(taken * depth.px).sum(1) - close_notional,
        best_px=tape.book[row, :, 0, 0].long(),
        trail_ticks=trail.clamp(min=market.trail_min_ticks),
    )
    return lanes._replace(used_keys=keys, used_lots=used), fill
