"""Poisoned memory: what a replay may not read is filled with extremes, and nothing changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.market.recorded import Recorded, random_market, steady
from trainer.config import Config
from trainer.data.cache import Cache
from trainer.data.normaliser import Normaliser
from trainer.data.windows import Window, plan_windows
from trainer.errors import InputError
from trainer.market import (
    Lanes,
    Outcome,
    Tape,
    build_tape,
    context_features,
    feasible_actions,
    observe,
    reset_lanes,
    risk_stage,
    step_lanes,
)
from trainer.market.tape import fit_normaliser, window_labels

NUM_LANES = 4
EXTREMES = {"low": (-1, torch.nan), "high": (1, torch.inf)}


def extreme(value: Tensor, sign: int, real: float) -> Tensor:
    """The end of the type's range everywhere; not a number, or infinite, where it is a float."""
    if value.dtype.is_floating_point:
        return torch.full_like(value, sign * real)
    if value.dtype == torch.bool:
        return torch.full_like(value, sign > 0)
    info = torch.iinfo(value.dtype)
    return torch.full_like(value, info.max if sign > 0 else info.min)


def poisoned(tape: Tape, keep: Tensor, how: str) -> Tape:
    """The tape with every row outside `keep [R] bool` filled with extremes."""
    filled = {
        name: torch.where(keep.view(-1, *[1] * (value.dim() - 1)), value, extreme(value, *EXTREMES[how]))
        for name, value in tape._asdict().items()
        if name != "anchors"
    }
    return tape._replace(**filled)


def choose(rng: np.random.Generator, allowed: np.ndarray) -> int:
    """A random allowed action, orders preferred."""
    weight = np.array([1.0, 3, 3, 0.5, 0.5, 3, 3, 1, 1, 1, 1])[allowed]
    return int(rng.choice(np.flatnonzero(allowed), p=weight / weight.sum()))


def replay(m: Recorded, tape: Tape, start: int, limit: int, seed: int) -> list[Tensor]:
    """All that lanes of the tile `start..limit` see, do and report, acting at random from `seed`."""
    rng, seen = np.random.default_rng(seed), []
    starts = torch.full((NUM_LANES,), start)
    mean, ratio = torch.tensor(1.5), torch.tensor(2.0)
    lanes = reset_lanes(tape, starts, torch.full_like(starts, limit), starts * 0 + 30, m.config.market)
    for _ in range(12):
        allowed = feasible_actions(tape, lanes, m.config.market)
        context = context_features(tape, lanes, mean, m.config.market, m.instrument)
        wanted = torch.tensor([choose(rng, a) for a in allowed.numpy()])
        action, _ = risk_stage(tape, lanes, wanted, ratio, mean, m.config.market)
        seen += [allowed, context, action, *observe(tape, lanes.cursor, m.config.data.window_rows)]
        lanes, out = step_lanes(tape, lanes, action, starts, m.config, m.instrument)
        seen += [*lanes, *out[:-1], *out.trades]
    return seen


def names() -> list[str]:
    step = ["allowed", "context", "action", "features", "elapsed"]
    return [*step, *Lanes._fields, *Outcome._fields[:-1], *Outcome.__annotations__["trades"]._fields]


@pytest.mark.parametrize("how", EXTREMES)
@given(seed=st.integers(0, 10**9))
@settings(max_examples=12, deadline=None)
def test_rows_outside_a_tile_and_its_look_back_filled_with_extremes_change_nothing(
    how: str, seed: int
) -> None:
    try:
        m = random_market(seed)
    except InputError:
        assume(False)
        raise
    anchors = m.tape.anchors
    start = int(anchors[seed % len(anchors)])
    limit = min(int(m.tape.exit_row[start]), start + 10)
    row = torch.arange(len(m.tape.ts_ns))
    keep = (row > start - m.config.data.window_rows) & (row <= limit)
    clean = replay(m, m.tape, start, limit, seed)
    dirty = replay(m, poisoned(m.tape, keep, how), start, limit, seed)
    labels = names()
    for index, (a, b) in enumerate(zip(clean, dirty, strict=True)):
        assert torch.equal(a, b), labels[index % len(labels)]


def test_the_replay_reads_no_feature_and_no_label() -> None:
    m = steady(60, moves=[1, -2, 3, 0, -1] * 12, size=2, unit_lots=3)
    blind = m.tape._replace(
        features=extreme(m.tape.features, 1, torch.nan),
        labels=extreme(m.tape.labels, 1, torch.nan),
        return_class=extreme(m.tape.return_class, 1, 0.0),
    )
    width = len(names())
    for index, (a, b) in enumerate(zip(replay(m, m.tape, 5, 40, 1), replay(m, blind, 5, 40, 1), strict=True)):
        if names()[index % width] != "features":
            assert torch.equal(a, b), names()[index % width]


def test_fields_of_no_meaning_in_an_idle_lane_are_never_read() -> None:
    m = steady(60)
    lanes = reset_lanes(m.tape, torch.tensor([5, 6]), None, torch.tensor([9, 9]), m.config.market)
    junk = torch.full_like(lanes.pending_row, 2**62)
    dirty = lanes._replace(pending_row=junk, pending_age=junk // 2)
    for action in (torch.tensor([0, 0]), torch.tensor([1, 2])):
        clean, out = step_lanes(m.tape, lanes, action, action, m.config, m.instrument)
        after, same = step_lanes(m.tape, dirty, action, action, m.config, m.instrument)
        for name in set(Lanes._fields) - {"pending_row", "pending_age"}:
            assert torch.equal(getattr(clean, name), getattr(after, name)), name
        for name in set(Outcome._fields) - {"trades"}:
            assert torch.equal(getattr(out, name), getattr(same, name)), name


def outside_filled(cache: Cache, keep: slice) -> Cache:
    """The cache with the books and features outside the rows `keep` filled with extremes."""
    columns = {}
    for name in ("bid_px", "ask_px", "bid_sz", "ask_sz", "features", "signed_volume", "trade_count"):
        column = np.array(getattr(cache, name))
        filled = extreme(torch.from_numpy(column), 1, torch.nan).numpy()
        filled[keep] = column[keep]
        columns[name] = filled
    return replace(cache, **columns)


def fitted(cache: Cache, window: Window, config: Config) -> Normaliser:
    return fit_normaliser(cache, window, window_labels(cache, window, config), config)


@pytest.mark.parametrize("fold", [0, 1])
def test_tape_of_a_window_reads_no_cache_row_outside_it_and_its_look_back(
    hour_cache: Cache, hour_config: Config, fold: int
) -> None:
    window = plan_windows(hour_cache, hour_config)[fold]
    normaliser = fitted(hour_cache, window, hour_config)
    look_back = max(window.start_row - hour_config.data.window_rows, 0)
    dirty = outside_filled(hour_cache, slice(look_back, window.end_row))
    assert not np.array_equal(dirty.bid_px, hour_cache.bid_px), "something was poisoned"
    clean = build_tape(hour_cache, window, normaliser, hour_config, "cpu")
    got = build_tape(dirty, window, normaliser, hour_config, "cpu")
    for name in Tape._fields:
        assert torch.equal(getattr(clean, name), getattr(got, name)), name
