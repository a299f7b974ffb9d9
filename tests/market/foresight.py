"""Two markets that are equal up to a time: nothing that a lane sees or does up to it may differ by a bit.

What the calendar announces may be known before it comes: the close of the session, a roll, the end of the
window. That no row stands between the last one and an announced exit is known at that exit only.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from tests.market.acting import Script
from tests.market.recorded import Recorded
from trainer.market import (
    Lanes,
    Outcome,
    Tape,
    context_features,
    feasible_actions,
    observe,
    risk_stage,
    step_lanes,
)
from trainer.market.schedule import Span
from trainer.market.tape import TapeRows, tape_from_arrays
from trainer.types import NUM_FEATURES

# Fields of which row t reads rows up to t; the others are targets or the schedule that the replay obeys.
PAST_ONLY = ("ts_ns", "book", "features", "elapsed", "first_row", "range_ticks", "close_ns")
FOREVER = 1 << 62
MEAN, RATIO = torch.tensor(1.5), torch.tensor(1.0)


class Seen(NamedTuple):
    """One step of all lanes."""

    before: Lanes
    view: dict[str, Tensor]  # what they knew and chose at their rows
    after: Lanes
    outcome: Outcome
    known_ns: Tensor  # [B] when all of the step is known


def watch(m: Recorded, script: Script, pool: Tensor) -> list[Seen]:
    """All that scripted lanes which start and go on at rows of `pool` see and do."""
    lanes, steps, market = script.reset(m, pool), [], m.config.market
    for index in range(len(script.actions)):
        allowed = feasible_actions(m.tape, lanes, market)
        wanted = script.pick(index, allowed.numpy())
        action, hit = risk_stage(m.tape, lanes, wanted, RATIO, MEAN, market)
        features, elapsed = observe(m.tape, lanes.cursor, m.config.data.window_rows)
        context = context_features(m.tape, lanes, MEAN, market, m.instrument)
        view = {"mask": allowed, "context": context, "stop": hit, "action": action}
        view |= {"features": features, "elapsed": elapsed}
        before = lanes
        lanes, out = step_lanes(m.tape, lanes, action, script.anchors(index, pool), m.config, m.instrument)
        steps.append(Seen(before, view, lanes, out, known_ns(m, before, out)))
    return steps


def known_ns(m: Recorded, before: Lanes, out: Outcome) -> Tensor:
    """The time of a step's last row, or of the announced exit before which no further row came."""
    tape, last = m.tape, len(m.tape.ts_ns) - 1
    following = torch.where(out.row < last, tape.ts_ns[(out.row + 1).clamp(max=last)], FOREVER)
    announced = tape.close_ns[before.cursor] - m.config.market.latency_ns
    none_came = (following > announced) | (following >= tape.close_ns[before.cursor])
    standing = (out.row == tape.exit_row[before.cursor]) & none_came
    return torch.where(standing, torch.maximum(out.ts_ns, announced), out.ts_ns)


def require_same_past(one: Recorded, other: Recorded, script: Script, pool: Tensor, ts_ns: int) -> int:
    """Tape, sight and replay of both markets agree up to `ts_ns`; how many steps of lanes that were.

    Lanes start at rows of `pool [M] int64`; those after `ts_ns` are left out.
    """
    num_past = int(torch.searchsorted(one.tape.ts_ns, ts_ns, right=True))
    assert num_past == torch.searchsorted(other.tape.ts_ns, ts_ns, right=True) > 0
    require_same_rows(one.tape, other.tape, num_past)
    pool = pool[pool < num_past]
    alive, compared = torch.ones(len(script.starts), dtype=torch.bool), 0
    for a, b in zip(watch(one, script, pool), watch(other, script, pool), strict=True):
        alive = alive & (one.tape.ts_ns[a.before.cursor] <= ts_ns)
        require_equal(a.view, b.view, alive)
        alive = alive & (a.known_ns <= ts_ns) & (b.known_ns <= ts_ns)
        require_equal(state_fields(a.after, num_past), state_fields(b.after, num_past), alive)
        require_equal(outcome_fields(a.outcome), outcome_fields(b.outcome), alive)
        compared += int(alive.sum())
    return compared


def require_same_rows(one: Tape, other: Tape, num_past: int) -> None:
    """The rows `[0, num_past)` are equal; so are labels that end before row `num_past`."""
    for name in PAST_ONLY:
        mine, theirs = getattr(one, name)[:num_past], getattr(other, name)[:num_past]
        assert torch.equal(mine, theirs), f"{name} of a row saw later ones"
    # A later fill row is not known yet; whether it lies in the past is.
    fills = (tape.fill_row[:num_past].clamp(max=num_past) for tape in (one, other))
    assert torch.equal(*fills), "fill rows saw later ones"


def state_fields(lanes: Lanes, num_past: int) -> dict[str, Tensor]:
    fields = lanes._asdict()
    return fields | {"pending_row": lanes.pending_row.clamp(max=num_past)}


def outcome_fields(out: Outcome) -> dict[str, Tensor]:
    fields = out._asdict()
    trades = fields.pop("trades")
    return fields | {f"trade {name}": value for name, value in trades._asdict().items()}


def require_equal(one: dict[str, Tensor], other: dict[str, Tensor], where: Tensor) -> None:
    """Bit for bit, in the lanes `where [B]`."""
    for name, value in one.items():
        assert same_bits(value[where], other[name][where]), f"{name} saw later rows"


def same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


def with_future(m: Recorded, row: int, seed: int) -> Recorded:
    """`m` up to the last row of the time of `row`, and after it random rows, gaps and sessions.

    Session closes and the window's end stay: they are announced. Nothing else after the row does.
    """
    tape, rng = m.tape, np.random.default_rng(seed)
    ts = tape.ts_ns.numpy()
    end = int(np.searchsorted(ts, ts[row], side="right"))
    later, spans = _later(m, end, rng)
    num = len(later)
    book = np.concatenate([tape.book[:end].numpy(), _books(tape.book[end - 1].numpy(), num, rng)])
    features = np.concatenate([tape.features[:end].numpy(), rng.normal(size=(num, NUM_FEATURES))])
    sides = (book[:, 0, 0], book[:, 1, 0], book[:, 0, 1], book[:, 1, 1])
    rows = TapeRows(np.concatenate([ts[:end], later]), *sides, features.astype(np.float32), spans)
    return m._replace(tape=tape_from_arrays(rows, m.config, end_ns=m.history.end_ns))


def _later(m: Recorded, end: int, rng: np.random.Generator) -> tuple[np.ndarray, list[Span]]:
    """Times of the rows from `end` on, and all segments: gaps anywhere, rolls and closes as announced."""
    history, now = m.history, int(m.tape.ts_ns[end - 1])
    index = history.segment_of[end - 1]
    current = history.segments[index]
    steps = rng.choice([1, 1_000_000, 7_000_000, 30_000_000, 900_000_000], rng.integers(8, 200))
    times, announced = now + np.cumsum(steps), history.announced_end(end - 1)
    rolls = announced < min(current.close_ns, history.end_ns)
    if rolls:
        times = np.union1d(times, [announced])
    times = times[times < history.end_ns]
    until = int(np.searchsorted(times, announced))
    # Gaps, every other time right behind the row after which the futures part.
    cuts = sorted({0, int(rng.integers(until))} if rng.random() < 0.5 else {until // 2}) if until else []
    spans = [Span(s.first, s.end, s.session, s.close_ns, s.ends_in_gap) for s in history.segments[:index]]
    firsts = [current.first, *(end + cut for cut in cuts)]
    for first, after in pairwise([*firsts, end + until]):
        spans.append(Span(first, after, current.session, current.close_ns, after < end + until))
    if until < len(times):
        close_ns = current.close_ns if rolls else FOREVER
        today = int(np.searchsorted(times, close_ns))
        spans.append(Span(end + until, end + today, current.session + (not rolls), close_ns, False))
        if today < len(times):
            spans.append(Span(end + today, end + len(times), current.session + 1, FOREVER, False))
    return times, spans


def _books(last: np.ndarray, num: int, rng: np.random.Generator) -> np.ndarray:
    """Books `[num, 2, 2, L]` after the book `last`: its prices moved as a whole, all sizes new."""
    books = np.repeat(last[None], num, 0)
    books[:, :, 0] += np.cumsum(rng.integers(-3, 4, num)).astype(np.int32)[:, None, None]
    books[:, :, 1] = rng.integers(0, 9, books[:, :, 1].shape)
    return books
