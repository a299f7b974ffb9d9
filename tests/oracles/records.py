"""What the scalar oracle of the market replay keeps and reports."""

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass
class Unit:
    lots: int
    entry: Fraction
    initial_trail: float
    moves: int = 0  # loosened minus tightened


@dataclass
class Order:
    """An order in flight."""

    action: int
    row: int  # where it meets the book
    age: int = 0  # decisions since it was sent


@dataclass
class Trade:
    """A trade from flat to flat, or to the reversal."""

    side: int
    entry_ns: int
    cash: int = 0
    fee_lots: int = 0
    entry_notional: int = 0
    entry_lots: int = 0
    risk: float = 0.0
    max_lots: int = 0
    age: int = 0
    best_price: int = 0
    peak_r: float = 0.0


@dataclass
class Closed:
    """A closed trade, as reported."""

    side: int
    lots: int
    pnl: Fraction
    fee_lots: int
    age: int
    entry_ns: int
    exit_ns: int
    entry: Fraction
    exit: Fraction
    forced: bool
    r: float


@dataclass
class Report:
    """What one step did; money in tick lots, exact."""

    row: int
    truncated: bool
    ordered: bool
    reward: Fraction = Fraction(0)
    penalty: float = 0.0
    unrealized_r: float = 0.0
    equity_mid: Fraction = Fraction(0)
    equity_close: Fraction = Fraction(0)
    lots: int = 0
    fill_lots: int = 0
    fill_notional: int = 0
    fill_delay: int = 0
    forced_lots: int = 0
    fee_lots: int = 0
    spread_cost: Fraction = Fraction(0)
    closed: list[Closed] = field(default_factory=list)
