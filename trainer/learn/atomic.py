"""Files that are either wholly there or not at all, also after a power cut or a full disk."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from trainer.errors import InputError

Buffer = bytes | memoryview

TEMPORARY_SUFFIX = ".tmp"
# Left free beside a new file, so that logs and markers of the same volume can still be written.
FREE_MARGIN_BYTES = 16 << 20


def write_file(
    path: Path, chunks: Iterable[Buffer], *, num_bytes: int = 0, check: Callable[[Path], object] | None = None
) -> None:
    """Write `chunks` to `path` atomically: temporary file, fsync, `check`, rename, fsync of the directory.

    `num_bytes` is the expected size, used to refuse before writing when the volume has no room. `check` reads
    the temporary file back and raises if it is not what was meant: the final name never shows a bad file.

    Raises OSError (also for too little space) with nothing left behind and an existing `path` untouched.
    """
    free = shutil.disk_usage(path.parent).free
    if free < num_bytes + FREE_MARGIN_BYTES:
        raise OSError(f"{free:,} bytes free, {num_bytes + FREE_MARGIN_BYTES:,} needed")
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
            stream.flush()
            os.fsync(stream.fileno())
        if check is not None:
            check(temporary)
        temporary.replace(path)
        _sync_directory(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def on_disk(path: Path, what: str, do: str) -> Iterator[None]:
    """An OSError of the block is one line for a person: `PATH: WHAT (REASON); DO`, as an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{what} ({error.strerror or error})", where=str(path), do=do) from error


def write_json(path: Path, body: Any) -> None:
    """Write `body` as indented JSON atomically; NaN and infinities are refused (ValueError)."""
    text = json.dumps(body, indent=2, allow_nan=False) + "\n"
    write_file(path, [text.encode()], num_bytes=len(text))


def _sync_directory(directory: Path) -> None:
    # The rename itself is durable only once the directory is.
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
