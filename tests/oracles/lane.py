"""One lane of the scalar oracle: what it holds and what that is worth, in exact numbers."""

from fractions import Fraction

from tests.oracles.book import ASK, BID, Book, lots_of, notional_of
from tests.oracles.history import History
from tests.oracles.records import Order, Trade, Unit

DEFECTS = ("partial", "unfilled", "cancelled", "clamped", "gap", "bad_price")


class Lane:
    """State of a lane between steps; `tests.oracles.sight` is what it knows, `market` what a step does."""

    def __init__(self, history: History, row: int, limit_row: int, episode_left: int) -> None:
        self.history, self.rules = history, history.rules
        self.limit_row = limit_row
        self.cash = self.fee_lots = 0
        self.realized = self.peak_equity = Fraction(0)
        self.defects = dict.fromkeys(DEFECTS, 0)
        self.start(row, episode_left)

    def start(self, row: int, episode_left: int) -> None:
        """A fresh lane at `row`; account and counts go on."""
        self.row, self.episode_left = row, episode_left
        self.book = Book(self.history)
        self.trade: Trade | None = None
        self.units: list[Unit] = []
        self.pending: Order | None = None
        self.since_close = 0
        self.order_share = self.win_share = self.last_r = 0.0

    @property
    def side(self) -> int:
        return self.trade.side if self.trade else 0

    @property
    def size(self) -> int:
        return sum(unit.lots for unit in self.units)

    @property
    def lots(self) -> int:
        return self.side * self.size

    @property
    def closing_side(self) -> int:
        return BID if self.side > 0 else ASK

    def best_close(self, row: int) -> int:
        return self.book.shown(self.closing_side, row)[0][0]

    def close_value(self, row: int) -> tuple[int, int]:
        """Cash that a close of everything would bring at `row`, and the lots beyond the visible depth."""
        if not self.trade:
            return 0, 0
        fills = self.book.fills(self.closing_side, row, self.size)
        beyond = self.size - lots_of(fills)
        worst = self.book.shown(self.closing_side, row)[-1][0] - self.side
        return self.side * (notional_of(fills) + beyond * worst), beyond

    def money(self, cash: int, fee_lots: int, halves: int = 0) -> Fraction:
        """Tick lots: `cash` and `halves` half tick lots, less the fees; one exact fraction."""
        fee = self.rules.fee_ticks
        whole = (2 * cash + halves) * fee.denominator - 2 * fee_lots * fee.numerator
        return Fraction(whole, 2 * fee.denominator)

    def at_mid(self) -> int:
        """The position at mid, half tick lots."""
        return self.lots * self.history.twice_mid[self.row]

    def equity_mid(self) -> Fraction:
        return self.money(self.cash, self.fee_lots, self.at_mid())

    def equity_close(self) -> Fraction:
        return self.money(self.cash + self.close_value(self.row)[0], self.fee_lots)

    def open_pnl(self) -> Fraction:
        """Of the open trade, at what a close would get."""
        if not self.trade:
            return Fraction(0)
        return self.money(self.trade.cash + self.close_value(self.row)[0], self.trade.fee_lots)

    def unrealized_r(self) -> float:
        if not self.trade:
            return 0.0
        return float(self.money(self.trade.cash, self.trade.fee_lots, self.at_mid())) / self.trade.risk

    def trail(self, unit: Unit, by: int = 0) -> float:
        """Ticks; after `by` more moves."""
        low, high = self.rules.trail_bounds
        return unit.initial_trail * min(max(self.rules.trail_step ** (unit.moves + by), low), high)

    def can_move(self, unit: Unit, by: int) -> bool:
        return self.trail(unit, by) != self.trail(unit)

    def stop_rooms(self) -> list[float]:
        """How far the closing price may still go against each unit, ticks."""
        assert self.trade
        price = self.best_close(self.row)
        return [self.side * price - (self.side * self.trade.best_price - self.trail(u)) for u in self.units]
