"""Labels: against a scalar oracle, never past the segment or the window."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.labels import Labels, compute_labels, return_classes
from trainer.types import LabelSource


def later_rows(num_rows: int, *horizons: int) -> list[np.ndarray]:
    """Horizons that count rows."""
    return [np.minimum(np.arange(num_rows) + horizon, num_rows) for horizon in horizons]


def market(num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    bid = (-5 + rng.integers(-3, 4, num_rows).cumsum()).astype(np.int32)
    segment = np.sort(rng.integers(0, 3, num_rows)).astype(np.int32)
    return bid, (bid + rng.integers(1, 4, num_rows)).astype(np.int32), segment


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 60), st.integers(0, 10**6), st.data())
def test_labels_equal_their_definitions(num_rows: int, seed: int, data: st.DataObject) -> None:
    bid, ask, segment = market(num_rows, seed)
    start = data.draw(st.integers(0, num_rows))
    end = data.draw(st.integers(start, num_rows))
    horizons, fee = (1, 3, 10), 0.5
    labels = compute_labels(bid, ask, segment, start, end, later_rows(num_rows, *horizons), fee)
    for t in range(num_rows):
        for column, h in enumerate(horizons):
            known = start <= t and t + h < end and segment[t] == segment[t + h]
            assert labels.valid[t, column] == known
            if not known:
                assert not labels.values[t, column].any()
                assert labels.move_ticks[t, column] == 0
                continue
            move = float(bid[t + h] + ask[t + h] - bid[t] - ask[t]) / 2
            expected = [
                move > 0,
                float(bid[t + h]) - float(ask[t]) - 2 * fee > 0,
                float(bid[t]) - float(ask[t + h]) - 2 * fee > 0,
                max(move, 0.0),
                max(-move, 0.0),
            ]
            assert labels.values[t, column].tolist() == pytest.approx([float(x) for x in expected])
            assert labels.move_ticks[t, column] == move


def test_rows_after_the_horizon_and_outside_the_window_do_not_matter() -> None:
    bid, ask, segment = market(40, seed=1)
    before = compute_labels(bid, ask, segment, 5, 30, later_rows(40, 4), 0.16)
    bid[30:], ask[30:], segment[30:] = 999, 1000, 9
    after = compute_labels(bid, ask, segment, 5, 30, later_rows(40, 4), 0.16)
    for name in vars(Labels(*vars(before).values())):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name), err_msg=name)
    assert not before.valid[26:].any()


def test_shapes_and_types_follow_the_legend() -> None:
    bid, ask, segment = market(20, seed=2)
    labels = compute_labels(bid, ask, segment, 0, 20, later_rows(20, 1, 2), 0.0)
    assert labels.values.shape == (20, 2, len(LabelSource))
    assert labels.values.dtype == labels.move_ticks.dtype == np.float32
    assert labels.valid.dtype == np.bool_


def test_classes_are_equal_bins_with_open_ends_and_minus_one_without_a_label() -> None:
    move_sd = np.array([2.0], dtype=np.float32)  # 3 classes over +-6 ticks: edges -2 and 2
    moves = np.array([[-50], [-2.1], [-2.0], [0.0], [1.9], [2.0], [50], [0.0]], dtype=np.float32)
    valid = np.array([[True]] * 7 + [[False]])
    classes = return_classes(moves, valid, move_sd, num_classes=3, class_sd=3.0)
    assert classes[:, 0].tolist() == [0, 0, 1, 1, 1, 2, 2, -1]
    assert classes.dtype == np.int64


def test_a_market_that_never_moves_falls_in_the_middle_class() -> None:
    zero = np.zeros((4, 2), dtype=np.float32)
    classes = return_classes(zero, np.ones((4, 2), dtype=bool), np.zeros(2, dtype=np.float32), 21, 3.0)
    assert (classes == 10).all()


def test_horizons_count_valid_rows_not_records(build, make_records) -> None:
    """Rows are chosen before labels shift: trades, half events and crossed books change nothing."""
    clean = make_records(40)
    noise = np.repeat(clean, 3)
    noise["action"][1::3], noise["flags"][2::3] = b"T", 0
    noise["ask_px_00"][2::3] = noise["bid_px_05"][2::3]
    found = []
    for records in (clean, noise):
        columns, _, _ = build(records)
        best = columns["bid_px"][:, 0], columns["ask_px"][:, 0]
        found.append(compute_labels(*best, columns["segment"], 0, 40, later_rows(40, 1, 4), 0.16))
    for name, expected in vars(found[0]).items():
        np.testing.assert_array_equal(getattr(found[1], name), expected, err_msg=name)
    assert found[0].valid.sum() == 39 + 36
    assert found[0].move_ticks.any()


def test_no_label_reads_across_a_roll_a_gap_or_a_session(build, make_records) -> None:
    """Each part is 500 ticks above the one before: a single label across would be that large."""
    start_ns, hour_ns = int(make_records(1)["ts_recv"][0]), 3_600_000_000_000
    parts = [
        make_records(12, start_ns=start_ns + after * hour_ns, ident=ident)
        for after, ident in ((0, 7), (2, 7), (24, 7), (25, 8))
    ]
    for index, part in enumerate(parts):
        for level in range(10):
            part[f"bid_px_{level:02d}"] += index * 500 * 250_000_000
            part[f"ask_px_{level:02d}"] += index * 500 * 250_000_000
    columns, table, _ = build(np.concatenate(parts))
    best = columns["bid_px"][:, 0], columns["ask_px"][:, 0]
    labels = compute_labels(*best, columns["segment"], 0, 48, later_rows(48, 1, 5), 0.16)
    assert len(table) == 4
    assert labels.valid.sum(axis=0).tolist() == [4 * 11, 4 * 7]
    assert np.abs(labels.move_ticks).max() < 12
