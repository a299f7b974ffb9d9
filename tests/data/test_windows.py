"""Walk-forward windows: equal session time, disjoint, purged."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import Config
from trainer.data.cache import build_cache
from trainer.data.segments import SEGMENT
from trainer.data.windows import plan_windows, train_test
from trainer.errors import InputError
from trainer.presets import default

SECOND_NS = 1_000_000_000
HOUR_NS = 3_600 * SECOND_NS


def config_of(folds=3, latency_ns=5_000_000, **data):
    fields = {"decision_rows": 2, "window_rows": 2, "horizons": (1, 3), "folds": folds, **data}
    return Config().replaced(data=fields, market={"latency_ns": latency_ns})


def cache_of(sessions, rows_per_session, rng=None):
    """A cache's times and segments: `rows_per_session` rows spread over each `(open, close)` hour pair."""
    ts_ns, table = [], np.zeros(len(sessions), SEGMENT)
    for index, (open_h, close_h) in enumerate(sessions):
        open_ns, close_ns = open_h * HOUR_NS, close_h * HOUR_NS
        share = (
            np.arange(rows_per_session) / rows_per_session
            if rng is None
            else np.sort(rng.random(rows_per_session))
        )
        ts_ns.append(open_ns + (share * (close_ns - open_ns)).astype(np.int64))
        first = index * rows_per_session
        table[index] = (first, first + rows_per_session, index, open_ns, close_ns, 1, False)
    return SimpleNamespace(ts_ns=np.concatenate(ts_ns), segments=table)


def test_windows_share_session_time_equally_and_skip_closed_hours():
    cache = cache_of([(1000, 1006), (1024, 1030)], 600)
    windows = plan_windows(cache, config_of(folds=3))
    assert [w.num_rows for w in windows] == [300, 300, 300, 300]
    assert windows[1].start_ns == pytest.approx(1003 * HOUR_NS, abs=60 * SECOND_NS)
    assert windows[3].start_ns == pytest.approx(1027 * HOUR_NS, abs=60 * SECOND_NS)


def test_quarters_of_the_es_file_all_hold_rows(shared_data, tmp_path):
    cache = build_cache(default(), shared_data / "ESH4_20231225.mbp-10.dbn.zst", tmp_path)
    windows = plan_windows(cache, default())
    assert [w.num_rows for w in windows] == [11_443, 8_881, 7_864, 8_717]
    assert {(w.end_ns - w.start_ns) // SECOND_NS for w in windows} == {899}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    folds=st.integers(1, 4),
    latency_s=st.floats(0, 30),
    embargo_s=st.floats(0, 60),
    scheme=st.sampled_from(["rolling", "expanding"]),
)
def test_windows_tile_the_rows_and_no_train_label_reaches_the_test_window(
    seed, folds, latency_s, embargo_s, scheme
):
    rng = np.random.default_rng(seed)
    cache = cache_of([(1000, 1006), (1024, 1029), (1048, 1049)], 800, rng)
    cache.ts_ns = cache.ts_ns // (5 * SECOND_NS) * (5 * SECOND_NS)  # many equal times
    config = config_of(folds, int(latency_s * SECOND_NS), embargo_s=embargo_s, scheme=scheme)
    windows = plan_windows(cache, config)
    assert windows[0].start_row == 0
    assert windows[-1].end_row == len(cache.ts_ns)
    for before, after in itertools.pairwise(windows):
        assert (before.end_row, before.end_ns) == (after.start_row, after.start_ns)
    for window in windows:
        inside = (cache.ts_ns >= window.start_ns) & (cache.ts_ns < window.end_ns)
        assert np.flatnonzero(inside).tolist() == list(range(window.start_row, window.end_row))
    for fold in range(folds):
        train, test = train_test(cache, windows, fold, config)
        assert train.start_row == (0 if scheme == "expanding" else windows[fold].start_row)
        assert test == windows[fold + 1]
        assert cache.ts_ns[train.end_row - 1] < train.end_ns <= cache.ts_ns[train.end_row]
        last_read_row = train.end_row - 1 + max(config.data.horizons) * config.data.decision_rows
        assert last_read_row < test.start_row
        margin_ns = config.market.latency_ns + int(config.data.embargo_s * 1e9)
        assert cache.ts_ns[last_read_row] + margin_ns < test.start_ns


def test_embargo_and_latency_remove_rows_from_the_end_of_training():
    cache = cache_of([(1000, 1010)], 36_000)  # one row a second
    windows = plan_windows(cache, config_of())
    plain, _ = train_test(cache, windows, 0, config_of())
    late, _ = train_test(cache, windows, 0, config_of(latency_ns=10 * SECOND_NS))
    apart, _ = train_test(cache, windows, 0, config_of(embargo_s=100.0))
    assert plain.end_row - late.end_row == pytest.approx(10, abs=1)
    assert plain.end_row - apart.end_row == pytest.approx(100, abs=1)


def test_window_without_rows_is_named():
    cache = cache_of([(1000, 1010)], 100)
    cache.ts_ns = np.concatenate([cache.ts_ns[:25], cache.ts_ns[-25:]])
    with pytest.raises(InputError, match=r"window 1 of 4 has \d rows, fewer than the 4 of one decision"):
        plan_windows(cache, config_of())


def test_purge_that_eats_the_train_window_is_an_error():
    cache = cache_of([(1000, 1010)], 400)
    windows = plan_windows(cache, config_of())
    with pytest.raises(InputError, match=r"train window of fold 0, purged"):
        train_test(cache, windows, 0, config_of(horizons=(1, 60)))
    with pytest.raises(InputError, match=r"train window of fold 2, purged"):
        train_test(cache, windows, 2, config_of(embargo_s=3e5))


@pytest.mark.parametrize("fold", [-1, 3])
def test_fold_that_does_not_exist_is_an_error(fold):
    cache = cache_of([(1000, 1010)], 400)
    windows = plan_windows(cache, config_of())
    with pytest.raises(InputError, match=r"there are folds 0 to 2"):
        train_test(cache, windows, fold, config_of())
