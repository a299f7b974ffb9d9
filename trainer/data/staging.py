"""A directory that appears whole or not at all (SYSTEM.md section 1: a half-built cache is never seen)."""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.errors import InputError

LOCK_NAME = "building.lock"
GRACE_S = 60.0  # age from which a partial directory without a lock counts as abandoned
ADVICE = {
    errno.ENOSPC: "free some space or choose another cache directory",
    errno.EDQUOT: "raise the quota or choose another cache directory",
    errno.EACCES: "choose a writable cache directory",
    errno.EPERM: "choose a writable cache directory",
    errno.EROFS: "choose a writable cache directory",
}


@contextmanager
def staged_directory(target: Path, usable: Callable[[Path], bool]) -> Iterator[Path]:
    """Yields a temporary directory that becomes `target` when the block ends, and is removed when it fails.

    Leftovers of killed builds are removed first; a build that still runs holds the lock in its directory.
    When another build finished meanwhile and `usable(target)`, its result is kept and this one dropped.
    Raises InputError for an OSError of the block: unwritable path, full disk.
    """
    staging: Path | None = None
    lock = -1
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        staging = Path(tempfile.mkdtemp(prefix=f"{_prefix(target)}", dir=target.parent))
        lock = _lock(staging / LOCK_NAME, os.O_CREAT | os.O_EXCL)
        yield staging
        staging.chmod(0o755)  # mkdtemp's 0700 would hide the cache from other users of the volume
        _sync(staging)
        _publish(staging, target, usable)
        # Only now: a directory without its lock would look like a leftover to another build.
        (target / LOCK_NAME).unlink(missing_ok=True)
        _sync(target.parent)
    except OSError as error:
        what = f"cannot write here ({error.strerror or error})"
        raise InputError(
            what, where=str(target.parent), do=ADVICE.get(error.errno or 0, "choose another cache directory")
        ) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def _prefix(target: Path) -> str:
    return f".{target.name}.partial-"


def _lock(path: Path, flags: int = 0) -> int:
    """Opens and locks `path`, raising BlockingIOError where another process holds it; closing releases it."""
    descriptor = os.open(path, os.O_RDWR | flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        return descriptor  # a network volume without locks: leftovers are then taken for dead ones
    return descriptor


def _remove_leftovers(target: Path) -> None:
    for leftover in target.parent.glob(f"{_prefix(target)}*"):
        try:
            os.close(_lock(leftover / LOCK_NAME))
        except BlockingIOError:
            continue  # alive
        except FileNotFoundError:
            if time.time() - leftover.stat().st_mtime < GRACE_S:
                continue  # another build may be about to lock it
        shutil.rmtree(leftover, ignore_errors=True)


def _publish(staging: Path, target: Path, usable: Callable[[Path], bool]) -> None:
    if target.exists() and not usable(target):
        shutil.rmtree(target)
    try:
        staging.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not usable(target):
            raise


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
