"""What a lane of the scalar oracle knows at its row: its feasible actions, its stops and its context."""

import math
from fractions import Fraction

from tests.oracles.lane import Lane

HOLD, OPEN_LONG, OPEN_SHORT, FLAT_LONG, FLAT_SHORT = 0, 1, 2, 3, 4
ADD_LONG, ADD_SHORT, TIGHTEN, LOOSEN, REVERSE, HALF = 5, 6, 7, 8, 9, 10


def feasible(lane: Lane) -> set[int]:
    if lane.pending:
        return {HOLD}
    rules = lane.rules
    left_ns = lane.history.announced_end(lane.row) - lane.history.ts[lane.row]
    enter = lane.episode_left > rules.entry_guard_decisions and left_ns > 2 * rules.latency_ns
    allowed = {HOLD}
    if not lane.trade:
        return allowed | ({OPEN_LONG, OPEN_SHORT} if enter else set())
    long = lane.side > 0
    allowed.add(FLAT_LONG if long else FLAT_SHORT)
    if enter:
        allowed.add(REVERSE)
        if len(lane.units) < rules.num_units:
            allowed.add(ADD_LONG if long else ADD_SHORT)
    allowed |= {TIGHTEN} if any(lane.can_move(u, -1) for u in lane.units) else set()
    allowed |= {LOOSEN} if any(lane.can_move(u, +1) for u in lane.units) else set()
    return allowed | ({HALF} if lane.size >= 2 else set())


def stop_loss_excess(lane: Lane, mean_abs_trade: float, ratio: float) -> Fraction:
    """Tick lots by which the loss exceeds the stop-loss; above 0 it is hit."""
    base = max(mean_abs_trade, lane.rules.stop_loss_floor_ticks * lane.size)
    loss = -lane.open_pnl()
    if lane.rules.stop_loss_measure == "lifetime_peak":
        loss = lane.peak_equity - lane.realized
    return loss - Fraction(ratio) * Fraction(base)


def stopped(lane: Lane, mean_abs_trade: float, ratio: float) -> bool:
    """A stop is hit at the lane's row."""
    if not lane.trade or lane.pending:
        return False
    lost = mean_abs_trade > 0 and stop_loss_excess(lane, mean_abs_trade, ratio) > 0
    return lost or min(lane.stop_rooms()) < 0


def flattening(lane: Lane) -> int:
    """The action that closes what the lane holds."""
    return FLAT_LONG if lane.side > 0 else FLAT_SHORT


def context(lane: Lane, mean_abs_trade: float) -> list[float]:
    """The 16 context features, in the order of the design."""
    h, row, trade, rules = lane.history, lane.row, lane.trade, lane.rules
    from_entry = to_stop = 0.0
    if trade:
        entry = sum(u.lots * float(u.entry) for u in lane.units) / lane.size
        from_entry = trade.side * (h.twice_mid[row] / 2 - entry)
        to_stop = min(lane.stop_rooms())
        if mean_abs_trade > 0:
            excess = stop_loss_excess(lane, mean_abs_trade, rules.stop_loss_ratio)
            to_stop = min(to_stop, -float(excess) / lane.size)
    peak, unrealized = (trade.peak_r if trade else 0.0), lane.unrealized_r()
    left_s = max(h.announced_end(row) - h.ts[row], 0) / 1e9
    values = [
        lane.lots / (rules.num_units * rules.unit_lots),
        unrealized,
        peak,
        peak - unrealized,
        math.log1p(trade.age if trade else 0) / 2,
        len(lane.units) / rules.num_units,
        math.copysign(math.log1p(abs(from_entry)), from_entry),
        math.copysign(math.log1p(abs(to_stop)), to_stop),
        math.log1p(lane.since_close) / 2,
        float(lane.pending is not None),
        lane.order_share,
        lane.win_share,
        lane.last_r,
        math.log1p(left_s) / 3,
        math.log1p(min(max(lane.episode_left, 0), rules.episode_decisions)) / 2,
        math.log1p(h.asks[row][0][0] - h.bids[row][0][0] + 2 * float(rules.fee_ticks)),
    ]
    return [min(max(v, -5.0), 5.0) for v in values]
