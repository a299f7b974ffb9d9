"""Scalar oracle of the market replay: one step of one lane, plain Python integers and fractions.

Written from the design (SYSTEM.md sections 3 and 14), not from the tensor code: a slow, obvious replay with
which `trainer.market` must agree, integers exactly and money as exactly as float64 holds it. It imports
nothing of the trainer.
"""

import struct
from fractions import Fraction

from tests.oracles.book import ASK, BID, Fills, lots_of, notional_of, split
from tests.oracles.lane import Lane
from tests.oracles.records import Closed, Order, Report, Trade, Unit
from tests.oracles.sight import (
    ADD_LONG,
    ADD_SHORT,
    HALF,
    HOLD,
    LOOSEN,
    OPEN_LONG,
    OPEN_SHORT,
    REVERSE,
    TIGHTEN,
)

MAX_PRICE = 2**31 - 1  # ticks, the limit of the stored price


def step(lane: Lane, action: int, anchor: int) -> Report:
    """Executes `action` and replays up to the next decision; a lane that ends goes on at row `anchor`."""
    rules, start_row = lane.rules, lane.row
    equity_before, fees_before = lane.equity_mid(), lane.fee_lots
    ordered = _decide(lane, action)
    exit_row, behind_gap = lane.history.exit(start_row)
    until = max(min(lane.history.next_row(start_row), exit_row, lane.limit_row), start_row)
    leaves = until == exit_row or until >= lane.limit_row or lane.episode_left <= 0
    report = Report(until, leaves, ordered)
    crosses_gap = behind_gap and until == exit_row
    _fill_pending(lane, until, crosses_gap, report)
    lane.row = until
    _mark(lane)
    if leaves:
        _leave(lane, crosses_gap, report)
    report.lots, report.unrealized_r = lane.lots, lane.unrealized_r()
    report.penalty = min(0.0, report.unrealized_r) * rules.drawdown_penalty
    report.equity_mid, report.equity_close = lane.equity_mid(), lane.equity_close()
    report.reward = report.equity_mid - equity_before
    report.fee_lots = lane.fee_lots - fees_before
    lane.peak_equity = max(lane.peak_equity, report.equity_mid)
    if leaves:
        lane.start(anchor, rules.episode_decisions)
    return report


def _decide(lane: Lane, action: int) -> bool:
    """Lets one decision pass, moves the trails, sends the order; whether one was sent."""
    lane.episode_left -= 1
    lane.since_close += 1
    if lane.trade:
        lane.trade.age += 1
    by = {TIGHTEN: -1, LOOSEN: 1}.get(action, 0)
    for unit in lane.units:
        unit.moves += by if lane.can_move(unit, by) else 0
    ordered = action not in (HOLD, TIGHTEN, LOOSEN)
    if lane.pending:
        assert not ordered, "one order in flight"
        lane.pending.age += 1
    elif ordered:
        lane.pending = Order(action, lane.history.fill_row(lane.row))
    lane.order_share += lane.rules.recent_rate * (ordered - lane.order_share)
    return ordered


def _fill_pending(lane: Lane, until: int, crosses_gap: bool, report: Report) -> None:
    order = lane.pending
    if order is None or order.row > until or (crosses_gap and order.row == until):
        return
    lane.pending = None
    row, unit_lots = order.row, lane.rules.unit_lots
    if order.action in (OPEN_LONG, ADD_LONG):
        buy, asked = True, unit_lots
    elif order.action in (OPEN_SHORT, ADD_SHORT):
        buy, asked = False, unit_lots
    else:
        buy = lane.side < 0
        asked = {HALF: lane.size // 2, REVERSE: lane.size + unit_lots}.get(order.action, lane.size)
    fills, way = lane.book.take(ASK if buy else BID, row, asked), 1 if buy else -1
    filled = lots_of(fills)
    report.fill_lots, report.fill_notional, report.fill_delay = way * filled, notional_of(fills), order.age
    report.spread_cost += way * (notional_of(fills) - filled * lane.history.mid(row))
    lane.defects["partial"] += 0 < filled < asked
    lane.defects["unfilled"] += not filled
    reduces = lane.side == -way
    closing, opening = split(fills, lane.size if reduces else 0)
    _reduce(lane, closing, row, report)
    _enter(lane, opening, way, row)


def _reduce(lane: Lane, fills: Fills, row: int, report: Report) -> None:
    """Sells what is held (buys it back), the newest units first."""
    left = lots_of(fills)
    if not left:
        return
    _receive(lane, lane.side * notional_of(fills), left)
    while left:
        now = min(left, lane.units[-1].lots)
        lane.units[-1].lots -= now
        left -= now
        if not lane.units[-1].lots:
            lane.units.pop()
    if not lane.units:
        closed = _close_trade(lane, row, False, report)
        lane.since_close, lane.last_r = 0, closed.r
        lane.win_share += lane.rules.recent_rate * ((closed.pnl > 0) - lane.win_share)


def _enter(lane: Lane, fills: Fills, side: int, row: int) -> None:
    """Opens a trade, or adds a unit to it."""
    lots, notional = lots_of(fills), notional_of(fills)
    if not lots:
        return
    if not lane.trade:
        lane.trade = Trade(side, lane.history.ts[row])
        lane.trade.best_price = lane.best_close(row)
    # The tape stores the range as float32; a stop exactly at a price must not depend on that rounding.
    trail = max(
        lane.rules.trail_range_multiple * float32(lane.history.range_ticks[row]), lane.rules.trail_min_ticks
    )
    _receive(lane, -side * notional, lots)
    lane.units.append(Unit(lots, Fraction(notional, lots), trail))
    trade = lane.trade
    trade.entry_notional += notional
    trade.entry_lots += lots
    trade.risk += lots * trail
    trade.max_lots = max(trade.max_lots, lane.size)
    lane.defects["bad_price"] += notional == 0 or abs(notional) >= MAX_PRICE * lots


def _receive(lane: Lane, cash: int, lots: int) -> None:
    """Books `cash` (tick lots) and the fee of `lots` to the account and the open trade."""
    assert lane.trade
    lane.cash += cash
    lane.fee_lots += lots
    lane.trade.cash += cash
    lane.trade.fee_lots += lots


def _close_trade(lane: Lane, row: int, forced: bool, report: Report) -> Closed:
    trade = lane.trade
    assert trade
    pnl = lane.money(trade.cash, trade.fee_lots)
    closed = Closed(
        side=trade.side,
        lots=trade.max_lots,
        pnl=pnl,
        fee_lots=trade.fee_lots,
        age=trade.age,
        entry_ns=trade.entry_ns,
        exit_ns=lane.history.ts[row],
        entry=Fraction(trade.entry_notional, trade.entry_lots),
        exit=Fraction(trade.entry_notional + trade.side * trade.cash, trade.entry_lots),
        forced=forced,
        r=float(pnl) / trade.risk,
    )
    report.closed.append(closed)
    lane.realized += pnl
    lane.trade = None
    return closed


def _mark(lane: Lane) -> None:
    """High-water marks of the open trade at the row where the step ends."""
    if lane.trade:
        better = max if lane.side > 0 else min
        lane.trade.best_price = better(lane.trade.best_price, lane.best_close(lane.row))
        lane.trade.peak_r = max(lane.trade.peak_r, lane.unrealized_r())


def _leave(lane: Lane, crosses_gap: bool, report: Report) -> None:
    """The forced exit: the order in flight is cancelled, what is held is closed at the book."""
    lane.defects["cancelled"] += lane.pending is not None
    lane.pending = None
    if not lane.trade:
        return
    value, beyond = lane.close_value(lane.row)
    report.forced_lots = -lane.lots
    report.spread_cost += lane.lots * lane.history.mid(lane.row) - value
    lane.defects["clamped"] += beyond > 0
    lane.defects["gap"] += crosses_gap
    _receive(lane, value, lane.size)
    lane.units = []
    _close_trade(lane, lane.row, True, report)


def float32(value: float) -> float:
    """The nearest float32, as a Python number."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
