"""Bytes of a plain or zstd-compressed file, decompressed as they are read, with every damage an error."""

from collections.abc import Generator, Iterator
from pathlib import Path

import zstandard

from trainer.data.ahead import Ahead
from trainer.errors import InputError

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE_MAGIC = b"\x2a\x4d\x18"  # bytes 1-3 of a skippable frame, with which legacy .dbz files begin
READ_BYTES = 256 * 1024  # compressed bytes at a time: bounds what one call may inflate to
PIECES_AHEAD = 2  # inflated pieces that wait, 1 to 5 MB each in real files


class ByteStream:
    """Sequential reader of one file; compression is told by content, not by name.

    `offset` counts decompressed bytes handed out, `bytes_read` bytes of the file as stored. Several zstd
    frames in a row are one stream. Raises InputError with file and offset: unreadable file, legacy .dbz,
    corrupt or truncated compression. Source: DATA.md trap 7.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.bytes_read = 0
        self._rest = memoryview(b"")
        self._ahead: Ahead[bytes] | None = None
        try:
            self._file = path.open("rb")
            magic = self._file.read(32)
            self._file.seek(0)
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", where=str(path)) from None
        if magic.startswith(b"DBZ") or (magic[1:4] == SKIPPABLE_MAGIC and b"DBZ" in magic):
            self.close()
            do = "convert it to .dbn with the vendor's dbn tool"
            raise InputError("a legacy .dbz file, which is not read", where=f"{path} @ 0", do=do)
        self._source = self._inflate() if magic.startswith(ZSTD_MAGIC) else self._stored()
        self._pieces: Iterator[bytes] = self._source

    def read_ahead(self) -> None:
        """From here on a thread reads and decompresses ahead of the consumer, until `close`.

        `bytes_read` then counts what the thread has read.
        """
        if self._ahead is None:
            self._pieces = self._ahead = Ahead(self._source, PIECES_AHEAD)

    def close(self) -> None:
        """Closes the file; nothing may be read afterwards."""
        if self._ahead is not None:
            self._ahead.close()
        self._file.close()

    def read(self, num_bytes: int) -> bytes:
        """The next `num_bytes`, fewer only at the end of the file."""
        buffer = bytearray(num_bytes)
        return bytes(buffer[: self.readinto(memoryview(buffer))])

    def readinto(self, target: memoryview) -> int:
        """Fills `target` from the stream; returns the bytes written, fewer only at the end of the file."""
        filled = 0
        while filled < len(target):
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = memoryview(piece)
                continue
            count = min(len(self._rest), len(target) - filled)
            target[filled : filled + count] = self._rest[:count]
            self._rest = self._rest[count:]
            filled += count
        self.offset += filled
        return filled

    def _stored(self) -> Generator[bytes, None, None]:
        try:
            while piece := self._file.read(READ_BYTES):
                self.bytes_read += len(piece)
                yield piece
        except OSError as error:
            raise InputError(f"cannot be read ({error.strerror})", where=str(self.path)) from None

    def _inflate(self) -> Generator[bytes, None, None]:
        """Frame by frame: only the decompression object tells a finished frame from a truncated one."""
        context = zstandard.ZstdDecompressor()
        frame = None
        inflated = 0
        for piece in self._stored():
            rest = piece
            while rest:
                frame = frame or context.decompressobj()
                try:
                    output = frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise self._damage(f"corrupt compressed data ({error})", inflated) from None
                inflated += len(output)
                rest, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
                if output:
                    yield output
        if frame is not None:
            raise self._damage("the compressed file is truncated", inflated)

    def _damage(self, what: str, offset: int) -> InputError:
        return InputError(what, where=f"{self.path} @ {offset}", do="download it again")
