"""Trailing stops and the stop-loss: the risk stage that may replace the policy's action by a flat."""

import math

import torch
from torch import Tensor

from trainer.config import MarketConfig
from trainer.market.lanes import Lanes
from trainer.market.tape import Tape
from trainer.types import Action


def steps_range(market: MarketConfig) -> tuple[int, int]:
    """Fewest and most trail steps (loosened minus tightened) that still move the trail."""

    def steps(ratio: float) -> int:
        return math.ceil(math.log(ratio) / math.log(market.trail_step) - 1e-9)

    return -steps(1 / market.trail_bounds[0]), steps(market.trail_bounds[1])


def trail_ticks(lanes: Lanes, market: MarketConfig) -> Tensor:
    """Distance of each unit's stop from the high-water mark, ticks `[B, U] float64`.

    Counted in whole steps rather than multiplied up, so that loosening undoes a tightening exactly, also
    after the bound of [0.5, 2] x the initial trail was reached.
    """
    ratio = torch.pow(market.trail_step, lanes.unit_trail_steps.double())
    return lanes.unit_trail_ticks * ratio.clamp(*market.trail_bounds)


def move_trails(lanes: Lanes, action: Tensor, market: MarketConfig) -> Tensor:
    """`unit_trail_steps [B, U] int64` after a tighten or loosen of all units in use."""
    loosened = (action == Action.TRAIL_LOOSEN).long() - (action == Action.TRAIL_TIGHTEN).long()
    live = lanes.unit_lots > 0
    return (lanes.unit_trail_steps + loosened[:, None] * live).clamp(*steps_range(market))


def trail_room_ticks(tape: Tape, lanes: Lanes, market: MarketConfig) -> Tensor:
    """Ticks the closing price may fall before each unit's stop is hit `[B, U] float64`; inf for unused units.

    The closing price is the best bid for a long, the best ask for a short, at row `cursor`.
    """
    price = tape.book[lanes.cursor, (lanes.lots < 0).long(), 0, 0]
    fall = lanes.high_water_ticks - lanes.lots.sign() * price
    return (trail_ticks(lanes, market) - fall[:, None]).masked_fill(lanes.unit_lots == 0, math.inf)


def stop_loss_base_ticks(lanes: Lanes, mean_abs_trade_ticks: Tensor, market: MarketConfig) -> Tensor:
    """What an open loss is measured against, tick lots `[B] float64`: mean |trade P&L|, floored per lot."""
    floor = lanes.lots.abs().double() * market.stop_loss_floor_ticks
    return torch.maximum(mean_abs_trade_ticks.double(), floor)


def stop_loss_room_ticks(lanes: Lanes, mean_abs_trade_ticks: Tensor, market: MarketConfig) -> Tensor:
    """Tick lots `[B] float64` that may yet be lost before the configured stop-loss; negative beyond it."""
    limit = stop_loss_base_ticks(lanes, mean_abs_trade_ticks, market) * market.stop_loss_ratio
    if market.stop_loss_measure == "lifetime_peak":
        return limit - (lanes.peak_equity_ticks - lanes.realized_ticks)
    return limit + lanes.open_pnl_ticks


def risk_stage(
    tape: Tape,
    lanes: Lanes,
    action: Tensor,
    stop_ratio: Tensor,
    mean_abs_trade_ticks: Tensor,
    market: MarketConfig,
) -> tuple[Tensor, Tensor]:
    """Replace `action [B] int64` by the matching flat where a stop is hit: (action, stopped `[B] bool`).

    Stop-loss: loss of the open trade, marked at what a close would get with the fees so far, over the mean
    absolute trade P&L (`mean_abs_trade_ticks`, float32 scalar, tick lots, floored) strictly above
    `stop_ratio` (float32 scalar); inactive while that mean is 0, before any trade has closed. Trailing stop:
    the closing price strictly below (above for shorts) any unit's stop. Nothing is replaced while flat or
    while an order is in flight. With `stop_loss_measure = "lifetime_peak"` the loss is lifetime peak
    equity minus realized P&L, the documents' proxy. Reads row `cursor` only (SYSTEM.md section 3).
    """
    loss = -lanes.open_pnl_ticks
    if market.stop_loss_measure == "lifetime_peak":
        loss = lanes.peak_equity_ticks - lanes.realized_ticks
    base = stop_loss_base_ticks(lanes, mean_abs_trade_ticks, market)
    # Multiplied out: no division by a base that is 0 while flat.
    lost = (loss > stop_ratio.double() * base) & (mean_abs_trade_ticks > 0)
    trailed = (trail_room_ticks(tape, lanes, market) < 0).any(1)
    stopped = (lost | trailed) & (lanes.lots != 0) & (lanes.pending_action == 0)
    flat = (lanes.lots < 0).long() + int(Action.FLAT_FROM_LONG)
    return torch.where(stopped, flat, action), stopped
