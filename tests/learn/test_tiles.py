"""Evaluation tiles: every decision row of the test window once, whatever trains beside it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.market.recorded import MS, record, steady
from trainer.learn.tiles import count_decisions, cut_tiles
from trainer.market.schedule import Span


def decision_rows(start: int, limit: int, step: int, decision_ms: float | None) -> list[int]:
    """Rows lie 10 ms apart."""
    return list(range(start, limit, step if decision_ms is None else math.ceil(decision_ms / 10)))


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 70), min_size=1, max_size=4),
    start_row=st.integers(0, 25),
    step=st.integers(1, 4),
    tile_decisions=st.integers(10, 20),
    decision_ms=st.sampled_from([None, 10.0, 25.0]),
)
def test_tiles_hold_every_decision_row_of_every_segment_exactly_once(
    lengths: list[int], start_row: int, step: int, tile_decisions: int, decision_ms: float | None
) -> None:
    lengths = [60, *lengths]  # room for a lane in the first segment
    bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    far = (bounds[-1] + 1000) * 10 * MS
    spans = [Span(low, high, 0, far, high < bounds[-1]) for low, high in itertools.pairwise(bounds)]
    level = [[(1000 - k, 5) for k in range(3)]], [[(1001 + k, 5) for k in range(3)]]
    market = record(
        list(range(0, bounds[-1] * 10, 10)), level[0] * bounds[-1], level[1] * bounds[-1],
        spans=spans, decision_rows=step, decision_ms=decision_ms, start_row=start_row,
    )  # fmt: skip
    config = market.config.replaced(evaluate={"tile_decisions": tile_decisions})
    tiles = cut_tiles(market.tape, start_row, config)
    exits = market.tape.exit_row.numpy()
    expected = [
        row
        for low, high in itertools.pairwise(bounds)
        if max(low, start_row) < high
        for row in decision_rows(max(low, start_row), int(exits[low]), step, decision_ms)
    ]
    pairs = zip(tiles.start_row.tolist(), tiles.limit_row.tolist(), strict=True)
    found = [row for start, limit in pairs for row in decision_rows(start, limit, step, decision_ms)]
    assert found == expected
    assert count_decisions(market.tape, start_row) == len(expected)
    lengths_of_tiles = tiles.limit_row - tiles.start_row
    assert (lengths_of_tiles > 0).all()
    assert (lengths_of_tiles <= tile_decisions * max(step, 3 if decision_ms else 1)).all()


@pytest.mark.parametrize("lanes", [1, 16, 1024])
def test_the_number_of_lanes_does_not_change_the_tiles(lanes: int) -> None:
    market = steady(200)
    config = market.config.replaced(evaluate={"tile_decisions": 30}, learn={"n_backtests": lanes})
    tiles = cut_tiles(market.tape, 5, config)
    assert tiles.start_row.tolist() == [5, 35, 65, 95, 125, 155, 185]
    assert tiles.limit_row.tolist() == [35, 65, 95, 125, 155, 185, 199]


def test_a_window_without_tradeable_rows_has_no_tiles() -> None:
    market = steady(60)
    assert len(cut_tiles(market.tape, 59, market.config)) == 0
