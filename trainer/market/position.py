"""What a fill does to account, units and trade, and what a position is worth at a row."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.market.book import look, take
from trainer.market.lanes import Lanes, Trades, cleared
from trainer.market.orders import Fill
from trainer.market.tape import Tape


def net_ticks(cash: Tensor, fee_lots: Tensor, fee_ticks: float) -> Tensor:
    """Money after fees in tick lots, float64: an int64 tensor times a Python float would be float32."""
    return cash - fee_lots.double() * fee_ticks


class Mark(NamedTuple):
    """Worth of each lane's position at one row."""

    close_ticks: Tensor  # [B] int64, tick lots a close of all lots would bring (negative for shorts)
    mid_ticks: Tensor  # [B] float64, tick lots at mid
    beyond_lots: Tensor  # [B] int64, lots beyond the visible depth, closed at the worst level + 1 tick
    price_ticks: Tensor  # [B] int64, best price of the closing side


def mark_position(tape: Tape, lanes: Lanes, row: Tensor) -> Mark:
    """Mark `lanes.lots` at `row [B] int64`; reads that row only."""
    side = lanes.lots.sign()
    depth = look(tape, row, (lanes.lots < 0).long(), lanes.used_keys, lanes.used_lots)
    taken = take(depth.left, lanes.lots.abs())
    beyond = lanes.lots.abs() - taken.sum(1)
    notional = (taken * depth.px).sum(1) + beyond * (depth.px[:, -1] - side)
    twice_mid = tape.book[row, :, 0, 0].sum(1)
    return Mark(side * notional, (lanes.lots * twice_mid).double() / 2, beyond, depth.px[:, 0])


def apply_fill(lanes: Lanes, fill: Fill, ts_ns: Tensor) -> Lanes:
    """Account, trade and units after `fill` at `ts_ns [B]`. Cash moves by exact integers."""
    filled = fill.close_lots + fill.open_lots
    lots = lanes.lots + fill.direction * filled
    closes = (fill.close_lots > 0) & (fill.close_lots == lanes.lots.abs())
    begins = (fill.open_lots > 0) & (closes | (lanes.lots == 0))
    spent = fill.direction * (fill.close_notional + fill.open_notional)
    closing_px = torch.where(lots > 0, fill.best_px[:, 0], fill.best_px[:, 1])
    goes_on = [
        lanes.trade_cash_ticks - fill.direction * fill.close_notional,
        lanes.trade_fee_lots + fill.close_lots,
        lanes.trade_entry_notional,
        lanes.trade_entry_lots,
        lanes.trade_max_lots,
        lanes.trade_entry_ns,
        lanes.high_water_ticks,
        lanes.age,
        lanes.since_close,
    ]
    cash, fee_lots, notional, entry_lots, most, entry_ns, water, age, since_close = cleared(goes_on, closes)
    risk, peak_r = cleared([lanes.trade_risk_ticks, lanes.peak_r], closes)
    after = lanes._replace(
        lots=lots,
        cash_ticks=lanes.cash_ticks - spent,
        fee_lots=lanes.fee_lots + filled,
        trade_cash_ticks=cash - fill.direction * fill.open_notional,
        trade_fee_lots=fee_lots + fill.open_lots,
        trade_entry_notional=notional + fill.open_notional,
        trade_entry_lots=entry_lots + fill.open_lots,
        trade_max_lots=torch.maximum(most, lots.abs()),
        trade_entry_ns=torch.where(begins, ts_ns, entry_ns),
        trade_risk_ticks=risk + fill.open_lots * fill.trail_ticks,
        high_water_ticks=torch.where(begins, lots.sign() * closing_px, water),
        peak_r=peak_r,
        age=age,
        since_close=since_close,
    )
    return _fill_units(after, lanes.lots.abs() - fill.close_lots, fill)


def _fill_units(lanes: Lanes, kept_lots: Tensor, fill: Fill) -> Lanes:
    """Keep the oldest `kept_lots [B]` (the newest units leave first), then open the first free unit."""
    kept = take(lanes.unit_lots, kept_lots)
    live = kept > 0
    slots = torch.arange(kept.shape[1], device=kept.device)
    opens = (slots == live.sum(1)[:, None]) & (fill.open_lots > 0)[:, None]
    price = fill.open_notional.double() / fill.open_lots.clamp(min=1)

    def put(value: Tensor, new: Tensor) -> Tensor:
        return torch.where(opens, new[:, None], value.masked_fill(~live, 0))

    return lanes._replace(
        unit_lots=put(kept, fill.open_lots),
        unit_entry_ticks=put(lanes.unit_entry_ticks, price),
        unit_trail_ticks=put(lanes.unit_trail_ticks, fill.trail_ticks),
        unit_trail_steps=lanes.unit_trail_steps.masked_fill(~live, 0),
    )


def closed_trades(
    before: Lanes, after: Lanes, fill: Fill, mark: Mark, exits: Tensor, times: Tensor, fee_ticks: float
) -> Trades:
    """Trades closed by the order (column 0) and by a forced exit (column 1) of lanes with `exits [B] bool`.

    `before` and `after` are the lanes around the fill, `times [B, 2]` its time and that of the step's end.
    """
    by_fill = (fill.close_lots > 0) & (fill.close_lots == before.lots.abs())
    by_exit = exits & (after.lots != 0)
    closed = torch.stack([by_fill, by_exit], 1)

    names = ("lots", "trade_entry_notional", "trade_entry_lots", "trade_max_lots", "age", "trade_entry_ns")
    columns = [[getattr(lanes, name) for name in names] for lanes in (before, after)]
    columns[0] += [
        before.trade_cash_ticks - fill.direction * fill.close_notional,
        before.trade_fee_lots + fill.close_lots,
        times[:, 0],
    ]
    columns[1] += [
        after.trade_cash_ticks + mark.close_ticks,
        after.trade_fee_lots + after.lots.abs(),
        times[:, 1],
    ]
    table = torch.stack(columns[0] + columns[1], 1).view(len(closed), 2, -1)
    lots, notional, entry_lots, most, age, entry_ns, cash, fee_lots, exit_ns = table.masked_fill(
        ~closed[:, :, None], 0
    ).unbind(2)
    risk = torch.stack([before.trade_risk_ticks, after.trade_risk_ticks], 1).masked_fill(~closed, 1)
    pnl, side, entry_lots = (
        net_ticks(cash, fee_lots, fee_ticks),
        lots.sign(),
        entry_lots.clamp(min=1),
    )
    return Trades(
        closed=closed,
        forced=torch.stack([torch.zeros_like(by_exit), by_exit], 1),
        side=side,
        lots=most,
        pnl_ticks=pnl,
        fee_lots=fee_lots,
        age=age,
        entry_ns=entry_ns,
        exit_ns=exit_ns,
        entry_ticks=notional.double() / entry_lots,
        exit_ticks=(side * cash + notional).double() / entry_lots,
        r=(pnl / risk).float(),
    )
