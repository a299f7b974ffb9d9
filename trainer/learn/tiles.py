"""Evaluation tiles: the test window cut so that every row is replayed exactly once (SYSTEM.md section 10)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer.config import Config
from trainer.market.tape import Tape


class Tiles(NamedTuple):
    """`[M]` tiles in time order, in tape rows. A tile never crosses a segment."""

    start_row: NDArray[np.int64]
    limit_row: NDArray[np.int64]  # last row, inclusive; the next tile of the segment starts there

    def __len__(self) -> int:
        return len(self.start_row)


def cut_tiles(tape: Tape, start_row: int, config: Config) -> Tiles:
    """Cuts each segment from `start_row` on into tiles of `evaluate.tile_decisions` decisions.

    The last tile of a segment may be shorter. It is not merged into its neighbour: how long a tile may become
    would then tell the agent how many rows follow. Reads the segments' bounds only.
    """
    next_row = tape.next_row.tolist()
    starts, limits = [], []
    for begin, end in _stretches(tape, start_row):
        cuts = decisions_from(begin, end, next_row)[:: config.evaluate.tile_decisions]
        starts.append(cuts)
        limits.append(np.r_[cuts[1:], end])
    if not starts:
        empty = np.empty(0, np.int64)
        return Tiles(empty, empty)
    return Tiles(np.concatenate(starts).astype(np.int64), np.concatenate(limits).astype(np.int64))


def count_decisions(tape: Tape, start_row: int) -> int:
    """Decisions of a lane that walks the tape from `start_row` to its end. Reads the segments only."""
    next_row = tape.next_row.tolist()
    return sum(len(decisions_from(begin, end, next_row)) for begin, end in _stretches(tape, start_row))


def _stretches(tape: Tape, start_row: int) -> Iterator[tuple[int, int]]:
    """First row and exit row of every segment from `start_row` on that has a row to trade on."""
    first, exit_row = tape.first_row.cpu().numpy(), tape.exit_row.cpu().numpy()
    bounds = np.flatnonzero(np.diff(first)) + 1
    for low, high in zip(np.r_[0, bounds], np.r_[bounds, len(first)], strict=True):
        begin, end = max(int(low), start_row), int(exit_row[low])
        if begin < min(end, high):
            yield begin, end


def decisions_from(begin: int, end: int, next_row: list[int]) -> NDArray[np.int64]:
    """Rows of the decisions from `begin` on that lie before `end`, `[T]`."""
    found, row = [], begin
    while row < end:
        found.append(row)
        row = next_row[row]
    return np.array(found, np.int64)
