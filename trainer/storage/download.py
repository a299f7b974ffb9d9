"""The data files of an s3:// URL in a directory, fetched once, resumed after any end, verified.

Layout of `<cache_root>/downloads/<digest of endpoint and URL>/`: the verified files, `<name>.part` of an
unfinished one, and `<name>.s3.json` beside both, which says of which object the bytes are.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.errors import BusyError, InputError
from trainer.location import S3Url
from trainer.lock import LOCK_NAME, directory_lock
from trainer.storage.checksum import NotTheObjectError, verify
from trainer.storage.listing import data_objects, is_data_key
from trainer.storage.store import Changed, Facts, Listed, Store
from trainer.storage.transfer import transfer

PART_SUFFIX, RECORD_SUFFIX, TEMPORARY_SUFFIX = ".part", ".s3.json", ".s3.json.tmp"
FREE_MARGIN_BYTES = 16 << 20  # left for the logs and markers on the same volume
MAX_CHANGES = 3  # times that an object may change under its transfer
WAIT_S = 3600.0  # for another run that fetches or reads the same files; the plan gives the stage twice that
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_log = logging.getLogger(__name__)
OnBytes = Callable[[int, int], None]
"""`(bytes there, bytes in all)` of the files that a download must fetch or finish."""


@dataclass(frozen=True)
class Record:
    """Of which object the bytes of a file, or of its unfinished part, are."""

    url: str
    etag: str
    num_bytes: int
    version_id: str | None
    verified_by: str | None  # None: not yet

    def is_of(self, found: Listed | Facts) -> bool:
        """Whether the store still has the same object."""
        # Some stores leave out the ETag's quotes in listings.
        return self.etag.strip('"') == found.etag.strip('"') and self.num_bytes == found.num_bytes


@contextmanager
def downloaded(url: S3Url, cache_root: Path, on_bytes: OnBytes) -> Iterator[Path]:
    """The file or directory with the data of `url`, held until the block ends.

    Files that are there already and still are the store's objects are not fetched again; files of objects
    that are gone are removed. Raises InputError, BusyError; an InputError of the block that names a file is
    raised again with its object's URL.
    """
    store = Store(url)
    objects = data_objects(store, url)  # first: a wrong URL leaves nothing behind
    name = hashlib.sha256(f"{store.endpoint}\0{url}".encode()).hexdigest()[:16]
    directory = cache_root / "downloads" / name
    places = {str(directory): url} | {str(directory / name): found.url for name, found in objects.items()}
    with _held(directory, url):
        with _writing(directory):
            _fetch_all(store, objects, directory, on_bytes)
        with _named_by_url(places):
            yield directory / url.key.rpartition("/")[2] if is_data_key(url.key) else directory


@contextmanager
def _held(directory: Path, url: S3Url) -> Iterator[None]:
    taken = f"another run has fetched or read the files of {url} for {WAIT_S / 3600:.0f} h"
    do = "run again when it has ended"
    with ExitStack() as stack:
        try:
            stack.enter_context(directory_lock(directory, taken, do))
        except BusyError:
            _log.warning("%s: waiting for another run that fetches or reads these files", url)
            stack.enter_context(directory_lock(directory, taken, do, wait_s=WAIT_S))
        yield


@contextmanager
def _named_by_url(places: dict[str, S3Url]) -> Iterator[None]:
    """Damage of a verified file is damage of its object: errors name that, not the copy."""
    try:
        yield
    except InputError as error:
        path, at, offset = error.where.partition(" @ ")
        if path not in places:
            raise
        raise type(error)(error.what, where=f"{places[path]}{at}{offset}", do=error.do) from error


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        do = "free some space or choose another --cache-dir" if full else "choose a writable --cache-dir"
        raise InputError(
            f"cannot write here ({error.strerror or error})", where=str(directory), do=do
        ) from error


def _fetch_all(store: Store, objects: dict[str, Listed], directory: Path, on_bytes: OnBytes) -> None:
    _remove_others(directory, objects)
    missing = {name: found for name, found in objects.items() if not _is_done(directory, name, found)}
    _require_space(directory, missing)
    done, total = 0, sum(found.num_bytes for found in missing.values())
    for name, found in missing.items():

        def on_here(here: int, before: int = done) -> None:
            on_bytes(before + here, total)

        _fetch(store, found.url, directory / name, on_here)
        done += found.num_bytes


def _fetch(store: Store, url: S3Url, path: Path, on_here: Callable[[int], None]) -> None:
    part = path.with_name(path.name + PART_SUFFIX)
    for _ in range(MAX_CHANGES):
        facts = store.facts(url)
        _begin(path, part, url, facts)
        try:
            transfer(store, url, facts, part, on_here)
        except Changed:
            continue
        except OSError:
            part.unlink(missing_ok=True)  # on a full disk it would only be in the way of others
            raise
        _finish(store, url, path, part, facts)
        return
    what = f"the object changed {MAX_CHANGES} times while it was read"
    raise InputError(what, where=str(url), do="run again when its upload has ended")


def _begin(path: Path, part: Path, url: S3Url, facts: Facts) -> None:
    """Leaves a part only if it is of this very object, and the record that says so."""
    record = _read_record(path)
    if record is None or not record.is_of(facts):
        part.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    _write_record(path, Record(str(url), facts.etag, facts.num_bytes, facts.version_id, None))


def _finish(store: Store, url: S3Url, path: Path, part: Path, facts: Facts) -> None:
    try:
        verified_by = verify(part, store, url, facts)
    except NotTheObjectError:
        part.unlink(missing_ok=True)
        raise
    # The record first: one that says "verified" beside a part is verified again, never trusted.
    _write_record(path, Record(str(url), facts.etag, facts.num_bytes, facts.version_id, verified_by))
    part.replace(path)


def _is_done(directory: Path, name: str, found: Listed) -> bool:
    path = directory / name
    record = _read_record(path)
    there = record is not None and record.verified_by is not None and record.is_of(found)
    return there and path.is_file() and path.stat().st_size == found.num_bytes


def _require_space(directory: Path, missing: dict[str, Listed]) -> None:
    there = sum(_size(directory / f"{name}{PART_SUFFIX}") for name in missing)
    needed = sum(found.num_bytes for found in missing.values()) - there
    free = shutil.disk_usage(directory).free
    if needed > 0 and free < needed + FREE_MARGIN_BYTES:
        what = f"{needed:,} bytes are to be fetched, {free:,} are free"
        raise InputError(what, where=str(directory), do="free some space or choose another --cache-dir")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _remove_others(directory: Path, objects: dict[str, Listed]) -> None:
    """Files of objects that the store no longer lists: they would be read as data."""
    for path in directory.iterdir():
        name = path.name
        for suffix in (PART_SUFFIX, RECORD_SUFFIX, TEMPORARY_SUFFIX):
            name = name.removesuffix(suffix)
        if name not in objects and name != LOCK_NAME:
            path.unlink()


def _read_record(path: Path) -> Record | None:
    """The record of a file; None where there is none that can be read."""
    try:
        return Record(**json.loads(path.with_name(path.name + RECORD_SUFFIX).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _write_record(path: Path, record: Record) -> None:
    target = path.with_name(path.name + RECORD_SUFFIX)
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    with temporary.open("w") as file:
        json.dump(asdict(record), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(target)
