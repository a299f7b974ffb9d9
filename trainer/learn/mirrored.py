"""One directory of a run and its copy below a URL. Imports boto3."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainer.errors import AlphaError, InputError, MismatchError
from trainer.learn.atomic import TEMPORARY_SUFFIX
from trainer.learn.checkpoints import CheckpointStore, checkpoint_step
from trainer.learn.markers import MARKER_SUFFIX, Stage, read_marker
from trainer.learn.writer import Writer
from trainer.location import S3Url
from trainer.storage.checksum import NotTheObjectError, verify
from trainer.storage.failures import TryLaterError
from trainer.storage.head import Head
from trainer.storage.local import Progress
from trainer.storage.outbox import Outbox
from trainer.storage.store import Changed
from trainer.storage.transfer import transfer
from trainer.storage.upload import WritableStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """Files to send, in this order: name in the directory -> its bytes as they were."""

    files: dict[str, Head]

    def close(self) -> None:
        for file in self.files.values():
            file.close()


class Copy:
    """A directory and its copy. What is fetched and sent is compared with the store's checksums.

    deep: a fold, of which files at any depth are sent and one start at a time may do so; else the run itself,
    of which only the files directly in it are sent: few, and the same whoever writes them. Methods raise
    InputError.
    """

    def __init__(
        self, store: WritableStore, root: S3Url, directory: Path, deep: bool, on_progress: Progress
    ) -> None:
        self.root, self.directory = root, directory
        self.there = {
            listed.url.key.removeprefix(f"{root.key}/"): listed.num_bytes for listed in store.list(root)
        }
        self.progress = (0, 0)  # bytes of the files of the batch at hand: done, in all
        self._store, self._deep, self._on_progress = store, deep, on_progress
        self._writer = Writer(store, root)
        # Of the files that the bucket surely has: size and time of change.
        self._same: dict[str, tuple[int, int]] = {}
        self._warned: set[str] = set()
        self._taken: MismatchError | None = None
        self._closed = False
        self._outbox: Outbox[Batch] = Outbox(self._send, self._on_failure)

    def url(self, name: str) -> S3Url:
        """Where a file of the directory is in the bucket."""
        return self.root.at(f"{self.root.key}/{name}")

    def claim(self) -> None:
        """Takes the copy over, which shows that it may be written, and aborts uploads of killed processes."""
        self._writer.claim()
        self._store.abort_uploads(self.root, lambda name: self._deep or "/" not in name)

    def read(self, name: str) -> bytes | None:
        """The bytes of a small file of the copy; None where it is not there."""
        return self._store.note(self.url(name)) if name in self.there else None

    def fetch(self, name: str) -> Path:
        """Takes a file from the copy; it appears whole and verified, or not at all."""
        url, path = self.url(name), self.directory / name
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)
            facts = self._store.facts(url)
            transfer(
                self._store, url, facts, temporary,
                lambda done: self._on_progress("restore", done, facts.num_bytes),
            )  # fmt: skip
            verify(temporary, self._store, url, facts)
            temporary.replace(path)
            with Head(path) as file:
                self._same[name] = (file.num_bytes, file.mtime_ns)
        except (Changed, NotTheObjectError) as error:
            what = "the object changed while it was read" if isinstance(error, Changed) else error.what
            raise TryLaterError(what, where=str(url), do="run the same command again") from error
        except OSError as error:
            do = "free some space or choose a writable run directory"
            raise InputError(f"cannot write: {error.strerror or error}", where=str(path), do=do) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        return path

    def send(self, name: str) -> None:
        """Sends one file at once."""
        with Head(self.directory / name) as file:
            self._store.put(self.url(name), file, self._count)

    def offer(self) -> None:
        """Has the present files sent in the background, in place of an earlier offer that still waits.

        MismatchError if a later start has taken the copy over: what would still be made is nobody's.
        """
        if self._taken is not None:
            raise self._taken
        try:
            self._outbox.offer(Batch(self._opened()))
        except AlphaError as error:
            self._on_failure(error)

    def wait(self, limit_s: float | None, on_poll: Callable[[], None]) -> bool:
        """Waits until all that was offered is sent, `limit_s` at most; raises what the last offer met."""
        return self._outbox.wait(limit_s, on_poll)

    def close(self) -> None:
        """Sends nothing more behind the file at hand; does not wait."""
        self._closed = True
        self._outbox.close()

    def _opened(self) -> dict[str, Head]:
        files: dict[str, Head] = {}
        try:
            for name in sorted(self._names(), key=_order):
                with suppress(FileNotFoundError):  # a checkpoint or temporary file that went meanwhile
                    files[name] = Head(self.directory / name)
        except OSError as error:
            Batch(files).close()
            what = f"cannot read: {error.strerror or error}"
            raise InputError(what, where=str(error.filename or self.directory)) from error
        return files

    def _names(self) -> Iterator[str]:
        """Files of the directory that are sent: all but hidden and temporary ones and older checkpoints."""
        named = _named_checkpoints(self.directory) if self._deep else set()
        named |= {CheckpointStore(self.directory).path(s).name for s in self._local_steps()[:1]}
        for path in self.directory.rglob("*") if self._deep else self.directory.glob("*"):
            name = path.relative_to(self.directory).as_posix()
            hidden = any(part.startswith(".") for part in name.split("/"))
            if hidden or name.endswith(TEMPORARY_SUFFIX) or not path.is_file():
                continue
            if checkpoint_step(name) is None or name in named:
                yield name

    def _local_steps(self) -> list[int]:
        return CheckpointStore(self.directory).steps()

    def _send(self, batch: Batch) -> None:
        done, total = 0, sum(file.num_bytes for file in batch.files.values())
        for name, file in batch.files.items():
            if self._closed:
                return
            self.progress = (done, total)
            self._send_file(name, file)
            done += file.num_bytes
        self.progress = (done, total)
        self._prune()

    def _send_file(self, name: str, file: Head) -> None:
        known = (file.num_bytes, file.mtime_ns)
        if self._same.get(name) == known:
            return
        # What an earlier process sent is not sent again.
        sent = name not in self._same and self.there.get(name) == file.num_bytes
        if not (sent and self._store.holds(self.url(name), file)):
            if missing := _missing_checkpoint(name, file, self.there):
                self._warn_once(f"{self.url(name)} was not sent: {missing}, which it names, is gone", name)
                return
            self._require_mine()
            self._store.put(self.url(name), file, self._count)
        self._same[name], self.there[name] = known, file.num_bytes

    def _count(self, num_bytes: int) -> None:
        self.progress = (self.progress[0] + num_bytes, self.progress[1])

    def _prune(self) -> None:
        """Removes checkpoints that the directory no longer has either, of fewer steps than the copy's newest.

        That one stays until a newer one has arrived, though training is ahead of it by many by then: the
        volume may be lost at any time.
        """
        local = self._local_steps()
        there = {name: step for name in self.there if (step := checkpoint_step(name)) is not None}
        for name, step in there.items():
            if not local or step in local or step > local[0] or step == max(there.values()):
                continue
            self._require_mine()
            try:
                self._store.remove(self.url(name))
            except InputError as error:
                self._warn_once(f"an old checkpoint was not removed: {error}", error.what)
                return
            del self.there[name]

    def _require_mine(self) -> None:
        if self._deep:
            self._writer.require_mine()

    def _on_failure(self, error: Exception) -> None:
        text = str(error) if isinstance(error, AlphaError) else f"{type(error).__name__}: {error}"
        goes_on = "the mirror is behind, the stage goes on"
        if isinstance(error, MismatchError):
            self._taken, goes_on = error, "nothing more is sent, the stage ends"
        # One warning a kind: behind the colon stands what may be new each time.
        self._warn_once(f"{goes_on}: {text}", getattr(error, "what", text).partition(": ")[0])

    def _warn_once(self, text: str, kind: str) -> None:
        if kind not in self._warned and not self._closed:
            self._warned.add(kind)
            _log.warning("%s", text)


def _order(name: str) -> tuple[int, str]:
    """Markers last, and train's before the one that stands on it; a checkpoint behind its records."""
    if name.endswith(MARKER_SUFFIX):
        return (3 if name.startswith("evaluate") else 2), name
    return int(checkpoint_step(name) is not None), name


def _named_checkpoints(directory: Path) -> set[str]:
    names = set()
    stages: tuple[Stage, ...] = ("train", "evaluate")
    for stage in stages:
        with suppress(InputError):  # a damaged marker names nothing; the stage itself says so
            marker = read_marker(directory, stage)
            names |= {marker.checkpoint} if marker and marker.checkpoint else set()
    return names


def _missing_checkpoint(name: str, file: Head, there: dict[str, int]) -> str | None:
    """The checkpoint that a marker names and the bucket lacks."""
    if not name.endswith(MARKER_SUFFIX):
        return None
    with file.again() as own:
        try:
            named = json.loads(own.read()).get("checkpoint")
        except (ValueError, AttributeError):
            return None
    return named if named and named not in there else None
