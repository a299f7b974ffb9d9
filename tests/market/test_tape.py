"""Tapes: look-back, anchors, observations, and a tape made from a real cache."""

import numpy as np
import pytest
import torch

from tests.market.recorded import MS, record, steady
from trainer.config import Config
from trainer.data.cache import Cache
from trainer.data.labels import compute_labels
from trainer.data.normaliser import Normaliser
from trainer.data.windows import plan_windows
from trainer.errors import InputError
from trainer.market import build_tape, observe, tape_info
from trainer.market.schedule import Span
from trainer.market.tape import fit_normaliser, window_labels


def test_observation_is_the_window_up_to_the_cursor() -> None:
    tape = steady(30).tape
    features, elapsed = observe(tape, torch.tensor([9, 20]), 4)
    assert torch.equal(features[0], tape.features[6:10])
    assert torch.equal(features[1], tape.features[17:21])
    assert elapsed[0].tolist() == pytest.approx([0.01] * 4)


def test_observation_repeats_the_segments_first_row_without_elapsed_time() -> None:
    spans = [Span(0, 10, 0, 10**15, True), Span(10, 20, 0, 10**15, False)]
    books = [[[(100 + off, 5)]] * 20 for off in (0, 1)]
    tape = record([10 * r for r in range(20)], *books, spans=spans).tape
    features, elapsed = observe(tape, torch.tensor([11]), 4)
    assert torch.equal(features[0], tape.features[[10, 10, 10, 11]])
    assert elapsed[0].tolist() == pytest.approx([0, 0, 0, 0.01])


def test_anchors_leave_room_for_four_decisions_and_skip_the_look_back() -> None:
    tape = steady(40, decision_rows=3, start_row=6).tape
    assert tape.anchors.tolist() == list(range(6, 40 - 12))


def test_window_without_room_for_a_lane_is_refused() -> None:
    with pytest.raises(InputError, match="no stretch of 4 decisions before a forced exit"):
        steady(20, decision_rows=8)


def test_columns_are_views_of_the_book() -> None:
    market = record([0, 1, 2, 3, 4], [[(9, 2), (8, 3)]] * 5, [[(10, 4), (11, 5)]] * 5)
    tape = market.tape
    assert tape.bid_px[0].tolist() == [9, 8]
    assert tape.ask_sz[0].tolist() == [4, 5]
    assert tape.bid_px.untyped_storage().data_ptr() == tape.book.untyped_storage().data_ptr()


def test_tape_of_a_real_hour_agrees_with_its_cache(hour_cache: Cache, hour_config: Config) -> None:
    cache, config = hour_cache, hour_config
    window = plan_windows(cache, config)[1]
    info = tape_info(window, config)
    rows = slice(info.first_cache_row, window.end_row)
    bounds = (window.start_row, window.end_row)
    best = (cache.bid_px[:, 0], cache.ask_px[:, 0])
    later = [np.minimum(np.arange(cache.num_rows) + horizon, cache.num_rows) for horizon in (8, 16, 32)]
    labels = compute_labels(*best, cache.segment, *bounds, later, cache.instrument.fee_ticks)
    moves = (labels.move_ticks, labels.valid)
    normaliser = Normaliser.fit(cache.features, cache.ts_ns, cache.segment, *moves, *bounds)
    own = fit_normaliser(cache, window, window_labels(cache, window, config), config)
    for name, expected in normaliser.to_arrays().items():
        assert np.array_equal(own.to_arrays()[name], expected), name
    tape = build_tape(cache, window, normaliser, config, "cpu")
    assert np.array_equal(tape.ts_ns.numpy(), cache.ts_ns[rows])
    assert np.array_equal(tape.ask_sz.numpy(), cache.ask_sz[rows])
    assert np.array_equal(tape.features.numpy(), normaliser.apply(cache.features[rows]))
    assert np.array_equal(tape.label_valid.numpy(), labels.valid[rows])
    assert not tape.label_valid[: info.start_row].any()
    assert tape.anchors.min() >= info.start_row == 16
    last = int(tape.exit_row[info.start_row])
    assert tape.ts_ns[last] <= window.end_ns - config.market.latency_ns
    assert (tape.close_ns <= window.end_ns).all()
    assert (tape.range_ticks > 0).all()
    assert tape.ts_ns[-1] - tape.ts_ns[info.start_row] > 60_000 * MS
