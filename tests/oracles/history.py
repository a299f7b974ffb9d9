"""The recorded market as the scalar oracle sees it: rules, segments and rows in plain Python."""

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction

MIN_RANGE_TICKS = 0.5  # the smallest move a mid can make


@dataclass(frozen=True)
class Rules:
    """Everything the replay is told; ticks, lots, nanoseconds, decisions."""

    decision_rows: int
    latency_ns: int
    unit_lots: int
    fee_ticks: Fraction
    num_units: int = 4
    episode_decisions: int = 1024
    entry_guard_decisions: int = 2
    trail_range_multiple: float = 2.0
    trail_min_ticks: float = 2.0
    trail_step: float = 1.25
    trail_bounds: tuple[float, float] = (0.5, 2.0)
    range_decay_decisions: float = 32.0
    stop_loss_ratio: float = 2.0
    stop_loss_floor_ticks: float = 1.0
    stop_loss_measure: str = "open_trade"
    drawdown_penalty: float = 0.01
    recent_rate: float = 0.05
    decision_ns: int | None = None  # in place of rows


@dataclass(frozen=True)
class Segment:
    """Rows `first..end-1` and how they end."""

    first: int
    end: int
    session: int
    close_ns: int
    ends_in_gap: bool


@dataclass
class History:
    """The recorded book: per row two lists of (price ticks, size lots), best first; and the segments."""

    ts: list[int]
    bids: list[list[tuple[int, int]]]
    asks: list[list[tuple[int, int]]]
    segments: list[Segment]
    end_ns: int
    rules: Rules
    segment_of: list[int] = field(init=False)  # index of each row's segment
    twice_mid: list[int] = field(init=False)  # ticks
    range_ticks: list[float] = field(init=False)  # see `_ranges`

    def __post_init__(self) -> None:
        self.segment_of = [i for i, s in enumerate(self.segments) for _ in range(s.first, s.end)]
        self.twice_mid = [bid[0][0] + ask[0][0] for bid, ask in zip(self.bids, self.asks, strict=True)]
        self.range_ticks = [value for segment in self.segments for value in self._ranges(segment)]

    def mid(self, row: int) -> Fraction:
        return Fraction(self.twice_mid[row], 2)

    def fill_row(self, row: int) -> int:
        """The first row strictly after `row`, and not before its time + latency."""
        later = row + 1
        while later < len(self.ts) and self.ts[later] < self.ts[row] + self.rules.latency_ns:
            later += 1
        return later

    def next_row(self, row: int) -> int:
        """Where the decision after one at `row` is made, were there no exits."""
        if self.rules.decision_ns is None:
            return row + self.rules.decision_rows
        later = row + 1
        while later < len(self.ts) and self.ts[later] < self.ts[row] + self.rules.decision_ns:
            later += 1
        return later

    def announced_end(self, row: int) -> int:
        """Close of the session, roll or end of the window: on the calendar, whatever gaps come before it."""
        index = self.segment_of[row]
        session = self.segments[index].session
        end = min(self.segments[index].close_ns, self.end_ns)
        while index + 1 < len(self.segments) and self.segments[index + 1].session == session:
            if not self.segments[index].ends_in_gap:
                return min(end, self.ts[self.segments[index].end])
            index += 1
        return end

    def exit(self, row: int) -> tuple[int, bool]:
        """Row of the forced close and whether it lies behind an unannounced gap."""
        index = self.segment_of[row]
        segment = self.segments[index]
        out_by = self.announced_end(row) - self.rules.latency_ns
        if segment.ends_in_gap and index + 1 < len(self.segments) and self.ts[segment.end] <= out_by:
            return segment.end, True
        standing = bisect_right(self.ts, out_by, segment.first, segment.end) - 1
        return max(standing, row), False

    def _ranges(self, segment: Segment) -> list[float]:
        """Per row the mean of the mid's range over a decision's rows; a row weighs the part that it ends."""
        out, total, weight, since = [], 0.0, 0.0, segment.first
        for row in range(segment.first, segment.end):
            if self.rules.decision_ns is None:
                part = 1 / self.rules.decision_rows
                since = max(segment.first, row - self.rules.decision_rows + 1)
            else:
                passed = self.ts[row] - self.ts[row - 1] if row > segment.first else self.rules.decision_ns
                part = min(passed / self.rules.decision_ns, 1.0)
                while self.ts[since] <= self.ts[row] - self.rules.decision_ns:
                    since += 1
            seen = self.twice_mid[since : row + 1]
            share = part / self.rules.range_decay_decisions
            total = (1 - share) * total + share * (max(seen) - min(seen)) / 2
            weight = (1 - share) * weight + share
            out.append(max(total / weight, MIN_RANGE_TICKS))
        return out
