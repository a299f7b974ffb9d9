"""The recorded market as the scalar oracle sees it: rules, segments and rows in plain Python."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """Everything the replay is told; ticks, lots, nanoseconds, decisions."""

    decision_rows: int
    decision_ns: int | None  # in place of rows
    latency_ns: int
    unit_lots: int
    fee_ticks: float
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
    drawdown_penalty: float = 0.01
    recent_rate: float = 0.05


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

    def segment_index(self, row: int) -> int:
        return next(i for i, s in enumerate(self.segments) if s.first <= row < s.end)

    def mid(self, row: int) -> float:
        return (self.bids[row][0][0] + self.asks[row][0][0]) / 2

    def fill_row(self, row: int) -> int:
        later = (
            r for r in range(row + 1, len(self.ts)) if self.ts[r] >= self.ts[row] + self.rules.latency_ns
        )
        return next(later, len(self.ts))

    def next_row(self, row: int) -> int:
        """Where the next decision is made, were there no exits."""
        if self.rules.decision_ns is None:
            return row + self.rules.decision_rows
        due = self.ts[row] + self.rules.decision_ns
        return next((r for r in range(row + 1, len(self.ts)) if self.ts[r] >= due), len(self.ts))

    def announced_end(self, row: int) -> int:
        index = self.segment_index(row)
        segment, end = self.segments[index], min(self.segments[index].close_ns, self.end_ns)
        if index + 1 < len(self.segments):
            after = self.segments[index + 1]
            if after.session == segment.session and not segment.ends_in_gap:
                end = min(end, self.ts[after.first])
        return end

    def exit(self, row: int) -> tuple[int, bool]:
        """Row of the forced close and whether it lies behind an unannounced gap."""
        index = self.segment_index(row)
        segment = self.segments[index]
        if segment.ends_in_gap and index + 1 < len(self.segments):
            return segment.end, True
        out_by = self.announced_end(row) - self.rules.latency_ns
        standing = [r for r in range(segment.first, segment.end) if self.ts[r] <= out_by]
        return max(standing[-1] if standing else -1, row), False

    def range_ticks(self, row: int) -> float:
        """Mean of the mid's range over a decision's rows; a row weighs the part of a decision it ends."""
        first, rules = self.segments[self.segment_index(row)].first, self.rules
        total = weight = 0.0
        for r in range(first, row + 1):
            if rules.decision_ns is None:
                part = 1 / rules.decision_rows
                own = range(max(first, r - rules.decision_rows + 1), r + 1)
            else:
                part = 1.0 if r == first else min((self.ts[r] - self.ts[r - 1]) / rules.decision_ns, 1.0)
                own = [q for q in range(first, r + 1) if self.ts[q] > self.ts[r] - rules.decision_ns]
            mids = [self.mid(q) for q in own]
            share = part / rules.range_decay_decisions
            total = (1 - share) * total + share * (max(mids) - min(mids))
            weight = (1 - share) * weight + share
        return max(total / weight, 0.5)
