"""The 16 context features of a lane: what the policy knows of its own position, orders and clock."""

import math

import torch
from torch import Tensor

from trainer.config import InstrumentConfig, MarketConfig
from trainer.market.lanes import Lanes
from trainer.market.stops import stop_loss_room_ticks, trail_room_ticks
from trainer.market.tape import Tape

CONTEXT_NAMES = (
    "inventory",
    "unrealized_r",
    "peak_r",
    "given_back_r",
    "log_age",
    "units_used",
    "entry_distance",
    "stop_distance",
    "log_since_close",
    "order_pending",
    "order_share",
    "win_share",
    "last_trade_r",
    "log_session_left",
    "log_episode_left",
    "round_trip_cost",
)
LIMIT = 5.0


def context_features(
    tape: Tape, lanes: Lanes, mean_abs_trade_ticks: Tensor, market: MarketConfig, instrument: InstrumentConfig
) -> Tensor:
    """Context of each lane at its cursor, `[B, C] float32`, finite, in [-5, 5]; names in `CONTEXT_NAMES`.

    Distances and costs are signed logs of ticks, durations logs of decisions or seconds. The stop distance is
    the price move per lot to the nearest stop: the tightest trailing stop, or the stop-loss at its configured
    ratio of `mean_abs_trade_ticks` (float32 scalar). A tile's or episode's end enters as decisions left, the
    announced end as clock time. Reads row `cursor` only (SYSTEM.md section 3).
    """
    best = tape.book[lanes.cursor, :, 0, 0].double()
    size, side = lanes.lots.abs().double(), lanes.lots.sign()
    flat = lanes.lots == 0
    held = size.masked_fill(flat, 1)
    entry = (lanes.unit_lots * lanes.unit_entry_ticks).sum(1) / held
    from_entry = (side * (best.mean(1) - entry)).masked_fill(flat, 0)
    trailing = trail_room_ticks(tape, lanes, market).amin(1)
    room = stop_loss_room_ticks(lanes, mean_abs_trade_ticks, market)
    to_loss = (room / held).masked_fill(mean_abs_trade_ticks <= 0, math.inf)
    to_stop = torch.minimum(trailing, to_loss).masked_fill(flat, 0)
    left_s = (tape.close_ns[lanes.cursor] - tape.ts_ns[lanes.cursor]).clamp(min=0).double() * 1e-9
    cost = best[:, 1] - best[:, 0] + 2 * instrument.fee_ticks
    ticks = torch.stack([from_entry, to_stop, cost], 1)
    ticks = ticks.sign() * ticks.abs().log1p()
    left = lanes.episode_left.clamp(0, market.episode_decisions).double()
    counts = torch.stack([lanes.age.double(), lanes.since_close.double(), left, left_s], 1).log1p()
    columns = [
        lanes.lots.double() / (market.num_units * instrument.unit_lots),
        lanes.unrealized_r,
        lanes.peak_r,
        lanes.peak_r - lanes.unrealized_r,
        counts[:, 0] / 2,
        (lanes.unit_lots > 0).sum(1).double() / market.num_units,
        ticks[:, 0],
        ticks[:, 1],
        counts[:, 1] / 2,
        (lanes.pending_action != 0).double(),
        lanes.order_share,
        lanes.win_share,
        lanes.last_trade_r,
        counts[:, 3] / 3,
        counts[:, 2] / 2,
        ticks[:, 2],
    ]
    return torch.stack(columns, 1).clamp(-LIMIT, LIMIT).float()
