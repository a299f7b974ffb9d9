"""The cache: complete or absent, reused, the same whatever the chunk size, and clear about what is wrong."""

import errno
import json
import os
import threading

import databento_dbn
import numpy as np
import pytest

import trainer.data.cache as cache_module
import trainer.data.columns as columns_module
from trainer.config import Config
from trainer.data.cache import build_cache, open_cache
from trainer.data.columns import COLUMNS, ColumnWriter
from trainer.data.staging import LOCK_NAME, staged_directory
from trainer.errors import InputError
from trainer.presets import default

ES_FILE = "ESH4_20231225.mbp-10.dbn.zst"
SMALL = Config().replaced(data={"decision_rows": 4, "window_rows": 4, "horizons": (1, 2), "folds": 2})


@pytest.fixture
def source(tmp_path, make_records, encode, write):
    """One file of 300 books and a few trades."""
    records = make_records(300)
    records["action"][10::20] = b"T"
    directory = tmp_path / "source"
    directory.mkdir()
    return write(directory / "es.dbn.zst", encode(records))


def leftovers(root):
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def test_real_es_file_becomes_a_cache(shared_data, tmp_path):
    progress = []
    cache = build_cache(default(), shared_data / ES_FILE, tmp_path, on_progress=lambda *p: progress.append(p))
    assert cache.num_rows == 36_905
    assert cache.instrument.name == "ES"
    assert cache.features.shape == (36_905, 40)
    assert np.isfinite(cache.features).all()
    assert (cache.bid_px[:, 0] < cache.ask_px[:, 0]).all()
    assert cache.trade_count.sum() == cache.manifest["skipped"]["trade"]
    assert cache.manifest["num_rows"] + sum(cache.manifest["skipped"].values()) == 43_717
    assert progress[-1] == ((shared_data / ES_FILE).stat().st_size,) * 2
    assert leftovers(tmp_path) == [cache.fingerprint]
    assert not (cache.path / LOCK_NAME).exists()


def test_real_stock_file_becomes_a_cache(shared_data, tmp_path):
    cache = build_cache(default(), shared_data / "FROG_20250403.mbp-10.dbn.zst", tmp_path)
    assert cache.instrument.name == "equity"
    assert cache.num_rows == 29_469
    assert cache.segments["end_row"][-1] == cache.num_rows


@pytest.mark.parametrize("chunk_records", [1000, 7919])
def test_chunk_size_changes_no_byte(shared_data, tmp_path, monkeypatch, chunk_records):
    whole = build_cache(default(), shared_data / ES_FILE, tmp_path / "whole")
    monkeypatch.setattr(cache_module, "CHUNK_RECORDS", chunk_records)
    parts = build_cache(default(), shared_data / ES_FILE, tmp_path / "parts")
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name), err_msg=name)
    assert parts.segments.tobytes() == whole.segments.tobytes()


def test_cache_is_reused_and_the_build_arguments_are_part_of_its_name(source, tmp_path, monkeypatch):
    first = build_cache(SMALL, source, tmp_path / "cache")
    other = build_cache(SMALL.replaced(data={"max_gap_s": 5.0}), source, tmp_path / "cache")
    assert other.fingerprint != first.fingerprint
    same = SMALL.replaced(data={"folds": 1}, learn={"seed": 5})
    monkeypatch.setattr(cache_module, "_build", lambda *_: pytest.fail("the cache was built again"))
    assert build_cache(same, source, tmp_path / "cache").path == first.path


def test_changed_source_is_another_cache(source, tmp_path, make_records, encode, write):
    first = build_cache(SMALL, source, tmp_path / "cache")
    write(source, encode(make_records(300, seed=1)))
    assert build_cache(SMALL, source, tmp_path / "cache").fingerprint != first.fingerprint


def test_damaged_cache_is_refused_when_opened_and_rebuilt_when_built(source, tmp_path):
    cache = build_cache(SMALL, source, tmp_path / "cache")
    wanted = np.array(cache.bid_px)
    column = cache.path / "bid_px.npy"
    column.write_bytes(column.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"bid_px\.npy: found \d+ bytes, expected \d+"):
        open_cache(cache.path)
    np.testing.assert_array_equal(build_cache(SMALL, source, tmp_path / "cache").bid_px, wanted)


def test_cache_of_another_schema_version_is_refused(source, tmp_path):
    cache = build_cache(SMALL, source, tmp_path / "cache")
    manifest = cache.path / "manifest.json"
    manifest.write_text(json.dumps({**cache.manifest, "schema_version": 99}))
    with pytest.raises(InputError, match="schema version 99"):
        open_cache(cache.path)
    with pytest.raises(InputError, match="no readable cache"):
        open_cache(tmp_path)


def test_leftover_of_a_killed_build_is_removed(source, tmp_path):
    fingerprint = build_cache(SMALL, source, tmp_path / "first").fingerprint
    root = tmp_path / "cache"
    dead, early = (root / f".{fingerprint}.partial-{name}" for name in ("dead", "early"))
    for directory in (dead, early):
        directory.mkdir(parents=True)
        (directory / "ts_ns.npy").write_bytes(b"half")
    (dead / LOCK_NAME).touch()
    os.utime(early, (0, 0))  # killed before it could lock, long ago
    build_cache(SMALL, source, root)
    assert leftovers(root) == [fingerprint]


def test_a_directory_about_to_be_locked_is_no_leftover(source, tmp_path):
    fingerprint = build_cache(SMALL, source, tmp_path / "first").fingerprint
    beginning = tmp_path / "cache" / f".{fingerprint}.partial-beginning"
    beginning.mkdir(parents=True)
    build_cache(SMALL, source, tmp_path / "cache")
    assert beginning.exists()


def test_two_builds_at_once_do_not_harm_each_other(source, tmp_path):
    """A second build starts and ends while the first one is under way."""
    root = tmp_path / "cache"
    fingerprint = build_cache(SMALL, source, tmp_path / "first").fingerprint
    target = root / fingerprint
    with staged_directory(target, cache_module._usable) as staging:
        (staging / "file").write_text("the first build, not finished")
        second = build_cache(SMALL, source, root)
        assert staging.exists(), "a living build was taken for a leftover"
    assert leftovers(root) == [fingerprint]
    assert open_cache(target).num_rows == second.num_rows


@pytest.mark.parametrize("call", ["append", "sync"])
@pytest.mark.parametrize(("code", "advice"), [(errno.ENOSPC, "free some space"), (errno.EIO, "cannot write")])
def test_full_or_failing_disk_is_one_line_and_leaves_nothing(
    source, tmp_path, monkeypatch, code, advice, call
):
    """Whether it fails in a write or in a sync, which runs in a thread."""
    called = []

    def fail(writer, *_):
        called.append(writer)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(columns_module, "SYNC_BYTES", 1)
    monkeypatch.setattr(ColumnWriter, call, fail)
    root = tmp_path / "cache"
    with pytest.raises(InputError, match=advice) as caught:
        build_cache(SMALL, source, root)
    assert os.strerror(code) in str(caught.value)
    assert str(root) in str(caught.value)
    assert called
    assert leftovers(root) == []


@pytest.mark.parametrize("after", [1, 4])
def test_interrupt_leaves_nothing_behind_and_no_thread(source, tmp_path, monkeypatch, after):
    monkeypatch.setattr(cache_module, "CHUNK_RECORDS", 20)
    monkeypatch.setattr(columns_module, "SYNC_BYTES", 1)
    threads, calls = threading.active_count(), []

    def interrupt(*progress):
        calls.append(progress)
        if len(calls) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_cache(SMALL, source, tmp_path / "cache", on_progress=interrupt)
    assert len(calls) == after
    assert threading.active_count() == threads
    assert leftovers(tmp_path / "cache") == []


def test_cache_root_that_is_a_file_is_one_line(source, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match="cannot write here"):
        build_cache(SMALL, source, tmp_path / "cache")


def test_bad_data_leaves_nothing_behind(tmp_path, source, make_records, encode, write):
    records = make_records(200)
    records["bid_px_03"][150] += 1
    root = tmp_path / "cache"
    with pytest.raises(InputError, match=r"es\.dbn\.zst @ \d+: bid_px_03"):
        build_cache(SMALL, write(source, encode(records)), root)
    assert leftovers(root) == []


def test_too_few_rows_say_where_the_records_went(tmp_path, source, make_records, encode, write):
    records = make_records(200)
    records["action"][:150] = b"T"
    write(source, encode(records))
    with pytest.raises(InputError, match=r"50 valid rows of 200 records \(trade 150\), fewer than the 120"):
        build_cache(SMALL, source, tmp_path / "cache")


def test_a_cache_that_was_built_for_fewer_folds_is_refused_for_too_many(
    tmp_path, source, make_records, encode, write
):
    write(source, encode(make_records(200)))
    build_cache(SMALL.replaced(data={"folds": 1}), source, tmp_path / "cache")
    with pytest.raises(
        InputError, match=r"200 valid rows of 200 records \(none skipped\), fewer than the 400"
    ):
        build_cache(SMALL.replaced(data={"folds": 9}), source, tmp_path / "cache")
    by_time = SMALL.replaced(data={"folds": 9, "decision_ms": 5})
    assert build_cache(by_time, source, tmp_path / "cache").num_rows == 200, (
        "a decision takes one row at least"
    )


def test_several_instruments_are_listed_with_their_counts(tmp_path, source, make_records, encode, write):
    records = make_records(400)
    records["instrument_id"][1::4] = 9
    write(source, encode(records, symbols=("ESH4", "ESM4")))
    with pytest.raises(
        InputError, match=r"7 \(300 records\), 9 \(100 records\); choose one: data.instrument_id"
    ):
        build_cache(SMALL, source, tmp_path / "cache")
    with pytest.raises(InputError, match=r"no record of instrument 8, but of 7 \(300 records\), 9 \(100"):
        build_cache(SMALL.replaced(data={"instrument_id": 8}), source, tmp_path / "cache")
    config = SMALL.replaced(data={"instrument_id": 7})
    assert build_cache(config, source, tmp_path / "cache").num_rows == 300


def test_parent_symbol_is_no_roll(tmp_path, source, make_records, encode, write):
    records = make_records(400)
    records["instrument_id"][200:] = 9
    as_parent = encode(records, symbols=("ES.FUT",), stype=databento_dbn.SType.PARENT)
    config = SMALL.replaced(data={"instrument": "ES"})
    with pytest.raises(InputError, match=r"several instruments: 7 \(200 records\), 9 \(200 records\)"):
        build_cache(config, write(source, as_parent), tmp_path / "cache")
    continuous = encode(records, symbols=("ES.c.0",), stype=databento_dbn.SType.CONTINUOUS)
    rolled = build_cache(SMALL, write(source, continuous), tmp_path / "cache")
    assert rolled.segments["instrument_id"].tolist() == [7, 9]


def test_directory_of_daily_files_is_one_stream(tmp_path, make_records, encode, write):
    directory = tmp_path / "days"
    directory.mkdir()
    day_ns = 86_400_000_000_000
    start = int(make_records(1)["ts_recv"][0])
    for day in range(3):
        write(
            directory / f"es-{day}.dbn.zst",
            encode(make_records(100, start_ns=start + day * day_ns, ident=day + 1)),
        )
    cache = build_cache(SMALL, directory, tmp_path / "cache")
    assert cache.segments["session"].tolist() == [0, 1, 2]
    assert not cache.segments["ends_in_gap"].any()
    write(directory / "other.dbn", encode(make_records(5), dataset="XNAS.ITCH"))
    with pytest.raises(InputError, match=r"other\.dbn: dataset XNAS\.ITCH, but es-0"):
        build_cache(SMALL, directory, tmp_path / "cache")


def test_separate_trades_replace_the_records_own(tmp_path, source, make_trades, encode, write):
    start = int(open_cache(build_cache(SMALL, source, tmp_path / "own").path).ts_ns[0])
    trades = make_trades([start, start + 1, start + 2], [5, 7, 9], [b"B", b"A", b"N"])
    schema = databento_dbn.Schema.TRADES
    path = write(tmp_path / "t.dbn", encode(trades, schema=schema))
    cache = build_cache(SMALL, source, tmp_path / "cache", trades=path)
    assert cache.trade_count.sum() == 3
    assert cache.signed_volume[:2].tolist() == [5, -7]
    same_directory = build_cache(SMALL, source.parent, tmp_path / "cache", trades=source.parent)
    assert same_directory.trade_count.sum() == 15, (
        "one directory for both, without trades files: the records' own"
    )


def test_trades_that_match_no_row_are_an_error(tmp_path, source, make_trades, encode, write):
    trades = make_trades([1_600_000_000_000_000_000], [5], [b"B"])
    path = write(tmp_path / "t.dbn", encode(trades, schema=databento_dbn.Schema.TRADES))
    with pytest.raises(InputError, match="no trade falls between the book's rows"):
        build_cache(SMALL, source, tmp_path / "cache", trades=path)
