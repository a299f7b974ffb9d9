"""Scalar oracle of the market replay: one lane, one row at a time, plain Python numbers only.

Written from the design (SYSTEM.md sections 3 and 14), not from the tensor code: a slow, obvious replay with
which `trainer.market` must agree, integers exactly.
"""

import math
import struct

from tests.oracles.history import History
from tests.oracles.records import Closed, Report, Trade, Unit

HOLD, OPEN_LONG, OPEN_SHORT, FLAT_LONG, FLAT_SHORT = 0, 1, 2, 3, 4
ADD_LONG, ADD_SHORT, TIGHTEN, LOOSEN, REVERSE, HALF = 5, 6, 7, 8, 9, 10
ENTRIES = {OPEN_LONG, OPEN_SHORT, ADD_LONG, ADD_SHORT, REVERSE}
NO_ORDER = {HOLD, TIGHTEN, LOOSEN}
MAX_PRICE = 2**31 - 1  # ticks, the limit of the stored price


class Lane:
    """One lane of the replay."""

    def __init__(self, history: History, row: int, limit_row: int, episode_left: int) -> None:
        self.history, self.rules = history, history.rules
        self.limit_row = limit_row
        self.cash = self.fee_lots = 0
        self.realized = self.peak_equity = 0.0
        self.defects = dict.fromkeys(("partial", "unfilled", "cancelled", "clamped", "gap", "bad_price"), 0)
        self._start(row, episode_left)

    def _start(self, row: int, episode_left: int) -> None:
        self.row, self.episode_left = row, episode_left
        self.trade: Trade | None = None
        self.units: list[Unit] = []
        self.pending: tuple[int, int, int] | None = None  # action, fill row, decisions since
        self.taken: dict[str, dict[int, tuple[int, int]]] = {
            "bid": {},
            "ask": {},
        }  # price: (size shown, taken)
        self.since_close = 0
        self.order_share = self.win_share = self.last_r = 0.0

    # -- what the lane holds and what that is worth

    @property
    def size(self) -> int:
        return sum(u.lots for u in self.units)

    @property
    def lots(self) -> int:
        return self.size * (self.trade.side if self.trade else 0)

    def side_at(self, name: str, row: int) -> list[tuple[int, int]]:
        return self.history.bids[row] if name == "bid" else self.history.asks[row]

    def remaining(self, name: str, row: int) -> list[tuple[int, int, int, int]]:
        """(price, size shown, already taken by this lane, left) of each level."""
        out = []
        for price, shown in self.side_at(name, row):
            seen, taken = self.taken[name].get(price, (shown, 0))
            taken = taken if shown == seen and shown else 0
            out.append((price, shown, taken, shown - taken))
        return out

    def fills(self, name: str, row: int, lots: int) -> list[int]:
        """Price of every single lot that `lots` would get."""
        prices = [price for price, _, _, left in self.remaining(name, row) for _ in range(left)]
        return prices[:lots]

    def take(self, name: str, row: int, lots: int) -> list[int]:
        """As `fills`, and remember what was taken."""
        prices = self.fills(name, row, lots)
        if prices:
            levels, left = {}, len(prices)
            for price, shown, before, size in self.remaining(name, row):
                now = min(left, size)
                left -= now
                if shown:
                    levels[price] = (shown, before + now)
            self.taken[name] = levels
        return prices

    def close_value(self, row: int) -> tuple[int, int]:
        """Cash a close of everything would bring at `row`, and the lots beyond the visible depth."""
        if not self.trade:
            return 0, 0
        name = "bid" if self.trade.side > 0 else "ask"
        prices = self.fills(name, row, self.size)
        beyond = self.size - len(prices)
        worst = self.side_at(name, row)[-1][0] - self.trade.side
        return self.trade.side * (sum(prices) + beyond * worst), beyond

    def best_close(self, row: int) -> int:
        assert self.trade
        return self.side_at("bid" if self.trade.side > 0 else "ask", row)[0][0]

    def money(self, cash: int, fee_lots: int) -> float:
        return cash - fee_lots * self.rules.fee_ticks

    def equity_mid(self) -> float:
        return self.money(self.cash, self.fee_lots) + self.lots * self.history.mid(self.row)

    def equity_close(self) -> float:
        return self.money(self.cash, self.fee_lots) + self.close_value(self.row)[0]

    def open_pnl(self) -> float:
        if not self.trade:
            return 0.0
        return self.money(self.trade.cash, self.trade.fee_lots) + self.close_value(self.row)[0]

    def unrealized_r(self) -> float:
        if not self.trade:
            return 0.0
        at_mid = self.lots * self.history.mid(self.row)
        return (self.money(self.trade.cash, self.trade.fee_lots) + at_mid) / self.trade.risk

    def trail(self, unit: Unit) -> float:
        low, high = self.rules.trail_bounds
        return unit.initial_trail * min(max(self.rules.trail_step**unit.moves, low), high)

    def stop_rooms(self) -> list[float]:
        """How far the closing price may still go against each unit."""
        assert self.trade
        side, price = self.trade.side, self.best_close(self.row)
        return [side * price - (side * self.trade.best_price - self.trail(u)) for u in self.units]

    # -- decisions

    def can_move(self, unit: Unit, by: int) -> bool:
        before = self.trail(unit)
        return self.trail(Unit(unit.lots, unit.entry, unit.initial_trail, unit.moves + by)) != before

    def feasible(self) -> set[int]:
        if self.pending:
            return {HOLD}
        left_ns = self.history.announced_end(self.row) - self.history.ts[self.row]
        enter = self.episode_left > self.rules.entry_guard_decisions and left_ns > 2 * self.rules.latency_ns
        allowed = {HOLD}
        if not self.trade:
            return allowed | ({OPEN_LONG, OPEN_SHORT} if enter else set())
        long = self.trade.side > 0
        allowed.add(FLAT_LONG if long else FLAT_SHORT)
        if enter:
            allowed.add(REVERSE)
            if len(self.units) < self.rules.num_units:
                allowed.add(ADD_LONG if long else ADD_SHORT)
        allowed |= {TIGHTEN} if any(self.can_move(u, -1) for u in self.units) else set()
        allowed |= {LOOSEN} if any(self.can_move(u, +1) for u in self.units) else set()
        return allowed | ({HALF} if self.size >= 2 else set())

    def stopped(self, mean_abs_trade: float, ratio: float) -> bool:
        if not self.trade or self.pending:
            return False
        base = max(mean_abs_trade, self.rules.stop_loss_floor_ticks * self.size)
        loss_hit = mean_abs_trade > 0 and -self.open_pnl() > ratio * base
        return loss_hit or min(self.stop_rooms()) < 0

    def after_risk(self, action: int, mean_abs_trade: float, ratio: float) -> int:
        if not self.stopped(mean_abs_trade, ratio):
            return action
        assert self.trade
        return FLAT_LONG if self.trade.side > 0 else FLAT_SHORT

    def context(self, mean_abs_trade: float) -> list[float]:
        h, row, trade, rules = self.history, self.row, self.trade, self.rules
        from_entry = to_stop = 0.0
        if trade:
            entry = sum(u.lots * u.entry for u in self.units) / self.size
            from_entry = trade.side * (h.mid(row) - entry)
            to_stop = min(self.stop_rooms())
            if mean_abs_trade > 0:
                base = max(mean_abs_trade, rules.stop_loss_floor_ticks * self.size)
                to_stop = min(to_stop, (base * rules.stop_loss_ratio + self.open_pnl()) / self.size)
        peak, unrealized = (trade.peak_r if trade else 0.0), self.unrealized_r()
        values = [
            self.lots / (rules.num_units * rules.unit_lots),
            unrealized,
            peak,
            peak - unrealized,
            math.log1p(trade.age if trade else 0) / 2,
            len(self.units) / rules.num_units,
            math.copysign(math.log1p(abs(from_entry)), from_entry),
            math.copysign(math.log1p(abs(to_stop)), to_stop),
            math.log1p(self.since_close) / 2,
            float(self.pending is not None),
            self.order_share,
            self.win_share,
            self.last_r,
            math.log1p(max(h.announced_end(row) - h.ts[row], 0) / 1e9) / 3,
            math.log1p(min(self.episode_left, rules.episode_decisions)) / 2,
            math.log1p(h.asks[row][0][0] - h.bids[row][0][0] + 2 * rules.fee_ticks),
        ]
        return [min(max(v, -5.0), 5.0) for v in values]

    # -- one step

    def step(self, action: int, anchor: int) -> Report:
        equity_before, fees_before, start_row = self.equity_mid(), self.fee_lots, self.row
        self._decide(action)
        exit_row, behind_gap = self.history.exit(start_row)
        until = max(min(self.history.next_row(start_row), exit_row, self.limit_row), start_row)
        leaves = until in (exit_row,) or until >= self.limit_row or self.episode_left == 0
        report = Report(until, 0.0, 0.0, leaves, 0.0, 0.0)
        self.since_close += 1
        crosses_gap = behind_gap and until == exit_row
        self._fill_pending(until, crosses_gap, report)
        self.row = until
        self._mark()
        if leaves:
            self._leave(crosses_gap, report)
        report.penalty = min(0.0, self.unrealized_r()) * self.rules.drawdown_penalty
        report.equity_mid, report.equity_close = self.equity_mid(), self.equity_close()
        report.reward = report.equity_mid - equity_before
        report.fee_lots = self.fee_lots - fees_before
        self.peak_equity = max(self.peak_equity, report.equity_mid)
        if leaves:
            self._start(anchor, self.rules.episode_decisions)
        return report

    def _decide(self, action: int) -> None:
        self.episode_left -= 1
        if self.trade:
            self.trade.age += 1
        if action in (TIGHTEN, LOOSEN):
            for unit in self.units:
                by = 1 if action == LOOSEN else -1
                unit.moves += by if self.can_move(unit, by) else 0
        if self.pending:
            self.pending = (*self.pending[:2], self.pending[2] + 1)
        ordered = action not in NO_ORDER
        if ordered:
            assert not self.pending
            self.pending = (action, self.history.fill_row(self.row), 0)
        self.order_share += self.rules.recent_rate * (ordered - self.order_share)

    def _fill_pending(self, until: int, crosses_gap: bool, report: Report) -> None:
        if not self.pending:
            return
        action, row, delay = self.pending
        if row > until or (crosses_gap and row == until):
            return
        self.pending = None
        side = self.trade.side if self.trade else 0
        if action in (OPEN_LONG, ADD_LONG):
            buy, asked = True, self.rules.unit_lots
        elif action in (OPEN_SHORT, ADD_SHORT):
            buy, asked = False, self.rules.unit_lots
        else:
            buy = side < 0
            asked = {HALF: self.size // 2, REVERSE: self.size + self.rules.unit_lots}.get(action, self.size)
        prices = self.take("ask" if buy else "bid", row, asked)
        report.fill_lots = len(prices) * (1 if buy else -1)
        report.fill_notional, report.fill_delay = sum(prices), delay
        report.spread_cost += sum((p - self.history.mid(row)) * (1 if buy else -1) for p in prices)
        self.defects["partial"] += 0 < len(prices) < asked
        self.defects["unfilled"] += not prices
        reduces = self.trade is not None and (side < 0) == buy
        closing = prices[: self.size] if reduces else []
        self._reduce(closing, row, report)
        self._enter(prices[len(closing) :], 1 if buy else -1, row)

    def _reduce(self, prices: list[int], row: int, report: Report) -> None:
        if not prices:
            return
        assert self.trade
        self._receive(self.trade.side * sum(prices), len(prices))
        for _ in prices:
            self.units[-1].lots -= 1
            if not self.units[-1].lots:
                self.units.pop()
        if not self.units:
            closed = self._close_trade(row, False, report)
            self.since_close, self.last_r = 0, closed.r
            self.win_share += self.rules.recent_rate * ((closed.pnl > 0) - self.win_share)

    def _enter(self, prices: list[int], side: int, row: int) -> None:
        if not prices:
            return
        if not self.trade:
            self.trade = Trade(side, self.history.ts[row])
            self.trade.best_price = self.best_close(row)
        # The tape stores the range as float32; a stop exactly at a price must not depend on that rounding.
        trail = max(
            self.rules.trail_range_multiple * float32(self.history.range_ticks(row)),
            self.rules.trail_min_ticks,
        )
        self._receive(-side * sum(prices), len(prices))
        self.units.append(Unit(len(prices), sum(prices) / len(prices), trail))
        trade = self.trade
        trade.entry_notional += sum(prices)
        trade.entry_lots += len(prices)
        trade.risk += len(prices) * trail
        trade.max_lots = max(trade.max_lots, self.size)
        self.defects["bad_price"] += sum(prices) == 0 or abs(sum(prices)) >= MAX_PRICE * len(prices)

    def _receive(self, cash: int, lots: int) -> None:
        assert self.trade
        self.cash += cash
        self.fee_lots += lots
        self.trade.cash += cash
        self.trade.fee_lots += lots

    def _close_trade(self, row: int, forced: bool, report: Report) -> Closed:
        trade = self.trade
        assert trade
        pnl = self.money(trade.cash, trade.fee_lots)
        exit_notional = trade.entry_notional + trade.side * trade.cash
        closed = Closed(
            trade.side,
            trade.max_lots,
            pnl,
            trade.fee_lots,
            trade.age,
            trade.entry_ns,
            self.history.ts[row],
            trade.entry_notional / trade.entry_lots,
            exit_notional / trade.entry_lots,
            forced,
            pnl / trade.risk,
        )
        report.closed.append(closed)
        self.realized += pnl
        self.trade = None
        return closed

    def _mark(self) -> None:
        if self.trade:
            better = max if self.trade.side > 0 else min
            self.trade.best_price = better(self.trade.best_price, self.best_close(self.row))
            self.trade.peak_r = max(self.trade.peak_r, self.unrealized_r())

    def _leave(self, crosses_gap: bool, report: Report) -> None:
        self.defects["cancelled"] += self.pending is not None
        self.pending = None
        if not self.trade:
            return
        value, beyond = self.close_value(self.row)
        report.forced_lots = -self.lots
        report.spread_cost += self.lots * self.history.mid(self.row) - value
        self.defects["clamped"] += beyond > 0
        self.defects["gap"] += crosses_gap
        self._receive(value, self.size)
        self.units = []
        self._close_trade(self.row, True, report)


def float32(value: float) -> float:
    """The nearest float32, as a Python number."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
