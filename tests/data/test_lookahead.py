"""No look-ahead: whatever is recorded after a time t, no row and no feature at or before t moves by a bit.

From file to cache, so that the reader's chunks, trades, segments and running averages are all in the path;
and from there to what lanes see, do and earn.
"""

import databento_dbn
import numpy as np
import pytest

import trainer.data.cache as cache_module
from tests.data.tampered import changed_after
from tests.market.acting import random_script
from tests.market.cached import fitted, from_cache
from tests.market.foresight import require_same_past
from trainer.config import Config
from trainer.data.cache import Cache, build_cache
from trainer.data.columns import COLUMNS
from trainer.data.dbn import read_records
from trainer.data.features import FeatureStream
from trainer.data.labels import compute_labels
from trainer.data.windows import Window

CONFIG = Config().replaced(
    data={"instrument": "ES", "decision_rows": 4, "window_rows": 4, "horizons": (1, 2), "folds": 1}
)


def require_same_columns(before: Cache, after: Cache, ts_ns: int) -> None:
    """Every column of the rows up to and including `ts_ns` is equal, byte by byte; the rows after are not."""
    num_rows = int(np.searchsorted(before.ts_ns, ts_ns, side="right"))
    assert num_rows == np.searchsorted(after.ts_ns, ts_ns, side="right") > 0
    for name in COLUMNS:
        past, other = getattr(before, name)[:num_rows], getattr(after, name)[:num_rows]
        assert past.tobytes() == other.tobytes(), f"{name} saw records after its own time"
    assert before.features[num_rows:].tobytes() != after.features[num_rows:].tobytes()


def replayed_alike(before: Cache, after: Cache, ts_ns: int) -> int:
    """Lanes near `ts_ns` see, do and earn the same up to it on both; how many of their steps were compared.

    From the cache on: normaliser of the rows before, tape of a window around, sight, orders, fills, rewards.
    """
    num_past = int(np.searchsorted(before.ts_ns, ts_ns, side="right"))
    first = num_past // 2 if num_past < 600 else num_past - 300
    end_ns = int(before.ts_ns[min(num_past + 300, before.num_rows - 1)])
    markets = []
    for cache in (before, after):
        window = Window(first, int(np.searchsorted(cache.ts_ns, end_ns)), int(cache.ts_ns[first]), end_ns)
        train = fitted(cache, Window(0, first, int(cache.ts_ns[0]), int(cache.ts_ns[first])), CONFIG)
        markets.append(from_cache(cache, window, CONFIG, train, unit_lots=5))
    one, other = markets
    near = (one.tape.ts_ns <= ts_ns).sum() - 40
    script = random_script(num_past, 14, 24)
    return require_same_past(one, other, script, one.tape.anchors[one.tape.anchors > near], ts_ns)


@pytest.mark.parametrize("chunk_records", [50, 32_768])
@pytest.mark.parametrize("at", [90, 211, 640])
def test_records_after_a_time_move_nothing_up_to_it(
    tmp_path, monkeypatch, make_records, encode, write, at, chunk_records
):
    monkeypatch.setattr(cache_module, "CHUNK_RECORDS", chunk_records)
    records = make_records(900)
    records["action"][7::11], records["flags"][3::7] = b"T", 0
    records["ts_recv"][at + 1 : at + 4] = records["ts_recv"][at]
    records["ts_recv"][300:] += np.uint64(90_000_000_000)
    ts_ns = int(records["ts_recv"][at])
    other = changed_after(records, ts_ns, seed=at)
    before, after = (
        build_cache(CONFIG, write(tmp_path / f"{name}.dbn.zst", encode(data)), tmp_path / "cache")
        for name, data in (("before", records), ("after", other))
    )
    require_same_columns(before, after, ts_ns)
    assert replayed_alike(before, after, ts_ns) > 60


def test_trades_of_a_separate_file_after_a_time_move_nothing_up_to_it(
    tmp_path, make_records, make_trades, encode, write
):
    records = make_records(400)
    book = write(tmp_path / "book.dbn", encode(records))
    start, ts_ns = int(records["ts_recv"][0]), int(records["ts_recv"][250])
    times = start + np.arange(400) * 100_000_000 + 1  # just after each row: they belong to the next one
    trades = make_trades(times, np.full(400, 3), np.full(400, b"B"))
    other = trades.copy()
    later = other["ts_recv"] > ts_ns
    other["size"][later], other["side"][later] = 900, b"A"
    other["ts_recv"][later] += np.uint64(70_000_000)
    caches = [
        build_cache(
            CONFIG,
            book,
            tmp_path / "cache",
            write(tmp_path / f"{name}.dbn", encode(data, databento_dbn.Schema.TRADES)),
        )
        for name, data in (("trades", trades), ("other", other))
    ]
    require_same_columns(*caches, ts_ns)
    assert replayed_alike(*caches, ts_ns) > 60


def test_records_after_a_time_move_nothing_up_to_it_in_the_es_file(shared_data, tmp_path, encode, write):
    records = np.concatenate(list(read_records(shared_data / "ESH4_20231225.mbp-10.dbn.zst")))
    before = build_cache(CONFIG, write(tmp_path / "es.dbn", encode(records)), tmp_path / "cache")
    assert before.num_rows == 36_905
    for seed, row in enumerate((500, 17_000, 36_000)):
        ts_ns = int(before.ts_ns[row])
        changed = write(tmp_path / f"es{seed}.dbn", encode(changed_after(records, ts_ns, seed)))
        after = build_cache(CONFIG, changed, tmp_path / "cache")
        require_same_columns(before, after, ts_ns)
        assert replayed_alike(before, after, ts_ns) > 60


@pytest.mark.parametrize("row", [0, 30, 55, 80])
def test_a_label_reads_no_row_behind_its_horizon(row):
    rng = np.random.default_rng(row)
    bid, horizon = rng.integers(-9, 9, 100).astype(np.int32).cumsum(dtype=np.int32), 7
    segment = np.repeat([0, 1], [60, 40]).astype(np.int32)
    last = row + horizon
    found = []
    for first_changed in (100, last + 1, last):
        changed = bid.copy()
        changed[first_changed:] += 50
        ends = np.minimum(np.arange(100) + horizon, 100)
        labels = compute_labels(changed, changed + 1, segment, 0, 100, [ends], 0.16)
        found.append((labels.values[: row + 1], labels.move_ticks[: row + 1], labels.valid[: row + 1]))
    whole, behind, at = found
    assert all(np.array_equal(a, b) for a, b in zip(whole, behind, strict=True))
    known = segment[row] == segment[last]
    assert np.array_equal(whole[1][row], at[1][row]) != known, "read only within the segment"


def test_a_feature_that_sees_the_next_row_is_caught(monkeypatch, tmp_path, make_records, encode, write):
    """The tests above can fail."""
    whole = FeatureStream.push

    def push(stream, chunk):
        return np.roll(whole(stream, chunk), -1, axis=0)

    monkeypatch.setattr(FeatureStream, "push", push)
    records = make_records(900)
    ts_ns = int(records["ts_recv"][400])
    before, after = (
        build_cache(CONFIG, write(tmp_path / f"{name}.dbn", encode(data)), tmp_path / "cache")
        for name, data in (("before", records), ("after", changed_after(records, ts_ns, seed=1)))
    )
    with pytest.raises(AssertionError, match="features saw records after its own time"):
        require_same_columns(before, after, ts_ns)
    with pytest.raises(AssertionError, match="features of a row saw later ones"):
        replayed_alike(before, after, ts_ns)
