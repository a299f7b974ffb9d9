"""One writer per directory: an advisory lock that ends with the processes that hold it, however they end."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.errors import BusyError, InputError

LOCK_NAME = ".lock"


@contextmanager
def directory_lock(directory: Path, taken: str, do: str, wait_s: float = 0.0) -> Iterator[int]:
    """Holds `<directory>/.lock`, making both; yields its descriptor. The file stays, the lock does not.

    A child that inherits the descriptor keeps the lock after its parent was killed. `taken` and `do` are what
    the BusyError says when another process still holds the lock after `wait_s` seconds. InputError for an
    unusable directory; a network volume without locks is used unlocked.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        what = f"cannot use the directory: {error.strerror or error}"
        raise InputError(what, where=str(directory), do="choose a writable one") from error
    try:
        give_up = time.monotonic() + wait_s
        while not _take(descriptor):
            if time.monotonic() < give_up:
                time.sleep(0.1)
                continue
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise BusyError(f"{taken} (process {holder})", where=str(directory), do=do)
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    """Whether the lock is ours, or cannot be had from this file system at all; leaves our process id."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return True
