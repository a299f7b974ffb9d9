"""The raw layer of the checkpoint format: named byte sections with CRCs (SYSTEM.md section 9; typed: `foxc`).

    magic u32 = 0x464F5843 | version u32 = 1 | step u64 | sections u32                        (little-endian)
    each section: name_len u16 | name utf-8 | data_len u64 | data

The last section, `crc`, holds one u32 per earlier section (over its whole frame, name and length included)
between the crc32 of the header and the crc32 of the table itself: a flipped byte anywhere is found.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from trainer.errors import InputError
from trainer.learn.atomic import Buffer, write_file

MAGIC = 0x464F5843
VERSION = 1
CRC = "crc"

_HEADER = struct.Struct("<IIQI")
_NAME_LENGTH = struct.Struct("<H")
_DATA_LENGTH = struct.Struct("<Q")


def write_frames(path: Path, step: int, sections: Mapping[str, Buffer]) -> int:
    """Write sections and CRCs atomically, read them back to verify, return the file's size in bytes.

    Raises InputError when the disk is full, the path unwritable or the file reads back differently; nothing
    is left behind and an existing file stays. ValueError for a name no file can hold.
    """
    header = _HEADER.pack(MAGIC, VERSION, step, len(sections) + 1)
    frames = [(_frame_head(name, len(data)), data) for name, data in sections.items()]
    sums = [zlib.crc32(header), *(zlib.crc32(data, zlib.crc32(head)) for head, data in frames)]
    table = struct.pack(f"<{len(sums)}I", *sums)
    table += struct.pack("<I", zlib.crc32(table))
    frames.append((_frame_head(CRC, len(table)), table))
    chunks = [header, *(part for frame in frames for part in frame)]
    num_bytes = sum(len(chunk) for chunk in chunks)
    try:
        write_file(path, chunks, num_bytes=num_bytes, check=read_frames)
    except OSError as error:
        what = f"cannot write the checkpoint ({num_bytes:,} bytes): {error.strerror or error}"
        raise InputError(what, where=str(path), do="free space or choose a writable directory") from error
    return num_bytes


def read_frames(path: Path) -> tuple[int, dict[str, bytearray]]:
    """Step and sections (without `crc`) of a file, every CRC checked.

    Raises InputError naming file, found and expected: unreadable, wrong magic or version, truncated, trailing
    bytes, a section twice, `crc` missing or wrong.
    """
    try:
        with path.open("rb") as stream:
            return _Reader(path, stream, path.stat().st_size).read()
    except OSError as error:
        raise InputError(f"cannot read the checkpoint: {error.strerror or error}", where=str(path)) from error


def _frame_head(name: str, num_bytes: int) -> bytes:
    encoded = name.encode()
    if not 0 < len(encoded) < 1 << 16:
        raise ValueError(f"section name {name!r} must have 1 to 65535 bytes")
    return _NAME_LENGTH.pack(len(encoded)) + encoded + _DATA_LENGTH.pack(num_bytes)


@dataclass
class _Reader:
    path: Path
    stream: BufferedReader
    size: int

    def read(self) -> tuple[int, dict[str, bytearray]]:
        header = self._take(_HEADER.size, "the header")
        magic, version, step, num_sections = _HEADER.unpack(header)
        if magic != MAGIC:
            raise self._error(f"no checkpoint: found magic {magic:#010x}, expected {MAGIC:#010x}")
        if version != VERSION:
            raise self._error(f"found format version {version}, expected {VERSION}")
        sums, sections = [zlib.crc32(header)], dict[str, bytearray]()
        for name, head, data in self._sections(num_sections):
            if name in sections:
                raise self._error("found the section twice, expected once", f" section {name!r}")
            sections[name] = data
            sums.append(zlib.crc32(data, zlib.crc32(head)))
        if self.stream.tell() != self.size:
            raise self._error(f"found {self.size:,} bytes, expected {self.stream.tell():,}")
        self._check(sections, sums[:-1])
        return step, sections

    def _sections(self, count: int) -> Iterator[tuple[str, bytes, bytearray]]:
        for index in range(count):
            what = f"section {index} of {count}"
            name_length = self._take(_NAME_LENGTH.size, what)
            name = self._take(_NAME_LENGTH.unpack(name_length)[0], what)
            data_length = self._take(_DATA_LENGTH.size, what)
            data = self._take(_DATA_LENGTH.unpack(data_length)[0], what)
            # A damaged name need not be utf-8; its CRC is what reports it.
            yield name.decode(errors="backslashreplace"), bytes(name_length + name + data_length), data

    def _take(self, count: int, what: str) -> bytearray:
        # Compared before allocating: a damaged length may ask for more memory than there is.
        position = self.stream.tell()
        data = bytearray(min(count, self.size - position))
        if self.stream.readinto(data) != count:
            what = f"truncated in {what}: found {len(data):,} bytes, expected {count:,}"
            raise self._error(what, f" @ byte {position}")
        return data

    def _check(self, sections: dict[str, bytearray], computed: list[int]) -> None:
        names = list(sections)
        if not names or names[-1] != CRC:
            raise self._error(f"found {names[-1:]} as the last section, expected {CRC!r}")
        table = sections.pop(CRC)
        if len(table) != 4 * len(computed) + 4:
            what = f"found {len(table)} bytes, expected {4 * len(computed) + 4}"
            raise self._error(what, f" section {CRC!r}")
        stored = struct.unpack(f"<{len(computed) + 1}I", table)
        labels = [" header", *(f" section {name!r}" for name in names)]
        for label, expected, found in zip(labels, stored, [*computed, zlib.crc32(table[:-4])], strict=True):
            if found != expected:
                raise self._error(f"bad CRC: found {found:#010x}, expected {expected:#010x}", label)

    def _error(self, what: str, place: str = "") -> InputError:
        return InputError(what, where=f"{self.path}{place}")
