"""Is a file the object that the store holds? By the store's checksum, or by an ETag made of MD5 sums.

Sums come in two kinds: over the whole object, or, for one uploaded in parts, over the parts' sums in a row
("composite"). The second needs the sizes of the parts, which the store is asked for.
"""

import base64
import binascii
import hashlib
import logging
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from awscrt import checksums

from trainer.errors import InputError
from trainer.location import S3Url
from trainer.storage.store import CHECKSUMS, Facts, Store

READ_BYTES = 1024 * 1024
SIZE_ONLY = "size only"
MD5_ETAG = re.compile(r'"?([0-9a-f]{32})(?:-(\d+))?"?')

_log = logging.getLogger(__name__)


class Differs(Exception):  # noqa: N818 (an answer of `compare`; what it means is the caller's to say)
    """The file and the object are not the same; says in what."""


class NotTheObjectError(InputError):
    """The file has other bytes than the object: it must not be used, nor continued."""


class Source(Protocol):
    """What files opened for reading bytes can do."""

    def read(self, size: int = -1, /) -> bytes | None:
        """The next bytes, `size` at most; none at the end."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Goes to an offset."""


class Sum(Protocol):
    """What hashlib's objects can do."""

    def update(self, data: bytes, /) -> None:
        """Takes the next bytes."""

    def digest(self) -> bytes:
        """The sum of all bytes so far."""


class Crc:
    """A CRC with the interface of hashlib; its digest is big-endian, as in S3's headers."""

    def __init__(self, step: Callable[[bytes, int], int], num_bytes: int) -> None:
        self._step, self._num_bytes, self._value = step, num_bytes, 0

    def update(self, data: bytes, /) -> None:
        self._value = self._step(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._num_bytes, "big")


ALGORITHMS: dict[str, Callable[[], Sum]] = {
    "SHA256": hashlib.sha256,
    "CRC64NVME": partial(Crc, checksums.crc64nvme, 8),
    "CRC32C": partial(Crc, checksums.crc32c, 4),
    "CRC32": partial(Crc, zlib.crc32, 4),
    "SHA1": partial(hashlib.sha1, usedforsecurity=False),
    "MD5": partial(hashlib.md5, usedforsecurity=False),
}


@dataclass(frozen=True)
class Expected:
    """A sum that the file must have."""

    algorithm: str
    digest: bytes
    num_parts: int  # 0: over the whole object


def verify(path: Path, store: Store, url: S3Url, facts: Facts) -> str:
    """Reads a downloaded file and returns what it was verified by, as `compare`.

    Raises NotTheObjectError; InputError when the store cannot be asked, and OSError when the file cannot be
    read.
    """
    try:
        with path.open("rb") as file:
            verified_by = compare(file, path.stat().st_size, store, url, facts)
    except Differs as difference:
        do = "run again to fetch it anew; if that does not help, upload it again"
        what = f"the download is not the object: {difference}; it was removed"
        raise NotTheObjectError(what, where=str(url), do=do) from difference
    if verified_by == SIZE_ONLY:
        _log.warning("%s: the store tells no checksum of it: only its size was verified", url)
    return verified_by


def compare(file: Source, num_bytes: int, store: Store, url: S3Url, facts: Facts) -> str:
    """Compares a file of `num_bytes` with the object; returns by what, e.g. `CRC64NVME` or `MD5 of 3 parts`.

    A store that tells no usable sum leaves the size: `SIZE_ONLY`. Raises Differs; InputError when the store
    cannot be asked, and OSError when the file cannot be read.
    """
    if num_bytes != facts.num_bytes:
        raise Differs(f"{num_bytes:,} bytes arrived, the object has {facts.num_bytes:,}")
    for expected in expectations(facts):
        if expected.num_parts == 0:
            layouts: Iterator[list[int]] = iter([[]])
            name = expected.algorithm
        else:
            layouts = _layouts(store, url, facts.num_bytes, expected.num_parts)
            name = f"{expected.algorithm} of {expected.num_parts} parts"
        found: list[str] = []
        for parts in layouts:
            file.seek(0)
            digest = digest_of(file, expected.algorithm, parts)
            if digest == expected.digest:
                return name
            found.append(digest.hex())
        if found:
            raise Differs(f"its {name} is {found[-1]}, the store says {expected.digest.hex()}")
    return SIZE_ONLY


def expectations(facts: Facts) -> list[Expected]:
    """The usable sums of an object, the surest and simplest first."""
    whole, composite = [], []
    etag = MD5_ETAG.fullmatch(facts.etag)
    parts_of_etag = int(etag[2] or 0) if etag else 0
    for name in CHECKSUMS:
        value, _, parts = facts.checksums.get(name, "").partition("-")
        digest = _decoded(value, name)
        if digest is None:
            continue
        if parts.isdigit():
            composite.append(Expected(name, digest, int(parts)))
        elif facts.checksum_type == "FULL_OBJECT" or (not facts.checksum_type and not parts_of_etag):
            whole.append(Expected(name, digest, 0))
        # Else of parts, and how many is not told: some stores leave out type and number.
    if etag and facts.etag_is_md5:
        (composite if parts_of_etag else whole).append(Expected("MD5", bytes.fromhex(etag[1]), parts_of_etag))
    return whole + composite


def digest_of(file: Source, algorithm: str, parts: list[int]) -> bytes:
    """The sum over the file from where it stands, or over the sums of its parts of these sizes (bytes)."""
    make = ALGORITHMS[algorithm]
    if not parts:
        whole = make()
        while piece := file.read(READ_BYTES):
            whole.update(piece)
        return whole.digest()
    outer = make()
    for size in parts:
        inner = make()
        while size and (piece := file.read(min(size, READ_BYTES))):
            inner.update(piece)
            size -= len(piece)
        outer.update(inner.digest())
    return outer.digest()


def _layouts(store: Store, url: S3Url, num_bytes: int, num_parts: int) -> Iterator[list[int]]:
    """Sizes of the parts: as nearly every uploader cuts, all like the first one; then as the store says.

    The first takes one request, the second one for each of up to 10,000 parts. Nothing where the store does
    not tell.
    """
    first = store.part_bytes(url, 1)
    if first is None or first[1] != num_parts:
        return
    size, before_last = first[0], num_parts - 1
    if size * before_last < num_bytes <= size * num_parts:
        yield [size] * before_last + [num_bytes - size * before_last]
    told = [store.part_bytes(url, part) for part in range(1, num_parts + 1)]
    sizes = [found[0] for found in told if found is not None]
    if len(sizes) == num_parts and sum(sizes) == num_bytes:
        yield sizes


def _decoded(value: str, algorithm: str) -> bytes | None:
    """The digest of a header; None for what is none."""
    try:
        digest = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        return None
    return digest if len(digest) == len(ALGORITHMS[algorithm]().digest()) else None
