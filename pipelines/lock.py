"""One writer per run directory: an advisory lock that also the children of a killed runner keep."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.errors import InputError

LOCK_NAME = ".lock"


@contextmanager
def run_lock(run_dir: Path) -> Iterator[int]:
    """Hold `<run_dir>/.lock`; yields its file descriptor.

    Children inherit the descriptor: where the runner is killed, its orphans keep the lock until they end.
    Raises InputError when the directory cannot be made or another runner (or its orphan) holds the lock.
    """
    path = run_dir / LOCK_NAME
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InputError(
            f"cannot use the run directory: {error.strerror}",
            where=str(run_dir),
            do="give --runs a writable directory",
        ) from error
    try:
        _take(descriptor, run_dir)
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, run_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        raise InputError(
            f"another run is writing here (process {holder})",
            where=str(run_dir),
            do="wait for it, or give another --run-id",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
