"""A run directory's copy in a bucket, `<mirror>/<run-id>/` in the same layout: what the stages see of it.

A stage first takes what the bucket has and the directory lacks, then sends what it makes: while it trains in
the background, and all the rest at its end (docs/mirror.md). Loads boto3 only where a mirror was given.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.errors import AlphaError, ExitCode, InputError, InterruptedRun
from trainer.learn.markers import Stage
from trainer.location import mirror_url
from trainer.storage.local import Progress

if TYPE_CHECKING:
    from trainer.learn.mirrored import Copy

OnSaved = Callable[[], None]
"""Called when a new checkpoint is whole on the disk; returns at once. Raises MismatchError (78) when a later
start of the stage sends now: this one is to end."""

STOP_S = 30.0  # for sending after a signal: a pod has 120 s, and saving comes first
QUIET_S = 2.0  # a transfer that takes longer shows its progress

_log = logging.getLogger(__name__)


class MirrorBehindError(AlphaError):
    """The mirror lacks something in the end: exit code 75, the plan tries again."""

    exit_code = ExitCode.INTERRUPTED


def no_mirror() -> None:
    """What a stage calls after a checkpoint when there is no mirror."""


@contextmanager
def mirror(
    location: str | None, run_dir: Path, stage: Stage, fold: int | None, on_progress: Progress
) -> Iterator[OnSaved]:
    """Restores what the stage needs, yields what it calls after a checkpoint, and sends the rest at its end.

    Without a location nothing happens. After InterruptedRun sending takes STOP_S at most, and what the bucket
    then lacks is a warning; after any other error nothing more is sent.

    Raises InputError (no such bucket, no permission: before any work; 75 where the store does not answer),
    MirrorBehindError (75: something was not sent in the end) and MismatchError (78: the files of another
    configuration or other data, or a later start of the same stage sends now).
    """
    url = mirror_url(location)
    if url is None:
        yield no_mirror
        return
    from trainer.learn.restore import begin

    copy = begin(url, run_dir, stage, fold, _patient(on_progress))
    try:
        yield copy.offer
        _send_all(copy, _patient(on_progress))
    except InterruptedRun:
        _send_some(copy)
        raise
    finally:
        copy.close()


def _send_all(copy: "Copy", on_progress: Progress) -> None:
    copy.offer()
    try:
        copy.wait(None, lambda: on_progress("mirror", *copy.progress))
    except InputError as error:
        do = f"the files here are whole; run the same command to send what is missing ({error.do})"
        raise MirrorBehindError(error.what, where=error.where, do=do) from error


def _send_some(copy: "Copy") -> None:
    missing = f"{STOP_S:g} s were not enough"
    try:
        copy.offer()
        if copy.wait(STOP_S, no_mirror):
            return
    except Exception as error:  # whatever it is, the stop at hand is what is reported
        missing = str(error)
    _log.warning("%s lacks the newest files, the next start sends them: %s", copy.root, missing)


def _patient(on_progress: Progress) -> Progress:
    """Reports nothing for QUIET_S: most transfers have ended by then."""
    begin_s = time.monotonic()

    def report(what: str, done: int, total: int) -> None:
        if time.monotonic() - begin_s >= QUIET_S:
            on_progress(what, done, total)

    return report
