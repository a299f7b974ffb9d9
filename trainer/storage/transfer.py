"""One object into one file, in as many connections as it takes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from trainer.location import S3Url
from trainer.storage.failures import LATER, TryLaterError
from trainer.storage.store import Facts, Interrupted, Store

MAX_FAILURES = 5  # connections in a row that bring nothing
PAUSE_S = 1.0  # before another connection; doubles with each that brought nothing


def transfer(store: Store, url: S3Url, facts: Facts, part: Path, on_bytes: Callable[[int], None]) -> None:
    """Appends to `part` what it lacks of the object, then makes it durable.

    The bytes there must be of the same object. A cut connection is followed by another from the byte reached;
    after MAX_FAILURES that brought no byte the file stays as it is. `on_bytes` gets the bytes in the file.
    Raises InputError (TryLaterError when it gives up); `Changed` when the store has another object by now;
    OSError when writing fails.
    """
    failures = 0
    with part.open("ab") as file:
        if file.tell() > facts.num_bytes:
            file.truncate(0)
        reached = file.seek(0, os.SEEK_END)
        on_bytes(reached)
        while reached < facts.num_bytes:
            before, cause = reached, Interrupted("the answer ended early")
            try:
                for piece in store.read(url, facts.etag, reached):
                    file.write(piece)
                    reached += len(piece)
                    on_bytes(reached)
                    if reached > facts.num_bytes:
                        break  # not the object; the check of the sums says so
            except Interrupted as error:
                cause = error
            if reached < facts.num_bytes:
                failures = 0 if reached > before else failures + 1
                if failures == MAX_FAILURES:
                    raise _given_up(url, facts, reached, cause) from cause
                time.sleep(PAUSE_S * 2**failures)
        file.flush()
        os.fsync(file.fileno())


def _given_up(url: S3Url, facts: Facts, reached: int, cause: Interrupted) -> TryLaterError:
    what = (
        f"the download stopped at {reached:,} of {facts.num_bytes:,} bytes: "
        f"{MAX_FAILURES} connections in a row brought nothing: {cause}"
    )
    return TryLaterError(what, where=str(url), do=f"check the network; {LATER}")
