"""Receive times of a record stream: never decreasing, or an error (DATA.md, "The record")."""

import numpy as np
import numpy.typing as npt

from trainer.data.calendar import EARLIEST_NS, LATEST_NS
from trainer.data.dbn import BAD_TS_RECV, UNDEF_TIME, Records
from trainer.data.place import Place


class Clock:
    """Carries the newest receive time over the chunks of one symbol's records."""

    def __init__(self) -> None:
        self.newest_ns = 0  # 0 before the first good time

    def read(self, records: Records, place: Place) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Receive times `[n] int64` UTC ns and which records `[n] bool` have none of their own.

        A record whose `ts_recv` is missing or flagged BAD_TS_RECV repeats the last good time (0 before the
        first). Raises InputError where time goes backwards or lies outside 1990-2100.
        """
        raw = np.ascontiguousarray(records["ts_recv"])
        flagged = (records["flags"] & BAD_TS_RECV) != 0
        if len(raw) and self._plain(raw) and not flagged.any():
            self.newest_ns = int(raw[-1])
            return raw.view(np.int64), flagged
        bad = flagged | (raw == UNDEF_TIME)
        sane = bad | ((raw >= EARLIEST_NS) & (raw < LATEST_NS))
        place.refuse(~sane, lambda i: f"ts_recv {raw[i]} ns is not in 1990-2100", "the file is damaged")
        good_ns = np.where(bad, 0, raw).astype(np.int64)
        newest = np.maximum.accumulate(np.concatenate([[self.newest_ns], good_ns]))
        place.refuse(
            ~bad & (good_ns < newest[:-1]),
            lambda i: f"ts_recv goes backwards, to {good_ns[i]} ns after {newest[i]} ns",
            "the file is damaged, or files overlap or do not sort by time",
        )
        self.newest_ns = int(newest[-1])
        return newest[1:], bad

    def _plain(self, raw: npt.NDArray[np.uint64]) -> bool:
        """All times `[n]` are sane and none goes backwards, as nearly always."""
        first, last = int(raw[0]), int(raw[-1])
        ordered = max(self.newest_ns, EARLIEST_NS) <= first and last < LATEST_NS
        return ordered and bool((raw[1:] >= raw[:-1]).all())
