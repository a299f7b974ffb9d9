"""The state of the lanes (parallel market replays) and what one step of them reports.

Everything is a tensor with the lane first, so that a step is one pure function that runs eagerly, compiled or
inside a CUDA graph. Money is integer ticks x lots; fees are counted in lots and priced once.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import MarketConfig
from trainer.market.tape import Tape

# Columns of `Lanes.defects`: things that make a replay less like trading. Reports show and warn about them.
DEFECTS = (
    "partial_fills",  # an order found less visible size than it asked for
    "unfilled_orders",  # an order found no size at all
    "cancelled_orders",  # still in flight when its lane was forced to exit
    "clamped_exits",  # a forced close beyond the visible depth, at the worst level + 1 tick
    "gap_exits",  # a position was closed on the first row after an unannounced gap
    "bad_entry_prices",  # an entry's average price was zero or at the limit of int32
)


class Lanes(NamedTuple):
    """All state of B lanes. Between steps a lane stands at `cursor`, and every mark below is of that row."""

    cursor: Tensor  # [B] int64, decision row
    limit_row: Tensor  # [B] int64, last row of the lane's tile, inclusive
    episode_left: Tensor  # [B] int64, decisions left, the coming one included
    lots: Tensor  # [B] int64, signed
    cash_ticks: Tensor  # [B] int64, tick lots, before fees; never cleared
    fee_lots: Tensor  # [B] int64, lots that paid the fee; never cleared
    realized_ticks: Tensor  # [B] float64, net P&L of all closed trades; never cleared
    equity_ticks: Tensor  # [B] float64, cash - fees + position at mid; never cleared
    peak_equity_ticks: Tensor  # [B] float64, its lifetime peak; never cleared
    trade_cash_ticks: Tensor  # [B] int64, cash of the open trade, since flat
    trade_fee_lots: Tensor  # [B] int64, of the open trade
    trade_entry_notional: Tensor  # [B] int64, tick lots of all entries of the open trade
    trade_entry_lots: Tensor  # [B] int64, lots of all entries of the open trade
    trade_max_lots: Tensor  # [B] int64, most lots held
    trade_entry_ns: Tensor  # [B] int64, time of the first fill
    trade_risk_ticks: Tensor  # [B] float64, tick lots: sum over entries of lots x initial trail
    unit_lots: Tensor  # [B, U] int64, oldest unit first, unused ones 0
    unit_entry_ticks: Tensor  # [B, U] float64, average price
    unit_trail_ticks: Tensor  # [B, U] float64, initial trail = initial risk per lot
    unit_trail_steps: Tensor  # [B, U] int64, loosened minus tightened times
    high_water_ticks: Tensor  # [B] int64, best closing price of the position x its sign; 0 when flat
    open_pnl_ticks: Tensor  # [B] float64, of the open trade at what a close would get, fees so far included
    unrealized_r: Tensor  # [B] float64, the same at mid / initial risk
    peak_r: Tensor  # [B] float64, best of it in this trade, >= 0
    age: Tensor  # [B] int64, decisions since the trade opened
    since_close: Tensor  # [B] int64, decisions since the last close or start
    pending_action: Tensor  # [B] int64, order in flight; 0 = none
    pending_row: Tensor  # [B] int64, its fill row; of no meaning when none
    pending_age: Tensor  # [B] int64, decisions since it was sent; likewise
    order_share: Tensor  # [B] float64, EMA over decisions
    win_share: Tensor  # [B] float64, EMA over closed trades
    last_trade_r: Tensor  # [B] float64, net P&L of the last closed trade / its initial risk
    used_keys: Tensor  # [B, 2, L] int64, levels last traded with, per side
    used_lots: Tensor  # [B, 2, L] int64, lots taken from them
    defects: Tensor  # [B, len(DEFECTS)] int64, lifetime counts


# What a re-anchored lane keeps: its account and its counts. All else is as after a reset, so that the policy
# sees the same fresh lane at every start, as it does at the start of a test window.
LIFETIME = frozenset(
    ("limit_row", "cash_ticks", "fee_lots", "realized_ticks", "equity_ticks", "peak_equity_ticks", "defects")
)


class Trades(NamedTuple):
    """Trades closed in a step: column 0 by an order's fill, 1 by a forced exit. Zero where not closed."""

    closed: Tensor  # [B, 2] bool
    forced: Tensor  # [B, 2] bool
    side: Tensor  # [B, 2] int64, +1 long, -1 short
    lots: Tensor  # [B, 2] int64, most held
    pnl_ticks: Tensor  # [B, 2] float64, tick lots, net of every fee of the trade
    fee_lots: Tensor  # [B, 2] int64
    age: Tensor  # [B, 2] int64, decisions from the opening one to the closing one
    entry_ns: Tensor  # [B, 2] int64
    exit_ns: Tensor  # [B, 2] int64
    entry_ticks: Tensor  # [B, 2] float64, average over all entries
    exit_ticks: Tensor  # [B, 2] float64, average over all exits
    r: Tensor  # [B, 2] float32, pnl / initial risk


class Outcome(NamedTuple):
    """What a step did, per lane. It reaches from the decision row to `row`."""

    executed: Tensor  # [B] int64, action
    ordered: Tensor  # [B] bool, the action sent an order
    reward_ticks: Tensor  # [B] float64, change of equity at mid, all costs charged, tick lots
    drawdown_penalty: Tensor  # [B] float32, <= 0, in R: min(0, unrealized_r) x rate
    unrealized_r: Tensor  # [B] float32, at `row`, before re-anchoring; 0 when flat
    done: Tensor  # [B] bool, a position was closed
    truncated: Tensor  # [B] bool, the lane was re-anchored: what follows is not this step's successor
    row: Tensor  # [B] int64, where the step ended
    ts_ns: Tensor  # [B] int64, its time
    equity_ticks: Tensor  # [B] float64, at `row`, position at what a close would get, before its fee
    mid_equity_ticks: Tensor  # [B] float64, at `row`, position at mid
    lots: Tensor  # [B] int64, held at `row`, after a forced exit
    fill_lots: Tensor  # [B] int64, signed, of the order
    fill_notional_ticks: Tensor  # [B] int64, tick lots, of the order, unsigned by side
    fill_delay: Tensor  # [B] int64, decisions between the one that sent the order and this one
    forced_lots: Tensor  # [B] int64, signed, of the forced exit
    fee_lots: Tensor  # [B] int64, lots charged in this step
    spread_cost_ticks: Tensor  # [B] float64, tick lots, distance of all fills from the mid of their row
    trades: Trades


_FLOATS = frozenset(
    (
        *("realized_ticks", "equity_ticks", "peak_equity_ticks", "open_pnl_ticks", "trade_risk_ticks"),
        *("unit_entry_ticks", "unit_trail_ticks", "unrealized_r", "peak_r", "last_trade_r"),
        *("order_share", "win_share"),
    )
)


def reset_lanes(
    tape: Tape, start_rows: Tensor, limit_rows: Tensor | None, episode_left: Tensor, market: MarketConfig
) -> Lanes:
    """Flat lanes with an empty account at `start_rows [B] int64`.

    `limit_rows [B] int64` are tile ends (inclusive), None = none; `episode_left [B] int64` decisions.
    """
    num_lanes, num_levels = start_rows.shape[0], tape.book.shape[3]
    widths: dict[str, tuple[int, ...]] = {
        f: (market.num_units,) for f in Lanes._fields if f.startswith("unit_")
    }
    widths |= {"used_keys": (2, num_levels), "used_lots": (2, num_levels), "defects": (len(DEFECTS),)}
    state = {
        name: torch.zeros(
            (num_lanes, *widths.get(name, ())),
            dtype=torch.float64 if name in _FLOATS else torch.int64,
            device=start_rows.device,
        )
        for name in Lanes._fields
    }
    limits = torch.full_like(start_rows, tape.ts_ns.shape[0]) if limit_rows is None else limit_rows
    # Copies: state is later updated in place by a captured graph and must not alias the caller's rows.
    state |= {"cursor": start_rows.long().clone(), "limit_row": limits.long().clone()}
    state["episode_left"] = episode_left.long().clone()
    return Lanes(**state)


def defect_counts(defects: Tensor) -> dict[str, int]:
    """All lanes' `defects [B, len(DEFECTS)]` added up by name; names without any are left out.

    Reads from the device: for the end of a run, never inside a step.
    """
    return {name: count for name, count in zip(DEFECTS, defects.sum(0).tolist(), strict=True) if count}


def defects_text(counts: Mapping[str, int]) -> str:
    """`2 gap_exits, 1 partial_fills`; empty without any."""
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def cleared(values: list[Tensor], where: Tensor) -> tuple[Tensor, ...]:
    """`values`, each `[B, ...]` of one shape and type, with 0 where `where [B] bool`: one kernel for all."""
    stacked = torch.stack(values)
    mask = where.view(1, -1, *[1] * (stacked.dim() - 2))
    return stacked.masked_fill(mask, 0).unbind(0)


def reanchor(lanes: Lanes, exits: Tensor, anchors: Tensor, episode_decisions: int) -> Lanes:
    """Lanes with `exits [B] bool` start afresh at `anchors [B] int64`; `LIFETIME` fields go on."""
    alike: dict[tuple[torch.Size, torch.dtype], list[str]] = {}
    for name, value in lanes._asdict().items():
        if name not in LIFETIME:
            alike.setdefault((value.shape[1:], value.dtype), []).append(name)
    fresh = {
        name: value
        for names in alike.values()
        for name, value in zip(names, cleared([getattr(lanes, n) for n in names], exits), strict=True)
    }
    fresh["cursor"] = torch.where(exits, anchors, lanes.cursor)
    fresh["episode_left"] = lanes.episode_left.masked_fill(exits, episode_decisions)
    return lanes._replace(**fresh)
