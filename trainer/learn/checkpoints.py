"""The checkpoints of one fold's directory: saving, keeping, finding (SYSTEM.md section 9)."""

import hashlib
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.errors import InputError, MismatchError
from trainer.learn.atomic import TEMPORARY_SUFFIX
from trainer.learn.foxc import Checkpoint, SectionData, read_foxc, write_foxc

_NAME = re.compile(r"checkpoint-(\d+)\.bin")
_log = logging.getLogger(__name__)

# What a checkpoint must share with the run that loads it, and what a person calls it.
IDENTITY = {"config_digest": "config digest", "data_fingerprint": "data fingerprint"}


def checkpoint_step(name: str) -> int | None:
    """Step of a checkpoint's file name; None for other names."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


@dataclass(frozen=True)
class SaveReport:
    """What a save did: the file, its size in bytes and the milliseconds it took, verification included."""

    path: Path
    num_bytes: int
    elapsed_ms: float

    def __str__(self) -> str:
        return f"checkpoint saved: {self.path} ({self.num_bytes} bytes, {self.elapsed_ms:.0f} ms)"


class CheckpointStore:
    """`checkpoint-<step>.bin` files of a directory, of which the newest `keep` are kept.

    One process writes a directory at a time (the caller holds the run directory's lock); reading is free.
    """

    def __init__(self, directory: Path, keep: int = 2) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, not {keep}")
        self.directory, self.keep = directory, keep

    def path(self, step: int) -> Path:
        """The file of `step` completed steps."""
        return self.directory / f"checkpoint-{step}.bin"

    def steps(self) -> list[int]:
        """Steps of the files present, newest first; whether they are valid is not looked at."""
        if not self.directory.is_dir():
            return []
        found = (checkpoint_step(entry.name) for entry in self.directory.iterdir())
        return sorted((step for step in found if step is not None), reverse=True)

    def save(
        self, step: int, sections: Mapping[str, SectionData], meta: Mapping[str, Any] | None = None
    ) -> SaveReport:
        """Write and verify a checkpoint, then remove the older ones beyond `keep`.

        Raises InputError (full disk, unwritable directory, failed verification): nothing half-written
        stays and the older checkpoints are untouched. A file that cannot be removed only warns.
        """
        begin = time.perf_counter()
        path = self.path(step)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
        except OSError as error:
            raise InputError(
                f"cannot use the checkpoint directory: {error.strerror or error}",
                where=str(self.directory),
                do="choose a writable run directory",
            ) from error
        num_bytes = write_foxc(path, step, sections, meta)
        self._remove_older(step)
        return SaveReport(path, num_bytes, (time.perf_counter() - begin) * 1e3)

    def newest_valid(self) -> tuple[Path, Checkpoint] | None:
        """The valid checkpoint of the most steps, or None; broken ones are skipped with a warning."""
        for step in self.steps():
            if (checkpoint := self.valid(step)) is not None:
                return self.path(step), checkpoint
        return None

    def valid(self, step: int) -> Checkpoint | None:
        """The checkpoint of that step; None, with a warning, for a broken one."""
        path = self.path(step)
        try:
            checkpoint = read_foxc(path)
            if checkpoint.step != step:
                raise InputError(f"found step {checkpoint.step}, expected {step}", where=str(path))
        except InputError as error:
            _log.warning("broken checkpoint skipped: %s", error)
            return None
        return checkpoint

    def _remove_older(self, step: int) -> None:
        # Counted from the new step: a later file is a broken one, or was passed over by --resume-from.
        older = [other for other in self.steps() if other < step]
        for other in older[self.keep - 1 :]:
            try:
                self.path(other).unlink(missing_ok=True)
            except OSError as error:
                _log.warning("old checkpoint not removed: %s: %s", self.path(other), error.strerror or error)

    def _remove_leftovers(self) -> None:
        # Of a process killed while writing; the lock on the run directory says that it is gone.
        for entry in self.directory.glob(f"checkpoint-*.bin{TEMPORARY_SUFFIX}"):
            entry.unlink(missing_ok=True)


def require_identity(checkpoint: Checkpoint, **expected: str) -> None:
    """Refuse a checkpoint of another run: `require_identity(found, config_digest=..., data_fingerprint=...)`.

    Raises MismatchError (exit code 78) that names both values of the first difference; a key that the
    checkpoint's `meta` does not hold differs.
    """
    for key, value in expected.items():
        found = checkpoint.meta.get(key)
        if found != value:
            raise MismatchError(
                f"{IDENTITY.get(key, key)} is {found or 'absent'}, this run's is {value}",
                where=str(checkpoint.path),
                do="resume with the same config and data, or start another run id",
            )


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in hex: names a checkpoint in markers. InputError if unreadable."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", where=str(path)) from error
