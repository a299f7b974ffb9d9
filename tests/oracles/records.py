"""What the scalar oracle of the market replay keeps and reports."""

from dataclasses import dataclass, field


@dataclass
class Unit:
    lots: int
    entry: float
    initial_trail: float
    moves: int = 0  # loosened minus tightened


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
    pnl: float
    fee_lots: int
    age: int
    entry_ns: int
    exit_ns: int
    entry: float
    exit: float
    forced: bool
    r: float


@dataclass
class Report:
    """What one step did."""

    row: int
    reward: float
    penalty: float
    truncated: bool
    equity_mid: float
    equity_close: float
    fill_lots: int = 0
    fill_notional: int = 0
    fill_delay: int = 0
    forced_lots: int = 0
    fee_lots: int = 0
    spread_cost: float = 0.0
    closed: list[Closed] = field(default_factory=list)
