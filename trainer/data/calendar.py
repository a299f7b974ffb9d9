"""Trading sessions in UTC nanoseconds, and which instrument preset a file belongs to (DATA.md, trap 4).

Sessions follow local time: daylight saving and holidays come from pandas-market-calendars, never from fixed
UTC offsets. A session here is a contiguous stretch of trading: a day with a lunch break is two.
"""

import re
import threading
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trainer.config import InstrumentConfig
from trainer.data.readers import Description
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS

# pandas and the calendars load only where sessions are looked up: a cache that is reused needs neither.
if TYPE_CHECKING:
    import pandas as pd

Int64 = npt.NDArray[np.int64]

DAY_NS = 86_400_000_000_000
# Sessions are labelled by local trading day: the one that holds a UTC instant is at most this far away.
MARGIN_DAYS = 7
EARLIEST_NS, LATEST_NS = 631_152_000_000_000_000, 4_102_444_800_000_000_000  # 1990 and 2100, UTC

ES_SYMBOL = re.compile(r"ES([FGHJKMNQUVXZ]\d{1,4}|\.(c|v|n)\.\d+)")
EQUITY_VENUES = "XNAS XNYS XASE ARCX BATS BATY EDGA EDGX IEXG MEMX EPRL XBOS XPSX XCIS XCHI LTSE DBEQ EQUS"
EQUITY_DATASETS = tuple(f"{venue}." for venue in EQUITY_VENUES.split())

# Warning filters belong to the process; a build looks up sessions from two threads.
_WARNINGS = threading.Lock()


def session_intervals(calendar: str, start_ns: int, end_ns: int) -> Int64:
    """Sessions that touch `[start_ns, end_ns)`, as `[M, 2] int64` of open and close (exclusive), UTC ns.

    `calendar` is a pandas-market-calendars name, or 'always': one session per UTC day. Raises InputError for
    an unknown name or times outside 1990-2100.
    """
    if not EARLIEST_NS <= start_ns <= end_ns <= LATEST_NS:
        raise InputError(f"times {start_ns}..{end_ns} ns are not between 1990 and 2100", do="check the data")
    if calendar == "always":
        opens = np.arange(start_ns // DAY_NS, -(-end_ns // DAY_NS), dtype=np.int64) * DAY_NS
        return np.stack([opens, opens + DAY_NS], axis=1)
    import pandas as pd

    margin = pd.Timedelta(days=MARGIN_DAYS)
    first = pd.Timestamp(start_ns, tz="UTC") - margin
    last = pd.Timestamp(end_ns, tz="UTC") + margin
    with _WARNINGS, warnings.catch_warnings():
        # The calendar library calls deprecated pandas functions; that is between the two of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        schedule = _calendar(calendar).schedule(first.date(), last.date())
    table = _without_breaks(schedule)
    return table[(table[:, 1] > start_ns) & (table[:, 0] < end_ns)]


@cache
def _calendar(name: str) -> Any:
    import pandas_market_calendars

    try:
        return pandas_market_calendars.get_calendar(name)
    except (RuntimeError, KeyError):
        raise InputError(
            f"unknown calendar {name!r}",
            where="instrument.calendar",
            do="use a pandas-market-calendars name or 'always'",
        ) from None


def _without_breaks(schedule: "pd.DataFrame") -> Int64:
    """Contiguous stretches `[M, 2]` of a schedule; a break of no length is no break."""
    if schedule.empty:
        return np.empty((0, 2), np.int64)
    opens, closes = _ns(schedule["market_open"]), _ns(schedule["market_close"])
    if "break_start" not in schedule:
        return np.stack([opens, closes], axis=1)
    breaks = schedule["break_start"].notna().to_numpy() & schedule["break_end"].notna().to_numpy()
    starts, ends = _ns(schedule["break_start"].fillna(schedule["market_close"])), closes.copy()
    ends[breaks] = _ns(schedule["break_end"][breaks])
    breaks &= (starts < ends) & (ends < closes)
    before = np.stack([opens, np.where(breaks, starts, closes)], axis=1)
    after = np.stack([ends, closes], axis=1)[breaks]
    table = np.concatenate([before, after])
    return table[np.argsort(table[:, 0], kind="stable")]


def _ns(times: "pd.Series[Any]") -> Int64:
    return np.array(times.dt.as_unit("ns").astype("int64"), np.int64)


class Sessions:
    """Looks up the session of many times; asks the calendar only for the days that the data touches."""

    def __init__(self, calendar: str) -> None:
        self.calendar = calendar
        self._table = np.empty((0, 2), np.int64)
        self._covered = (0, 0)

    def locate(self, ts_ns: Int64) -> tuple[Int64, Int64]:
        """Open and close `[n] int64` of the session of each time `[n] int64` (UTC ns); 0 and 0 where closed.

        A time of 0 is an unknown time, and closed.
        """
        known = ts_ns[ts_ns > 0]
        if len(known):
            self._cover(int(known.min()), int(known.max()))
        if not len(self._table):
            return np.zeros_like(ts_ns), np.zeros_like(ts_ns)
        index = np.searchsorted(self._table[:, 0], ts_ns, side="right") - 1
        inside = (index >= 0) & (ts_ns < self._table[index, 1])
        return np.where(inside, self._table[index, 0], 0), np.where(inside, self._table[index, 1], 0)

    def _cover(self, first_ns: int, last_ns: int) -> None:
        """Makes the table hold every session that touches [first_ns, last_ns]; times mostly move forward."""
        if self._covered[0] <= first_ns and last_ns < self._covered[1]:
            return
        month_ns = 31 * DAY_NS
        start, end = first_ns, max(last_ns + 1, min(first_ns + month_ns, LATEST_NS))
        self._table = session_intervals(self.calendar, start, end)
        self._covered = (start, end)


def resolve_instrument(name: str, book: Description) -> InstrumentConfig:
    """The preset called `name`, or for 'auto' the one that the recording's dataset and symbols imply.

    Raises InputError that lists the presets when `name` is none of them or nothing can be inferred.
    """
    presets = ", ".join(sorted(INSTRUMENTS))
    if name == "auto":
        guess = _implied(book)
        if guess not in INSTRUMENTS:
            shown = ", ".join(book.symbols[:5]) or "no symbol"
            raise InputError(
                f"cannot infer the instrument of dataset {book.dataset}, {shown}",
                where="data.instrument",
                do=f"choose one of: {presets}",
            )
        name = guess
    if name not in INSTRUMENTS:
        do = f"choose one of: {presets}"
        raise InputError(f"unknown instrument {name!r}", where="data.instrument", do=do)
    return INSTRUMENTS[name]


def _implied(book: Description) -> str:
    if book.dataset == "SYNTH":
        return "synthetic"
    if book.dataset.startswith(EQUITY_DATASETS):
        return "equity"
    if book.dataset.startswith("GLBX.") and book.symbols:
        return "ES" if all(ES_SYMBOL.fullmatch(symbol) for symbol in book.symbols) else ""
    return ""
