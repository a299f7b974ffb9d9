"""Small recorded markets for the replay's tests, as a tape and as the oracle's history of the same rows."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch

from tests.oracles.history import History, Rules, Segment
from trainer.config import Config, InstrumentConfig
from trainer.market import Outcome, Tape, feasible_actions, reset_lanes, risk_stage, step_lanes
from trainer.market.schedule import Span
from trainer.market.tape import TapeRows, tape_from_arrays
from trainer.types import NUM_FEATURES, Action

MS = 1_000_000
Level = tuple[int, int]


class Recorded(NamedTuple):
    """One market in both forms."""

    tape: Tape
    history: History
    config: Config
    instrument: InstrumentConfig

    def __repr__(self) -> str:  # hypothesis shows it when an example fails
        return f"{len(self.history.ts)} rows from {self.history.ts[0]} ns under {self.history.rules}"


def record(
    ts_ms: Sequence[int],
    bids: Sequence[Sequence[Level]],
    asks: Sequence[Sequence[Level]],
    *,
    spans: Sequence[Span] | None = None,
    end_ms: int | None = None,
    decision_rows: int = 1,
    decision_ms: float | None = None,
    unit_lots: int = 1,
    fee_ticks: float = 0.25,
    start_row: int = 0,
    **market: object,
) -> Recorded:
    """A market from (price, size) levels per row; by default one segment that closes long after its end."""
    ts = np.asarray(ts_ms, np.int64) * MS
    far = int(ts[-1]) + 10_000 * MS
    spans = spans or [Span(0, len(ts), 0, far, False)]
    end_ns = far if end_ms is None else end_ms * MS
    data = {"decision_rows": decision_rows, "decision_ms": decision_ms, "window_rows": 4}
    config = Config().replaced(data=data, market=market)
    instrument = InstrumentConfig(
        name="test",
        tick_size=Decimal(1),
        tick_value=1.0,
        fee_per_lot=fee_ticks,
        calendar="always",
        unit_lots=unit_lots,
    )
    bid, ask = np.asarray(bids, np.int32), np.asarray(asks, np.int32)
    features = np.arange(len(ts) * NUM_FEATURES, dtype=np.float32).reshape(len(ts), NUM_FEATURES)
    rows = TapeRows(ts, bid[..., 0], ask[..., 0], bid[..., 1], ask[..., 1], features, spans)
    tape = tape_from_arrays(rows, config, end_ns=end_ns, start_row=start_row)
    history = History(
        ts.tolist(),
        [[(int(p), int(s)) for p, s in row] for row in bids],
        [[(int(p), int(s)) for p, s in row] for row in asks],
        [Segment(*span) for span in spans],
        end_ns,
        rules_of(config, instrument),
    )
    return Recorded(tape, history, config, instrument)


def rules_of(config: Config, instrument: InstrumentConfig) -> Rules:
    """The rules as the oracle is told them; the fee as the fraction that its decimals name."""
    market = config.market.model_dump()
    fee = Fraction(str(instrument.fee_per_lot)) / Fraction(str(instrument.tick_value))
    known = {name: value for name, value in market.items() if name in Rules.__annotations__}
    period_ms = config.data.decision_ms
    return Rules(
        config.data.decision_rows,
        unit_lots=instrument.unit_lots,
        fee_ticks=fee,
        decision_ns=None if period_ms is None else int(period_ms * MS),
        **known,
    )


def steady(num_rows: int, *, moves: Sequence[int] = (), size: int = 5, **options: object) -> Recorded:
    """Rows 10 ms apart, spread 1, three levels of `size` lots; row by row the mid moves by `moves` ticks."""
    steps = np.zeros(num_rows, np.int64)
    steps[: len(moves)] = moves
    best = 1000 + np.cumsum(steps)
    bids = [[(int(b) - k, size) for k in range(3)] for b in best]
    asks = [[(int(b) + 1 + k, size) for k in range(3)] for b in best]
    return record(np.arange(num_rows) * 10, bids, asks, **options)  # type: ignore[arg-type]


def random_market(seed: int, num_rows: int = 90) -> Recorded:
    """Thin, jumpy, partly standing books with missing levels, odd clocks, gaps, sessions and rolls."""
    rng = np.random.default_rng(seed)
    spans, jumps = _random_spans(rng, num_rows)
    ts = np.cumsum(rng.choice([0, 1, 2, 7, 30], num_rows) + jumps)
    spans = [s._replace(close_ns=int(ts[s.end - 1] + rng.integers(0, 60)) * MS) for s in spans]
    for k in range(len(spans) - 2, -1, -1):
        if spans[k].session == spans[k + 1].session:
            spans[k] = spans[k]._replace(close_ns=spans[k + 1].close_ns)
    bids, asks = _random_books(rng, num_rows)
    return record(
        ts.tolist(),
        bids,
        asks,
        spans=spans,
        end_ms=int(ts[-1]) + int(rng.integers(1, 40)),
        decision_rows=int(rng.integers(1, 5)),
        decision_ms=[None, None, 3.0, 12.5][seed % 4],
        unit_lots=int(rng.integers(1, 5)),
        fee_ticks=float(rng.choice([0.0, 0.16, 0.35, 1.0])),
        latency_ns=int(rng.choice([0, 1, 5, 20])) * MS,
        episode_decisions=int(rng.integers(8, 20)),
        num_units=int(rng.integers(1, 5)),
        trail_range_multiple=float(rng.choice([0.5, 2.0])),
    )


def _random_spans(rng: np.random.Generator, num_rows: int) -> tuple[list[Span], np.ndarray]:
    """Cut rows at random; each cut is a gap, a session break or a roll."""
    cuts = sorted(rng.choice(np.arange(20, num_rows - 20), rng.integers(0, 4), replace=False).tolist())
    bounds, session, spans = [0, *cuts, num_rows], 0, []
    jumps = np.zeros(num_rows, np.int64)
    for first, end in pairwise(bounds):
        kind = str(rng.choice(["gap", "session", "roll"])) if end < num_rows else "end"
        spans.append(Span(first, end, session, 0, kind == "gap"))
        session += kind == "session"
        if kind in ("gap", "session"):
            jumps[end] = 100_000
    return spans, jumps


def _random_books(rng: np.random.Generator, num_rows: int) -> tuple[list[list[Level]], list[list[Level]]]:
    best, bids, asks = int(rng.choice([-3, 0, 500])), [], []
    for row in range(num_rows):
        if row and rng.random() < 0.4:  # the book stands still: what was taken must stay taken
            bids.append(bids[-1])
            asks.append(asks[-1])
            continue
        best += int(rng.integers(-2, 3))
        bids.append(_side(rng, best, -1))
        asks.append(_side(rng, best + int(rng.integers(1, 4)), +1))
    return bids, asks


def _side(rng: np.random.Generator, best: int, away: int, num_levels: int = 4) -> list[Level]:
    visible = int(rng.integers(1, num_levels + 1))
    prices = best + away * np.concatenate([[0], np.cumsum(rng.integers(1, 3, visible - 1))])
    levels = [(int(price), int(rng.integers(1, 5))) for price in prices]
    return levels + [(levels[-1][0], 0)] * (num_levels - visible)


class Replay:
    """One lane driven action by action."""

    def __init__(self, market: Recorded, row: int = 0, *, limit: int | None = None, left: int = 100) -> None:
        self.market = market
        limits = None if limit is None else torch.tensor([limit])
        self.lanes = reset_lanes(
            market.tape, torch.tensor([row]), limits, torch.tensor([left]), market.config.market
        )

    def act(self, action: Action, anchor: int = 0) -> Outcome:
        """One step; the action must be feasible."""
        assert action in self.allowed(), f"{action!r} is not feasible"
        m = self.market
        self.lanes, out = step_lanes(
            m.tape, self.lanes, torch.tensor([int(action)]), torch.tensor([anchor]), m.config, m.instrument
        )
        return out

    def allowed(self) -> set[Action]:
        """Feasible actions now."""
        mask = feasible_actions(self.market.tape, self.lanes, self.market.config.market)[0]
        return {Action(index) for index in mask.nonzero()[:, 0].tolist()}

    def risk(self, action: Action, *, ratio: float = 2.0, mean: float = 0.0) -> tuple[Action, bool]:
        """What the risk stage makes of `action`."""
        out, stopped = risk_stage(
            self.market.tape,
            self.lanes,
            torch.tensor([int(action)]),
            torch.tensor(ratio),
            torch.tensor(mean),
            self.market.config.market,
        )
        return Action(int(out)), bool(stopped)
