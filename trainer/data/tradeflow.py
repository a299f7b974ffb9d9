"""Trades between rows: signed volume and count (DATA.md traps 1 and 3)."""

import numpy as np
import numpy.typing as npt

from trainer.data.dbn import Records

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


def signed_lots(records: Records, position: Int64) -> Int64:
    """Lots of the records `position` `[m]`: bought (+) or sold (-) by the aggressor, 0 at side 'N'."""
    side = records["side"].view(np.uint8)[position]
    sign = (side == ord("B")).astype(np.int64) - (side == ord("A"))
    lots: Int64 = sign * records["size"][position].astype(np.int64)
    return lots


def _sums(values: Int64, target: Int64, num: int) -> Int64:
    """Sums `[num]` of the values `[m]` by their target; targets never decrease. Exact, unlike bincount."""
    sums = np.zeros(num, np.int64)
    if len(values):
        starts = np.flatnonzero(np.diff(target, prepend=-1))
        sums[target[starts]] = np.add.reduceat(values, starts)
    return sums


class TradeFlow:
    """Sums the trade records between one row and the next, across chunks.

    A trade counts for the next row only when both are of one session and instrument: what was traded after a
    session's last row says nothing about the next session's book.
    """

    def __init__(self) -> None:
        self._key = (0, 0)  # session open and instrument of the carried trades
        self._volume = 0
        self._count = 0

    def since_last_row(
        self, records: Records, trades: npt.NDArray[np.bool_], rows: Int64, open_ns: Int64, idents: Int64
    ) -> tuple[Int32, Int32]:
        """Signed volume `[m]` lots and number `[m]` of the trades after the row before and before each row.

        `trades` `[n] bool` marks the records to count, `rows` `[m]` the records that are rows; the session's
        open `open_ns` and the instrument `idents` are per record `[n]`.
        """
        position = np.flatnonzero(trades)
        lots = signed_lots(records, position)
        target = np.searchsorted(rows, position)
        waiting = int(np.searchsorted(target, len(rows)))  # from this trade on none has a row yet
        volume, count = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        if len(rows):
            own, row = position[:waiting], rows[target[:waiting]]
            same = (open_ns[own] == open_ns[row]) & (idents[own] == idents[row])
            volume = _sums(lots[:waiting] * same, target[:waiting], len(rows))
            count = _sums(same.astype(np.int64), target[:waiting], len(rows))
            if self._key == (int(open_ns[rows[0]]), int(idents[rows[0]])):
                volume[0] += self._volume
                count[0] += self._count
            self._key, self._volume, self._count = (0, 0), 0, 0
        self._carry(position[waiting:], lots[waiting:], open_ns, idents)
        return volume.astype(np.int32), count.astype(np.int32)

    def _carry(self, position: Int64, lots: Int64, open_ns: Int64, idents: Int64) -> None:
        """Keeps the trades that wait for a row; only the newest session and instrument can still have one."""
        if not len(position):
            return
        key = (int(open_ns[position[-1]]), int(idents[position[-1]]))
        newest = (open_ns[position] == key[0]) & (idents[position] == key[1])
        if key != self._key:
            self._key, self._volume, self._count = key, 0, 0
        self._volume += int(lots[newest].sum())
        self._count += int(newest.sum())
