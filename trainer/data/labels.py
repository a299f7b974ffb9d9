"""Labels of book rows: 5 sources at H horizons and forward-return classes (design page SYSTEM.md 1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.types import NUM_LABEL_SOURCES, LabelSource

Floats = npt.NDArray[np.float32]
Ticks = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
NO_CLASS = -1


@dataclass(frozen=True)
class Labels:
    """What happens after each row; 0 and invalid where the horizon leaves the window or the segment."""

    values: Floats  # [R, H, S], columns of LabelSource; 0/1 for the first three, ticks for the sizes
    move_ticks: Floats  # [R, H] change of the mid
    valid: npt.NDArray[np.bool_]  # [R, H]


def compute_labels(
    bid_px0: Ticks,
    ask_px0: Ticks,
    segment: npt.NDArray[np.int32],
    start: int,
    end: int,
    later_rows: Sequence[Ints],
    fee_ticks: float,
) -> Labels:
    """Labels of rows `start..end-1`; rows outside (a look-back prefix) get none.

    `bid_px0, ask_px0 [R] int32` are best prices in ticks, `segment [R]` never repeats an id after leaving it,
    `later_rows` are H arrays `[R] int64`, none decreasing: the row that ends each row's horizon, after it
    (`trainer.data.decisions`). `fee_ticks` is per lot and side. The label of row t reads rows t and
    `later_rows[h][t]`, and only where the latter is < end and lies in the segment of t.
    """
    shape = (len(segment), len(later_rows))
    labels = Labels(
        values=np.zeros((*shape, NUM_LABEL_SOURCES), dtype=np.float32),
        move_ticks=np.zeros(shape, dtype=np.float32),
        valid=np.zeros(shape, dtype=np.bool_),
    )
    for column, later in enumerate(later_rows):
        now = slice(start, start + int(np.searchsorted(later[start:end], end, side="left")))
        if now.stop > now.start:
            _label_horizon(labels, column, bid_px0, ask_px0, segment, now, later[now], fee_ticks)
    return labels


def _label_horizon(
    labels: Labels,
    column: int,
    bid_px0: Ticks,
    ask_px0: Ticks,
    segment: npt.NDArray[np.int32],
    now: slice,
    later: Ints,
    fee_ticks: float,
) -> None:
    """Fills one horizon of the labels of rows `now`, in place; it ends at rows `later`."""
    bid, ask = bid_px0[now].astype(np.float64), ask_px0[now].astype(np.float64)
    later_bid, later_ask = bid_px0[later].astype(np.float64), ask_px0[later].astype(np.float64)
    move = 0.5 * (later_bid + later_ask - bid - ask)
    sources = {
        LabelSource.DIRECTION: move > 0,
        LabelSource.LONG_PROFIT: later_bid - ask - 2.0 * fee_ticks > 0,
        LabelSource.SHORT_PROFIT: bid - later_ask - 2.0 * fee_ticks > 0,
        LabelSource.LONG_SIZE: np.maximum(move, 0.0),
        LabelSource.SHORT_SIZE: np.maximum(-move, 0.0),
    }
    known = segment[now] == segment[later]
    labels.valid[now, column] = known
    labels.move_ticks[now, column] = np.where(known, move, 0.0)
    for source, value in sources.items():
        labels.values[now, column, source] = np.where(known, value, 0.0)


def return_classes(
    move_ticks: Floats, valid: npt.NDArray[np.bool_], move_sd: Floats, num_classes: int, class_sd: float
) -> npt.NDArray[np.int64]:
    """Forward-return class `[R, H] int64` of moves `[R, H]`, -1 where there is no label.

    `num_classes` equal bins cover +-`class_sd` standard deviations `move_sd [H]` (ticks, of the train
    window); the outer bins are open. A bin holds its lower edge; 0 falls in the middle bin of an odd number.
    """
    half_width = np.maximum(class_sd * move_sd.astype(np.float64), np.finfo(np.float32).tiny)
    position = (move_ticks.astype(np.float64) + half_width) * (num_classes / (2.0 * half_width))
    classes = np.floor(position).clip(0, num_classes - 1).astype(np.int64)
    return np.where(valid, classes, NO_CLASS)
