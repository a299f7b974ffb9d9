"""Columns of a cache: `.npy` files that are appended to and then memory-mapped."""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.data.book import BookChunk
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

SYNC_BYTES = 32 * 1024 * 1024  # written between two syncs: a build does not end with a long wait for the disk


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

    def sync(self) -> None:
        """Forces what has been written to disk; may run beside `append`, in another thread."""
        os.fsync(self._file.fileno())

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


class ColumnFiles:
    """Writers of all COLUMNS; a thread forces them to disk while rows are still appended."""

    def __init__(self, writers: dict[str, ColumnWriter], thread: ThreadPoolExecutor) -> None:
        self._writers, self._thread = writers, thread
        self._syncing: Future[None] | None = None
        self._bytes = 0  # since the last sync began

    def append(self, chunk: BookChunk, features: npt.NDArray[np.float32]) -> None:
        """Writes the chunk's rows and their features `[n, F]`. Raises OSError, also of an earlier sync."""
        for name, writer in self._writers.items():
            values = features if name == "features" else getattr(chunk, name)
            writer.append(values)
            self._bytes += values.nbytes
        if self._bytes >= SYNC_BYTES and (self._syncing is None or self._syncing.done()):
            self._wait()
            self._syncing, self._bytes = self._thread.submit(self._sync), 0

    def close(self) -> None:
        """Completes all columns."""
        self._wait()
        for writer in self._writers.values():
            writer.close()

    def _wait(self) -> None:
        if self._syncing is not None:
            self._syncing.result()  # an error is reported to one sync only: it must not be lost

    def _sync(self) -> None:
        for writer in self._writers.values():
            writer.sync()


@contextmanager
def column_files(directory: Path) -> Iterator[ColumnFiles]:
    """Columns in `directory`, completed when the block succeeds and let go of when it fails."""
    writers: dict[str, ColumnWriter] = {}
    thread = ThreadPoolExecutor(1, "sync-columns")
    try:
        for name, (dtype, shape) in COLUMNS.items():
            writers[name] = ColumnWriter(directory / f"{name}.npy", dtype, shape)
        files = ColumnFiles(writers, thread)
        yield files
        files.close()
    finally:
        thread.shutdown()  # before the files that it syncs are closed
        for writer in writers.values():
            writer.abort()
