"""One step of the market replay: order, fill, position, forced exit, marks, re-anchoring (SYSTEM.md 3).

Purely functional, without host reads, data-dependent shapes or branches on tensors: it runs eagerly, compiled
and inside a CUDA graph, and a lane's result does not depend on the other lanes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import Config, InstrumentConfig, MarketConfig
from trainer.market.lanes import Lanes, Outcome, Trades, reanchor
from trainer.market.orders import ORDERS, Fill, fill_order, is_any
from trainer.market.position import Mark, apply_fill, closed_trades, mark_position, net_ticks
from trainer.market.stops import move_trails
from trainer.market.tape import Tape

# An average price at the limit of the cache's price column is not a price.
MAX_PRICE_TICKS = 2**31 - 1


class _Interval(NamedTuple):
    action: Tensor  # [B] int64
    ordered: Tensor  # [B] bool, the action sends an order
    until: Tensor  # [B] int64, row the step ends at
    ts_ns: Tensor  # [B] int64, its time
    exits: Tensor  # [B] bool, the lane is forced flat there and re-anchored
    at_gap: Tensor  # [B] bool, that row is behind an unannounced gap


def step_lanes(
    tape: Tape, lanes: Lanes, action: Tensor, anchors: Tensor, config: Config, instrument: InstrumentConfig
) -> tuple[Lanes, Outcome]:
    """Execute `action [B] int64` (feasible, risk-checked and gated) and replay up to the next decision.

    Trails move at once; an order fills at its fill row, in this step or a later one; at the exit row, the
    tile's last row or the episode's last decision what is held is closed at the book of that row and the
    lane goes on at `anchors [B] int64` with `config.market.episode_decisions` left. Reads rows up to
    `Outcome.row`.
    """
    market, fee_ticks = config.market, instrument.fee_ticks
    interval = _advance(tape, lanes, action)
    sent = _send(tape, lanes, interval, market)
    sent, fill = fill_order(tape, sent, interval.until, interval.at_gap, market, instrument.unit_lots)
    fill_ns = tape.ts_ns[fill.row]
    held = apply_fill(sent, fill, fill_ns)
    mark = mark_position(tape, held, interval.until)
    times = torch.stack([fill_ns, interval.ts_ns], 1)
    trades = closed_trades(sent, held, fill, mark, interval.exits, times, fee_ticks)
    marked = _mark(_count_defects(held, sent, fill, mark, interval), mark, fee_ticks)
    marked = _track(marked, trades, fill, interval, market.recent_rate)
    settled = _settle(marked, mark, interval, fee_ticks)
    outcome = _report(lanes, sent, marked, settled, fill, mark, trades, interval, market.drawdown_penalty)
    return reanchor(settled, interval.exits, anchors, market.episode_decisions), outcome


def _send(tape: Tape, lanes: Lanes, interval: _Interval, market: MarketConfig) -> Lanes:
    """Move trails, put a new order in flight, and let one decision pass for everything that counts them."""
    ordered = interval.ordered
    return lanes._replace(
        unit_trail_steps=move_trails(lanes, interval.action, market),
        pending_action=torch.where(ordered, interval.action, lanes.pending_action),
        pending_row=torch.where(ordered, tape.fill_row[lanes.cursor], lanes.pending_row),
        pending_age=(lanes.pending_age + (lanes.pending_action != 0)).masked_fill(ordered, 0),
        age=lanes.age + (lanes.lots != 0),
        since_close=lanes.since_close + 1,
        episode_left=lanes.episode_left - 1,
    )


def _advance(tape: Tape, lanes: Lanes, action: Tensor) -> _Interval:
    """How far the step reaches, and whether the lane is forced to exit there."""
    exit_row = tape.exit_row[lanes.cursor]
    until = torch.minimum(torch.minimum(tape.next_row[lanes.cursor], exit_row), lanes.limit_row)
    # A lane parked at or behind its tile's end stays there: it can do nothing but be re-anchored.
    until = torch.maximum(until, lanes.cursor)
    exits = (until == exit_row) | (until >= lanes.limit_row) | (lanes.episode_left <= 1)
    at_gap = (until == exit_row) & tape.exit_is_gap[lanes.cursor]
    return _Interval(action, is_any(action, ORDERS) > 0, until, tape.ts_ns[until], exits, at_gap)


def _count_defects(held: Lanes, sent: Lanes, fill: Fill, mark: Mark, interval: _Interval) -> Lanes:
    filled = fill.close_lots + fill.open_lots
    forced = interval.exits & (held.lots != 0)
    price = fill.open_notional.abs()
    found = [
        (filled > 0) & (filled < fill.asked_lots),
        fill.happened & (filled == 0),
        interval.exits & (sent.pending_action != 0) & ~fill.happened,
        forced & (mark.beyond_lots > 0),
        forced & interval.at_gap,
        (fill.open_lots > 0) & ((price == 0) | (price >= MAX_PRICE_TICKS * fill.open_lots)),
    ]
    return held._replace(defects=held.defects + torch.stack(found, 1))


def _mark(lanes: Lanes, mark: Mark, fee_ticks: float) -> Lanes:
    """Equity, open P&L, R and high-water mark of the position at the step's last row."""
    holding = lanes.lots != 0
    open_before_mark = net_ticks(lanes.trade_cash_ticks, lanes.trade_fee_lots, fee_ticks)
    equity = net_ticks(lanes.cash_ticks, lanes.fee_lots, fee_ticks) + mark.mid_ticks
    risk = lanes.trade_risk_ticks.masked_fill(~holding, 1)
    unrealized_r = (open_before_mark + mark.mid_ticks) / risk
    best = torch.maximum(lanes.high_water_ticks, lanes.lots.sign() * mark.price_ticks)
    return lanes._replace(
        equity_ticks=equity,
        open_pnl_ticks=open_before_mark + mark.close_ticks,
        unrealized_r=unrealized_r,
        peak_r=torch.maximum(lanes.peak_r, unrealized_r),
        high_water_ticks=best.masked_fill(~holding, 0),
    )


def _track(lanes: Lanes, trades: Trades, fill: Fill, interval: _Interval, rate: float) -> Lanes:
    """Shares of orders and wins, last trade, and the order still in flight."""
    closed, won = trades.closed[:, 0], (trades.pnl_ticks[:, 0] > 0).double()
    order_share = lanes.order_share + rate * (interval.ordered.double() - lanes.order_share)
    win_share = torch.where(closed, lanes.win_share + rate * (won - lanes.win_share), lanes.win_share)
    return lanes._replace(
        cursor=interval.until,
        order_share=order_share,
        win_share=win_share,
        last_trade_r=torch.where(closed, trades.r[:, 0].double(), lanes.last_trade_r),
        realized_ticks=lanes.realized_ticks + trades.pnl_ticks.sum(1),
        pending_action=lanes.pending_action.masked_fill(fill.happened, 0),
    )


def _settle(lanes: Lanes, mark: Mark, interval: _Interval, fee_ticks: float) -> Lanes:
    """Close what is held by lanes that exit: cash, fees and equity of the account."""
    forced = interval.exits & (lanes.lots != 0)
    cash = lanes.cash_ticks + mark.close_ticks.masked_fill(~forced, 0)
    fee_lots = lanes.fee_lots + lanes.lots.abs().masked_fill(~forced, 0)
    equity = torch.where(forced, net_ticks(cash, fee_lots, fee_ticks), lanes.equity_ticks)
    return lanes._replace(
        lots=lanes.lots.masked_fill(forced, 0),
        cash_ticks=cash,
        fee_lots=fee_lots,
        equity_ticks=equity,
        peak_equity_ticks=torch.maximum(lanes.peak_equity_ticks, equity),
        unrealized_r=lanes.unrealized_r.masked_fill(forced, 0),
    )


def _report(
    start: Lanes,
    sent: Lanes,
    marked: Lanes,
    settled: Lanes,
    fill: Fill,
    mark: Mark,
    trades: Trades,
    interval: _Interval,
    penalty_rate: float,
) -> Outcome:
    filled, notional = fill.close_lots + fill.open_lots, fill.close_notional + fill.open_notional
    forced = marked.lots - settled.lots
    given = (mark.mid_ticks - mark.close_ticks).masked_fill(forced == 0, 0)
    fill_mid = (filled * fill.best_px.sum(1)).double() / 2
    close_marked = marked.equity_ticks - mark.mid_ticks + mark.close_ticks
    return Outcome(
        executed=interval.action,
        ordered=interval.ordered,
        reward_ticks=settled.equity_ticks - start.equity_ticks,
        drawdown_penalty=(settled.unrealized_r.clamp(max=0) * penalty_rate).float(),
        unrealized_r=settled.unrealized_r.float(),
        done=trades.closed.any(1),
        truncated=interval.exits,
        row=interval.until,
        ts_ns=interval.ts_ns,
        equity_ticks=torch.where(forced != 0, settled.equity_ticks, close_marked),
        mid_equity_ticks=settled.equity_ticks,
        lots=settled.lots,
        fill_lots=fill.direction * filled,
        fill_notional_ticks=notional,
        fill_delay=sent.pending_age.masked_fill(~fill.happened, 0),
        forced_lots=-forced,
        fee_lots=filled + forced.abs(),
        spread_cost_ticks=fill.direction * (notional - fill_mid) + given,
        trades=trades,
    )
