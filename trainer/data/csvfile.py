"""Numbers of a CSV file without a header, in bounded memory, with every damage an error at its line."""

import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from trainer.data.stream import ByteStream
from trainer.errors import InputError

Int64 = npt.NDArray[np.int64]

BLOCK_BYTES = 1024 * 1024  # text parsed at a time: large against the parser's overhead, little to hold
# The parser knows more ways to write a number (hexadecimal, spaces, quotes): none of them belongs here.
ALLOWED_BYTES = b"0123456789-.,\r\n"
DECIMAL_DIGITS = 18  # so that every decimal fits int64
MAX_INT64 = np.iinfo(np.int64).max


class CsvFile:
    """Reads the rows of one file, plain or zstd-compressed, forwards and any number at a time.

    `decimals` maps the name of each column to its decimal places: values are int64 in units of the last one,
    exact. `num_kept` columns from the left are handed out; the others are counted but not parsed. Raises
    InputError with file and line: another number of columns, no number, a last line without an end, no line.
    """

    def __init__(self, path: Path, decimals: dict[str, int], num_kept: int | None = None) -> None:
        self.path = path
        self.num_rows = 0  # handed out so far
        self._names = list(decimals)
        self._kept = self._names[:num_kept]
        self._decimals = decimals
        self._stream = ByteStream(path)
        self._parsed_rows = 0
        self._rest = b""  # of the line at which the last block was cut
        self._waiting = np.empty((len(self._kept), 0), np.int64)

    @property
    def bytes_read(self) -> int:
        """Bytes consumed of the file as stored."""
        return self._stream.bytes_read

    def read_ahead(self) -> None:
        """From here on a thread reads and decompresses ahead, until `close`."""
        self._stream.read_ahead()

    def close(self) -> None:
        """Closes the file; nothing may be read afterwards."""
        self._stream.close()

    def place(self, row: int) -> str:
        """`file:line` of row `row`, counted from 0 at the top of the file."""
        return f"{self.path}:{row + 1}"

    def read(self, num_rows: int) -> Int64:
        """The next rows as `[columns, <= num_rows] int64`; fewer only at the end of the file."""
        pieces, found = [self._waiting], self._waiting.shape[1]
        while found < num_rows and (block := self._next_block()):
            pieces.append(self._parse(block))
            found += pieces[-1].shape[1]
        rows = np.concatenate(pieces, axis=1) if len(pieces) > 1 else pieces[0]
        self._waiting = rows[:, num_rows:].copy()  # not a view, which would keep the whole alive
        self.num_rows += min(num_rows, rows.shape[1])
        return rows[:, :num_rows]

    def _next_block(self) -> bytearray:
        """Whole lines, about BLOCK_BYTES of them; nothing at the end of the file."""
        block = bytearray(BLOCK_BYTES)
        block[: len(self._rest)] = self._rest
        num_bytes = len(self._rest) + self._stream.readinto(memoryview(block)[len(self._rest) :])
        del block[num_bytes:]
        end = block.rfind(b"\n") + 1
        self._rest = bytes(block[end:])
        del block[end:]
        if not end:
            self._require_whole_end()
        return block

    def _require_whole_end(self) -> None:
        """What is left without a line end is nothing, and not all there was."""
        if self._rest:
            what = "the file ends inside this line, or the line does not end"
            raise InputError(what, where=self._next_place(), do="the file is truncated: download it again")
        if not self._parsed_rows:
            raise InputError("the file is empty", where=str(self.path), do="download it again")

    def _next_place(self) -> str:
        return self.place(self._parsed_rows)

    def _parse(self, block: bytearray) -> Int64:
        """The kept columns `[columns, n]` of whole lines."""
        import pyarrow as pa  # slow to load, and not needed for other formats
        import pyarrow.csv as csv

        if block.translate(None, ALLOWED_BYTES):
            self._refuse(block, "a character that is no part of a number")
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            self._refuse(block, "a carriage return inside a line")  # another line end for the parser
        types = {
            name: pa.decimal128(DECIMAL_DIGITS, self._decimals[name]) if self._decimals[name] else pa.int64()
            for name in self._kept
        }
        try:
            table = csv.read_csv(
                pa.py_buffer(block),
                csv.ReadOptions(column_names=self._names, use_threads=False, block_size=len(block) + 1),
                csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
                csv.ConvertOptions(column_types=types, include_columns=self._kept, null_values=[]),
            )
            columns = np.stack([_as_int64(table.column(name)) for name in self._kept])
        except (pa.ArrowInvalid, OverflowError) as error:
            self._refuse(block, str(error))
        self._parsed_rows += table.num_rows
        return columns

    def _refuse(self, block: bytearray, reason: str) -> NoReturn:
        """Raises InputError at the first wrong line: the parser names neither line nor column."""
        for index, line in enumerate(block.split(b"\n")[:-1]):
            what = self._fault(line.removesuffix(b"\r").split(b","))
            if what:
                where = self.place(self._parsed_rows + index)
                raise InputError(what, where=where, do="the file is damaged: download it again")
        raise InputError(f"cannot be read ({reason})", where=self._next_place(), do="download it again")

    def _fault(self, fields: list[bytearray]) -> str:
        """What is wrong with a line, or nothing."""
        if len(fields) != len(self._names):
            return f"{len(fields)} columns, expected {len(self._names)}"
        for name, field in zip(self._names, fields, strict=True):
            places = self._decimals[name]
            number = rf"-?\d{{1,{DECIMAL_DIGITS - places}}}(\.\d{{1,{places}}})?" if places else r"-?\d{1,19}"
            text = field.decode("ascii", "backslashreplace")
            if not re.fullmatch(number, text) or (not places and abs(int(text)) > MAX_INT64):
                kind = f"number of at most {places} decimals" if places else "whole number"
                return f"{name} is {text[:40]!r}, not a {kind}"
        return ""


def _as_int64(column: Any) -> Int64:
    """An arrow column of int64 or decimal128 as int64 `[n]`. Raises OverflowError where one does not fit."""
    import pyarrow as pa

    array = column.combine_chunks()
    if array.type == pa.int64():
        return np.asarray(array)
    # A decimal is a 128-bit integer of the last place, low half first.
    halves = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset :][: len(array)]
    # The parser does not hold decimals to their precision.
    if (halves[:, 1] != halves[:, 0] >> 63).any():
        raise OverflowError("a decimal beyond int64")
    return np.asarray(halves[:, 0])
