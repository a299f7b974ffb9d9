"""One writer per fold: an advisory lock that ends with the process that holds it, however it ends.

Two trainers in one fold would remove each other's checkpoints and mix their records (SYSTEM.md section 9).
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.errors import InputError

LOCK_NAME = ".lock"


@contextmanager
def fold_lock(directory: Path) -> Iterator[None]:
    """Holds `<directory>/.lock`, making the directory; the file stays, the lock does not.

    Raises InputError when the directory cannot be used or another process works in it. A network volume
    without locks is used unlocked.
    """
    path = directory / LOCK_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise InputError(
            f"cannot use the fold's directory: {error.strerror or error}",
            where=str(directory),
            do="choose a writable --run-dir",
        ) from error
    try:
        _take(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        raise InputError(
            f"another process works in this fold (process {holder})",
            where=str(directory),
            do="wait for it, or use another --run-dir",
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
