"""Segments: contiguous stretches of rows of one instrument in one session (SYSTEM.md section 1)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

SEGMENT = np.dtype(
    [
        ("first_row", "i8"),
        ("end_row", "i8"),  # exclusive
        ("session", "i4"),  # counts the sessions that hold rows, from 0
        ("session_open_ns", "i8"),
        ("session_close_ns", "i8"),
        ("instrument_id", "i8"),
        ("ends_in_gap", "?"),  # the next segment is the same instrument and session: an unannounced end
    ]
)


@dataclass(frozen=True)
class _Row:
    """What the segmenter remembers of the newest row."""

    ts_ns: int
    open_ns: int
    ident: int


class Segmenter:
    """Numbers the segments of a stream of rows and keeps their table.

    A new segment begins where the session or the instrument changes (announced by the calendar or the roll),
    and where more than `max_gap_ns` pass between two rows or the book starts anew between them (unannounced).
    """

    def __init__(self, max_gap_ns: int) -> None:
        self.max_gap_ns = max_gap_ns
        self.num_rows = 0
        self._newest: _Row | None = None
        self._broken = False  # the book started anew since the newest row
        self._starts: list[tuple[int, int, int, int, int, bool]] = []

    def assign(
        self, rows: Int64, ts_ns: Int64, open_ns: Int64, close_ns: Int64, idents: Int64, breaks: Bool
    ) -> npt.NDArray[np.int32]:
        """Segment number `[m] int32` of each row; `rows` `[m]` index records, times and ids are per row.

        `breaks` `[n]` marks records at which the book starts anew; a row among them begins the new segment.
        """
        if not len(rows):
            self._broken |= bool(breaks.any())
            return np.zeros(0, np.int32)
        broken = self._breaks_before(rows, breaks)
        columns = ts_ns, open_ns, idents
        gap, session, ident = (self._changes(column, i) for i, column in enumerate(columns))
        announced = (session != 0) | (ident != 0)
        starts = announced | (gap > self.max_gap_ns) | broken
        if self._newest is None:
            starts[0] = announced[0] = True
        base = len(self._starts)
        for index in np.flatnonzero(starts).tolist():
            times = open_ns[index], close_ns[index], idents[index]
            self._open(self.num_rows + index, session[index] != 0, *times, bool(announced[index]))
        self.num_rows += len(rows)
        self._newest = _Row(*(int(column[-1]) for column in columns))
        return (base - 1 + np.cumsum(starts)).astype(np.int32)

    def _breaks_before(self, rows: Int64, breaks: Bool) -> Bool:
        """Rows `[m] bool` with a break after the row before and up to themselves."""
        broken = np.zeros(len(rows), np.bool_)
        if breaks.any():
            # The differences of the running count at the rows.
            broken = np.diff(np.cumsum(breaks)[rows], prepend=0) > 0
        broken[0] |= self._broken
        self._broken = bool(breaks[rows[-1] + 1 :].any())
        return broken

    def _changes(self, column: Int64, field: int) -> Int64:
        """Differences `[m]` to the previous row's value; 0 for the very first row."""
        newest = self._newest
        before = int(column[0]) if newest is None else (newest.ts_ns, newest.open_ns, newest.ident)[field]
        return np.diff(column, prepend=before)

    def _open(
        self, first: int, new_session: bool, open_ns: int, close_ns: int, ident: int, announced: bool
    ) -> None:
        session = self._starts[-1][1] + bool(new_session) if self._starts else 0
        self._starts.append((first, session, int(open_ns), int(close_ns), int(ident), announced))

    def instrument_of(self, segment: npt.NDArray[np.int32]) -> Int64:
        """Instrument ids `[m] int64` of the segments `[m]`."""
        return np.array([start[4] for start in self._starts], np.int64)[segment]

    def table(self) -> npt.NDArray[np.void]:
        """The segments so far, `[G] structured` of SEGMENT; the newest one ends at the newest row."""
        table = np.zeros(len(self._starts), SEGMENT)
        for index, (first, session, open_ns, close_ns, ident, _) in enumerate(self._starts):
            last = index + 1 == len(self._starts)
            end = self.num_rows if last else self._starts[index + 1][0]
            in_gap = not last and not self._starts[index + 1][5]
            table[index] = (first, end, session, open_ns, close_ns, ident, in_gap)
        return table
