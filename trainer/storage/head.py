"""The first bytes of a file as they are now, whatever happens to it afterwards."""

import io
import os
from pathlib import Path


class Head(io.RawIOBase):
    """The bytes that a file has when this is made: it may be appended to, replaced or removed meanwhile.

    OSError when the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._descriptor)
        self.num_bytes, self.mtime_ns, self._position = status.st_size, status.st_mtime_ns, 0

    def again(self) -> "Head":
        """The same bytes from their start, to be read beside this and closed on its own."""
        other = Head.__new__(Head)
        other._descriptor = os.dup(self._descriptor)
        other.num_bytes, other.mtime_ns, other._position = self.num_bytes, self.mtime_ns, 0
        return other

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.num_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        view, done = memoryview(buffer), 0
        wanted = max(0, min(len(view), self.num_bytes - self._position))
        # Whole pieces: a part of an upload that came up short would be uploaded short.
        while done < wanted:
            found = os.preadv(self._descriptor, [view[done:wanted]], self._position)
            if not found:
                break
            done += found
            self._position += found
        return done

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
