"""Streaming reader of Databento DBN files that trusts no byte: DATA.md, "The record" and trap 7.

Vendor readers return fewer rows and a warning for a truncated file, and misaligned rows for concatenated
files. Here both are errors, and so is everything else that is not exactly a whole file of the given schema.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import databento_dbn
import numpy as np
import numpy.typing as npt

from trainer.data.stream import ByteStream
from trainer.errors import InputError

UNDEF_PRICE = np.iinfo(np.int64).max
UNDEF_TIME = np.iinfo(np.uint64).max
LAST, SNAPSHOT, BAD_TS_RECV, MAYBE_BAD_BOOK = 128, 32, 8, 4  # bits of `flags`

RECORD_TYPES: dict[str, Any] = {"mbp-10": databento_dbn.MBP10Msg, "trades": databento_dbn.TradeMsg}
RTYPES = {"mbp-10": 10, "trades": 0}
DBN_SUFFIXES = (".dbn", ".dbn.zst")
WORD_BYTES = 4  # the length word of a record counts these
PREFIX_BYTES = 8  # "DBN", version u1, metadata length u4
MAX_METADATA_BYTES = 64 * 1024 * 1024  # far above any real file; a damaged length must not allocate gigabytes

CHUNK_RECORDS = 16_384  # 6 MB of mbp-10 records: large enough for numpy, little to hold

AS_IS: Any = databento_dbn.VersionUpgradePolicy.AS_IS  # its type stub calls it an int

Records = npt.NDArray[Any]


@dataclass(frozen=True)
class DbnMetadata:
    """What a DBN header says about its records."""

    version: int  # 1, 2 or 3
    dataset: str  # e.g. GLBX.MDP3
    schema: str  # e.g. mbp-10
    symbols: tuple[str, ...]  # as requested
    stype_in: str  # how they were requested: raw_symbol, continuous, parent, ...
    ts_out: bool  # records carry 8 more bytes, the send time
    header_bytes: int  # offset of the first record in the decompressed stream

    def dtype(self) -> np.dtype[Any]:
        """Layout of one record: `databento_dbn.MBP10Msg` or `TradeMsg`, plus `ts_out` where present."""
        fields: list[tuple[str, str]] = list(RECORD_TYPES[self.schema]._dtypes)
        return np.dtype([*fields, ("ts_out", "u8")] if self.ts_out else fields)


class RecordReader:
    """Iterates over the records of one file in chunks `[<= chunk_records] structured`, in bounded memory.

    Every record's length and type word is checked. Raises InputError with file and byte offset (of the
    decompressed stream) for anything but a whole file of `schema`. Source: DATA.md trap 7.
    """

    def __init__(self, path: Path, schema: str = "mbp-10", chunk_records: int = CHUNK_RECORDS) -> None:
        self.path = path
        self.chunk_records = chunk_records
        self._stream = ByteStream(path)
        try:
            self.metadata = _parse_metadata(self._stream, schema)
        except InputError:
            self._stream.close()
            raise
        self._dtype = self.metadata.dtype()
        self.offset = self.metadata.header_bytes  # byte offset of the chunk last yielded

    @property
    def bytes_read(self) -> int:
        """Bytes consumed of the file as stored (compressed ones where it is compressed)."""
        return self._stream.bytes_read

    def __enter__(self) -> "RecordReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[Records]:
        size = self._dtype.itemsize
        self._stream.read_ahead()
        while True:
            self.offset = self._stream.offset
            # Not zeroed like a bytearray; a new one each time, since the consumer may keep it.
            buffer = np.empty(self.chunk_records * size, np.uint8).data
            num_bytes = self._stream.readinto(buffer)
            whole_bytes = num_bytes - num_bytes % size
            records = np.frombuffer(buffer[:whole_bytes], self._dtype)
            self._check_words(records)
            self._check_tail(bytes(buffer[whole_bytes:num_bytes]), self.offset + whole_bytes)
            if len(records):
                yield records
            if num_bytes < len(buffer):
                return

    def _check_words(self, records: Records) -> None:
        """Length and type word of every record; a second header is named as such."""
        words, rtype = self._dtype.itemsize // WORD_BYTES, RTYPES[self.metadata.schema]
        # Both are bytes side by side: one pass over the records instead of two.
        good = _leading(records) == words + 256 * rtype
        if good.all():
            return
        index = int(np.argmin(good))
        offset = self.offset + index * self._dtype.itemsize
        self._refuse_header(records[index : index + 1].tobytes(), offset)
        found = f"length {records['length'][index]}, type {records['rtype'][index]}"
        raise InputError(
            f"not a record of {self.metadata.schema}: found {found}, expected length {words}, type {rtype}",
            where=f"{self.path} @ {offset}",
            do="the file is damaged or misaligned: download it again",
        )

    def _check_tail(self, tail: bytes, offset: int) -> None:
        """Bytes after the last whole record."""
        if not tail:
            return
        self._refuse_header(tail, offset)
        what = f"the file ends inside a record: {len(tail)} of {self._dtype.itemsize} bytes"
        raise InputError(what, where=f"{self.path} @ {offset}", do="download it again")

    def _refuse_header(self, data: bytes, offset: int) -> None:
        if data.startswith(b"DBN"):
            raise InputError(
                "a second DBN header starts here: files were concatenated",
                where=f"{self.path} @ {offset}",
                do="keep the files apart in one directory",
            )


def _leading(records: Records) -> npt.NDArray[np.uint16]:
    """The first two bytes `[n]` of each record, little-endian, without a copy."""
    layout: Any = {"names": ["head"], "formats": ["<u2"], "offsets": [0], "itemsize": records.dtype.itemsize}
    return np.asarray(records.view(np.dtype(layout))["head"])


def read_metadata(path: Path, schema: str = "mbp-10") -> DbnMetadata:
    """The header of one file. Raises InputError when it is not a DBN file of `schema`."""
    with RecordReader(path, schema, chunk_records=1) as reader:
        return reader.metadata


def read_records(path: Path, chunk_records: int = CHUNK_RECORDS, schema: str = "mbp-10") -> Iterator[Records]:
    """Chunks `[<= chunk_records] structured` of one file's records, in file order. Errors: RecordReader."""
    with RecordReader(path, schema, chunk_records) as reader:
        yield from reader


def source_files(path: Path, schema: str = "mbp-10") -> list[Path]:
    """The DBN files of a source: the file itself, or a directory's `.dbn` and `.dbn.zst` by name.

    Names are taken to sort by time, as the vendor's do; rows that go back in time are refused later. One
    directory may hold both mbp-10 and trades: files of the one are no files of the other. Raises InputError
    where there is none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError("no such file or directory", where=str(path), do="check the data path")
    found = sorted(f for f in path.iterdir() if f.is_file() and f.name.endswith(DBN_SUFFIXES))
    others = set(RECORD_TYPES) - {schema}
    files = [f for f in found if _schema_of(f) not in others]
    if not files:
        legacy = " (legacy .dbz files are not read: convert them to .dbn)" if any(path.glob("*.dbz")) else ""
        what = f"no {schema} file, .dbn or .dbn.zst, in this directory{legacy}"
        raise InputError(what, where=str(path), do=f"give the directory of the {schema} files")
    return files


def _schema_of(path: Path) -> str:
    stream = ByteStream(path)
    try:
        return _parse_metadata(stream).schema
    finally:
        stream.close()


def _parse_metadata(stream: ByteStream, schema: str | None = None) -> DbnMetadata:
    """Reads and checks the header at the start of `stream`."""
    decoded = _decode_header(stream)
    found = str(decoded.schema) if decoded.schema is not None else "mixed"
    if schema not in (None, found):
        raise InputError(
            f"the file holds schema {found}, not {schema}",
            where=str(stream.path),
            do=f"request {schema} from the vendor",
        )
    return DbnMetadata(
        version=int(decoded.version),
        dataset=str(decoded.dataset),
        schema=found,
        symbols=tuple(decoded.symbols),
        stype_in=str(decoded.stype_in) if decoded.stype_in is not None else "",
        ts_out=bool(decoded.ts_out),
        header_bytes=stream.offset,
    )


def _decode_header(stream: ByteStream) -> databento_dbn.Metadata:
    prefix = stream.read(PREFIX_BYTES)
    if not prefix:
        raise InputError("the file is empty", where=f"{stream.path} @ 0", do="download it again")
    if not prefix.startswith(b"DBN"):
        what = f"not a DBN file: it begins with {prefix[:4]!r}"
        raise InputError(what, where=f"{stream.path} @ 0", do="give .dbn or .dbn.zst files")
    body_bytes = int.from_bytes(prefix[4:8], "little")
    body = stream.read(body_bytes) if body_bytes <= MAX_METADATA_BYTES else b""
    if len(prefix) < PREFIX_BYTES or len(body) < body_bytes:
        what = "the file ends inside its header, or the header is damaged"
        raise InputError(what, where=f"{stream.path} @ {stream.offset}", do="download it again")
    # The decoder is compiled code that raises its own error type and, on some damage, a panic.
    try:
        return databento_dbn.Metadata.decode(prefix + body, AS_IS)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        what = f"unreadable DBN header ({error})"
        raise InputError(what, where=f"{stream.path} @ 0", do="download it again") from None
