"""Columns of a cache: `.npy` files that are appended to and then memory-mapped."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.types import NUM_FEATURES, NUM_LEVELS

# Name, dtype and shape of one row; the leading dimension is the rows R.
COLUMNS: dict[str, tuple[str, tuple[int, ...]]] = {
    "ts_ns": ("<i8", ()),
    "bid_px": ("<i4", (NUM_LEVELS,)),
    "ask_px": ("<i4", (NUM_LEVELS,)),
    "bid_sz": ("<i4", (NUM_LEVELS,)),
    "ask_sz": ("<i4", (NUM_LEVELS,)),
    "signed_volume": ("<i4", ()),
    "trade_count": ("<i4", ()),
    "segment": ("<i4", ()),
    "features": ("<f4", (NUM_FEATURES,)),
}


class ColumnWriter:
    """Appends rows to one `.npy` file; the header is rewritten with the final number of rows by `close`."""

    def __init__(self, path: Path, dtype: str, row_shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.row_shape = path, np.dtype(dtype), row_shape
        self.num_rows = 0
        self._file = path.open("wb")
        self._header_bytes = self._write_header()

    def append(self, values: npt.NDArray[Any]) -> None:
        """Writes `values` `[n, *row_shape]`."""
        if values.shape[1:] != self.row_shape:
            raise ValueError(f"{self.path.stem}: rows of shape {values.shape[1:]}, expected {self.row_shape}")
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.num_rows += len(values)

    def close(self) -> None:
        """Completes the header and forces the file to disk."""
        self._file.seek(0)
        if self._write_header() != self._header_bytes:
            # numpy leaves room for a growing first axis; without it the header would overwrite rows.
            raise ValueError(f"{self.path}: the header grew")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abort(self) -> None:
        """Closes the file, whatever state it is in."""
        try:
            self._file.close()
        except OSError:
            return  # the disk is full: what was buffered is lost, and the file is about to be removed

    def _write_header(self) -> int:
        shape = (self.num_rows, *self.row_shape)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()
