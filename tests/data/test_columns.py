"""Columns that are appended to are plain numpy files."""

import errno

import numpy as np
import pytest

import trainer.data.columns as columns_module
from trainer.data.book import BookChunk
from trainer.data.columns import COLUMNS, ColumnWriter, column_files
from trainer.types import NUM_FEATURES


@pytest.fixture
def chunk(build, make_records):
    return BookChunk(**build(make_records(50))[0])


def test_column_is_a_plain_numpy_file_whatever_its_length(tmp_path):
    for num_appends in (0, 1, 11):
        writer = ColumnWriter(tmp_path / "x.npy", "<i4", (10,))
        for index in range(num_appends):
            writer.append(np.full((100_000, 10), index, np.int32))
        writer.close()
        column = np.load(tmp_path / "x.npy", mmap_mode="r")
        assert column.shape == (num_appends * 100_000, 10)
        assert (column[::100_000, 0] == np.arange(num_appends)).all()


def test_rows_of_another_shape_are_refused(tmp_path):
    writer = ColumnWriter(tmp_path / "x.npy", "<i4", (10,))
    with pytest.raises(ValueError, match="x: rows of shape"):
        writer.append(np.zeros((3, 9), np.int32))
    writer.abort()


@pytest.mark.parametrize("sync_bytes", [1, 10**9])
def test_all_columns_are_whole_whether_synced_on_the_way_or_not(tmp_path, monkeypatch, chunk, sync_bytes):
    monkeypatch.setattr(columns_module, "SYNC_BYTES", sync_bytes)
    features = np.arange(50 * NUM_FEATURES, dtype=np.float32).reshape(50, NUM_FEATURES)
    synced = []
    sync = ColumnWriter.sync
    monkeypatch.setattr(ColumnWriter, "sync", lambda writer: (synced.append(writer.path.stem), sync(writer)))
    with column_files(tmp_path) as files:
        for _ in range(3):
            files.append(chunk, features)
    assert set(synced) == (set(COLUMNS) if sync_bytes == 1 else set())
    for name in COLUMNS:
        values = features if name == "features" else getattr(chunk, name)
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), np.concatenate([values] * 3))


@pytest.mark.parametrize("num_appends", [1, 5])
def test_failed_sync_is_raised_by_a_later_append_or_at_the_end(tmp_path, monkeypatch, chunk, num_appends):
    """The system tells each error once: a sync at the end would succeed."""
    errors = [OSError(errno.EIO, "disk")]

    def fail_once(_writer):
        if errors:
            raise errors.pop()

    monkeypatch.setattr(columns_module, "SYNC_BYTES", 1)
    monkeypatch.setattr(ColumnWriter, "sync", fail_once)

    def write():
        with column_files(tmp_path) as files:
            for _ in range(num_appends):
                files.append(chunk, np.zeros((50, NUM_FEATURES), np.float32))

    with pytest.raises(OSError, match="disk"):
        write()
