"""Records that `prepare` refuses, all of them: it stops at the first, an inspection counts and goes on."""

import numpy as np
import numpy.typing as npt

from trainer.config import InstrumentConfig
from trainer.data.calendar import EARLIEST_NS, LATEST_NS
from trainer.data.dbn import BAD_TS_RECV, UNDEF_PRICE, UNDEF_TIME, Records
from trainer.data.inspection.survey import LEVEL_WORDS, LEVELS_WORD, words
from trainer.data.rows import KNOWN_ACTIONS
from trainer.types import NUM_LEVELS

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

# In the order in which `prepare` looks for them.
FAULTS = {
    "publisher": "of another venue than the first record",
    "action": "unknown action",
    "time_range": "receive time outside 1990-2100",
    "size": "size or count beyond 31 bits",
    "off_grid": "a price off the tick grid",
    "price_range": "a price beyond 31 bits of ticks",
    "time_order": "receive time before that of an earlier record",
}
# A size is the upper or lower half of a word.
SIGN_BITS = np.uint64(0x8000_0000_8000_0000)
TICKS = np.iinfo(np.int32)


class FaultFinder:
    """Finds what RowBuilder.push refuses in records of one instrument; carries venue and time over chunks."""

    def __init__(self, instrument: InstrumentConfig) -> None:
        self._step = instrument.tick_size_nanos
        self._publisher_id: int | None = None
        self._newest_ns = 0

    def find(self, records: Records, prices: Int64, on_grid: bool) -> dict[str, Bool]:
        """Faulty records `[n] bool` by kind, each under its first; kinds without any are left out.

        `prices` `[2 L, n]` are the records' `book_prices`; with `on_grid` all are known to be on the grid.
        Time goes backwards against records that have no other fault.
        """
        if not len(records):
            return {}
        raw = records["ts_recv"]
        no_time = ((records["flags"] & BAD_TS_RECV) != 0) | (raw == UNDEF_TIME)
        wrong = {
            "action": ~KNOWN_ACTIONS[records["action"].view(np.uint8)],
            "time_range": ~no_time & ((raw < EARLIEST_NS) | (raw >= LATEST_NS)),
            "size": self._large(records),
            **self._wrong_prices(prices, on_grid),
        }
        wrong = {"publisher": self._other_venue(records, wrong), **wrong}
        found: dict[str, Bool] = {}
        clean = np.ones(len(records), np.bool_)
        for kind, mask in wrong.items():
            if (mask & clean).any():
                found[kind] = mask & clean
                clean &= ~mask
        backwards = self._backwards(np.where(clean & ~no_time, raw, 0).astype(np.int64))
        return {**found, "time_order": backwards} if backwards.any() else found

    def _other_venue(self, records: Records, wrong: dict[str, Bool]) -> Bool:
        """Records of another venue than the first one that has no other fault."""
        sound = np.flatnonzero(~np.any(list(wrong.values()), axis=0))
        if self._publisher_id is None and len(sound):
            self._publisher_id = int(records["publisher_id"][sound[0]])
        if self._publisher_id is None:
            return np.zeros(len(records), np.bool_)
        other: Bool = records["publisher_id"] != self._publisher_id
        return other

    def _large(self, records: Records) -> Bool:
        table = words(records)
        seen = np.zeros(len(records), np.int64)
        for level in range(NUM_LEVELS):
            for word in (2, 3):
                seen |= table[:, LEVELS_WORD + LEVEL_WORDS * level + word]
        large: Bool = (seen.view(np.uint64) & SIGN_BITS) != 0
        return large

    def _wrong_prices(self, prices: Int64, on_grid: bool) -> dict[str, Bool]:
        wrong = {}
        known = np.where(prices == UNDEF_PRICE, 0, prices)
        if not on_grid:
            wrong["off_grid"] = (known // self._step * self._step != known).any(axis=0)
        low, high = TICKS.min * self._step, TICKS.max * self._step
        if known.min() < low or known.max() > high:
            wrong["price_range"] = ((known < low) | (known > high)).any(axis=0)
        return wrong

    def _backwards(self, ts_ns: npt.NDArray[np.int64]) -> Bool:
        """Times `[n]`, 0 where there is none, that lie before an earlier one."""
        newest = np.maximum.accumulate(np.concatenate([[self._newest_ns], ts_ns]))
        self._newest_ns = int(newest[-1])
        wrong: Bool = (ts_ns > 0) & (ts_ns < newest[:-1])
        return wrong
