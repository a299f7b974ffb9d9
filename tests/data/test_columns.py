"""Columns that are appended to are plain numpy files."""

import numpy as np
import pytest

from trainer.data.columns import ColumnWriter


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
