"""The tape: one window's rows as tensors on the device, and what a lane may observe of it.

A tape row is a valid book state. Rows before `TapeInfo.start_row` are a look-back prefix: observed by the
first decisions of the window, never traded on.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainer.config import Config
from trainer.data.decisions import decision_ahead
from trainer.data.labels import Labels, compute_labels, return_classes
from trainer.data.normaliser import Normaliser
from trainer.errors import InputError
from trainer.market.schedule import Span, elapsed_units, fill_rows, first_rows, mid_range, plan_exits

# Types only: the replay itself needs neither the readers nor their calendar libraries.
if TYPE_CHECKING:
    from trainer.data.cache import Cache
    from trainer.data.windows import Window

# A lane needs some room between its anchor and its exit, else it would train on forced closes only.
ANCHOR_DECISIONS = 4


class Tape(NamedTuple):
    """The rows of one window, time-ordered, on one device. Row indices below are rows of this tape.

    Every field at row t reads rows <= t only, except the labels (targets, never observed) and the schedule
    (`next_row`, `fill_row`, `exit_row`, `anchors`), which the replay obeys and no mask or context may read
    ahead from.
    """

    ts_ns: Tensor  # [R] int64, receive time, UTC ns, never decreasing
    bid_px: Tensor  # [R, L] int32, ticks; a view of `book`
    ask_px: Tensor  # [R, L] int32, ticks; a view of `book`
    bid_sz: Tensor  # [R, L] int32, lots; a view of `book`
    ask_sz: Tensor  # [R, L] int32, lots; a view of `book`
    features: Tensor  # [R, F] float32, normalised
    elapsed: Tensor  # [R] float32, time since the segment's previous row / scale, 0..20; 0 at its first
    first_row: Tensor  # [R] int64, first row of the row's segment on this tape
    next_row: Tensor  # [R] int64, row of the decision after one at t, were there no exits; R if none
    fill_row: Tensor  # [R] int64, first row > t with ts >= ts[t] + latency; R if none
    exit_row: Tensor  # [R] int64, where what is held is forced flat; >= t
    exit_is_gap: Tensor  # [R] bool, the exit follows an unannounced gap
    close_ns: Tensor  # [R] int64, announced end: session close, roll or window end, whichever is first
    range_ticks: Tensor  # [R] float32, EMA of the mid's range over the last decision's rows, > 0
    labels: Tensor  # [R, H, S] float32, see LabelSource
    label_valid: Tensor  # [R, H] bool
    return_class: Tensor  # [R, H] int64, -1 where no label exists
    anchors: Tensor  # [M] int64, rows where a lane may start
    book: Tensor  # [R, 2, 2, L] int32: side (0 bid, 1 ask), then price (ticks) and size (lots)


class TapeInfo(NamedTuple):
    """Where a window lies on its tape; plain integers, for planning on the host."""

    first_cache_row: int  # cache row of tape row 0
    start_row: int  # first tradeable tape row
    end_row: int  # one past the last tape row


class TapeRows(NamedTuple):
    """Plain arrays a tape is made of; `spans` cut `[0, R)` into segments without holes."""

    ts_ns: npt.NDArray[np.int64]  # [R]
    bid_px: npt.NDArray[np.int32]  # [R, L] ticks
    ask_px: npt.NDArray[np.int32]  # [R, L] ticks
    bid_sz: npt.NDArray[np.int32]  # [R, L] lots
    ask_sz: npt.NDArray[np.int32]  # [R, L] lots
    features: npt.NDArray[np.float32]  # [R, F] normalised
    spans: Sequence[Span]


class TapeLabels(NamedTuple):
    """Targets of the supervised heads, row by row."""

    labels: npt.NDArray[np.float32]  # [R, H, S]
    valid: npt.NDArray[np.bool_]  # [R, H]
    return_class: npt.NDArray[np.int64]  # [R, H]


def tape_from_arrays(
    rows: TapeRows,
    config: Config,
    *,
    end_ns: int,
    start_row: int = 0,
    elapsed_scale_s: float = 1.0,
    labels: TapeLabels | None = None,
    device: torch.device | str = "cpu",
) -> Tape:
    """A tape from plain arrays `[R, ...]`; without `labels` no row has one.

    `end_ns` is the window's announced end (exclusive), `start_row` the first tradeable row. The schedule is
    SYSTEM.md section 3 (latency, exits). Raises `InputError` when no row leaves room for a lane.
    """
    data, latency_ns, ts_ns = config.data, config.market.latency_ns, rows.ts_ns.astype(np.int64)
    num_rows, first = len(ts_ns), first_rows(rows.spans)
    exit_row, is_gap, close_ns = plan_exits(ts_ns, rows.spans, end_ns, latency_ns)
    anchors = _anchors(exit_row, start_row, decision_ahead(ts_ns, ANCHOR_DECISIONS, data))
    if labels is None:
        labels = _no_labels(num_rows, len(config.data.horizons))
    mid = (rows.bid_px[:, 0].astype(np.float64) + rows.ask_px[:, 0]) / 2
    mid_range_ticks = mid_range(mid, ts_ns, rows.spans, data, config.market.range_decay_decisions)
    book = np.stack(
        [np.stack([rows.bid_px, rows.bid_sz], 1), np.stack([rows.ask_px, rows.ask_sz], 1)], 1
    ).astype(np.int32)

    def put(array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    on_device = put(book)
    return Tape(
        ts_ns=put(ts_ns),
        bid_px=on_device[:, 0, 0],
        ask_px=on_device[:, 1, 0],
        bid_sz=on_device[:, 0, 1],
        ask_sz=on_device[:, 1, 1],
        features=put(rows.features.astype(np.float32)),
        elapsed=put(elapsed_units(ts_ns, first, elapsed_scale_s)),
        first_row=put(first),
        next_row=put(decision_ahead(ts_ns, 1, data)),
        fill_row=put(fill_rows(ts_ns, latency_ns)),
        exit_row=put(exit_row),
        exit_is_gap=put(is_gap),
        close_ns=put(close_ns),
        range_ticks=put(mid_range_ticks),
        labels=put(labels.labels),
        label_valid=put(labels.valid),
        return_class=put(labels.return_class),
        anchors=put(anchors),
        book=on_device,
    )


def _anchors(
    exit_row: npt.NDArray[np.int64], start_row: int, roomy_row: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Rows from `start_row` on whose exit lies at or behind `roomy_row`, all `[R]`."""
    found = np.flatnonzero((np.arange(len(exit_row)) >= start_row) & (exit_row >= roomy_row))
    if not len(found):
        raise InputError(
            f"no stretch of {ANCHOR_DECISIONS} decisions before a forced exit",
            where=f"window of {len(exit_row) - start_row} rows",
            do="use more data, fewer folds or more frequent decisions (data.decision_rows, data.decision_ms)",
        )
    return found.astype(np.int64)


def _no_labels(num_rows: int, num_horizons: int) -> TapeLabels:
    shape = (num_rows, num_horizons)
    return TapeLabels(
        np.zeros((*shape, 5), np.float32), np.zeros(shape, np.bool_), np.full(shape, -1, np.int64)
    )


def tape_info(window: "Window", config: Config) -> TapeInfo:
    """Where `window` lies on the tape that `build_tape` makes of it; the prefix is at most K rows."""
    prefix = min(config.data.window_rows, window.start_row)
    return TapeInfo(window.start_row - prefix, prefix, prefix + window.end_row - window.start_row)


def window_labels(cache: "Cache", window: "Window", config: Config) -> Labels:
    """Labels `[R, H, ...]` of the rows of `window`'s tape; they end with the window. Fee as in the cache."""
    info = tape_info(window, config)
    rows = slice(info.first_cache_row, window.end_row)
    ts_ns = np.asarray(cache.ts_ns[rows])
    return compute_labels(
        cache.bid_px[rows, 0],
        cache.ask_px[rows, 0],
        cache.segment[rows],
        info.start_row,
        info.end_row,
        [decision_ahead(ts_ns, horizon, config.data) for horizon in config.data.horizons],
        cache.instrument.fee_ticks,
    )


def fit_normaliser(cache: "Cache", window: "Window", labels: Labels, config: Config) -> Normaliser:
    """Statistics of the rows of the train `window` and of their `labels` (`window_labels`), and no others."""
    info = tape_info(window, config)
    rows = slice(info.first_cache_row, window.end_row)
    return Normaliser.fit(
        cache.features[rows],
        cache.ts_ns[rows],
        cache.segment[rows],
        labels.move_ticks,
        labels.valid,
        info.start_row,
        info.end_row,
    )


def build_tape(
    cache: "Cache",
    window: "Window",
    normaliser: Normaliser,
    config: Config,
    device: torch.device | str,
    labels: Labels | None = None,
) -> Tape:
    """The tape of `window`: its rows and a look-back prefix, normalised, labelled and scheduled, on `device`.

    Reads cache rows `[window.start_row - K, window.end_row)`; exits end with the window. `labels` are those
    of `window_labels`, made here unless given. Raises `InputError` when no row leaves room for a lane.
    """
    info = tape_info(window, config)
    rows = slice(info.first_cache_row, window.end_row)
    found = window_labels(cache, window, config) if labels is None else labels
    classes = return_classes(
        found.move_ticks,
        found.valid,
        normaliser.move_sd,
        config.data.return_classes,
        config.data.return_class_sd,
    )
    books = (cache.bid_px[rows], cache.ask_px[rows], cache.bid_sz[rows], cache.ask_sz[rows])
    features = normaliser.apply(cache.features[rows])
    return tape_from_arrays(
        TapeRows(cache.ts_ns[rows], *books, features, _spans(cache, rows)),
        config,
        end_ns=window.end_ns,
        start_row=info.start_row,
        elapsed_scale_s=normaliser.elapsed_scale_s,
        labels=TapeLabels(found.values, found.valid, classes),
        device=device,
    )


def _spans(cache: "Cache", rows: slice) -> list[Span]:
    """The segments that `rows` of the cache touch, cut to them, in tape rows."""
    return [
        Span(
            max(int(record["first_row"]), rows.start) - rows.start,
            min(int(record["end_row"]), rows.stop) - rows.start,
            int(record["session"]),
            int(record["session_close_ns"]),
            bool(record["ends_in_gap"]),
        )
        for record in cache.segments
        if record["first_row"] < rows.stop and record["end_row"] > rows.start
    ]


def look_back(tape: Tape, cursor: Tensor, window_rows: int) -> Tensor:
    """Rows cursor-K+1..cursor `[B, K] int64`; before the first of the cursor's segment that one, repeated."""
    back = torch.arange(1 - window_rows, 1, device=cursor.device)
    return torch.maximum(cursor[:, None] + back, tape.first_row[cursor][:, None])


def observe(tape: Tape, cursor: Tensor, window_rows: int) -> tuple[Tensor, Tensor]:
    """The last `window_rows` rows up to the cursor: features `[B, K, F] float32`, elapsed `[B, K] float32`.

    Reads rows cursor-K+1..cursor of the cursor's own segment; before its first row that row is repeated, with
    elapsed 0 (no time passes between copies). `cursor` is `[B] int64`.
    """
    rows = look_back(tape, cursor, window_rows)
    return tape.features[rows], tape.elapsed[rows]
