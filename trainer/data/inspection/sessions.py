"""Sessions, gaps and restarts, from the table of segments and the times of their rows."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from trainer.data.calendar import session_intervals
from trainer.data.inspection.report import GapReport, SessionReport

Int64 = npt.NDArray[np.int64]

NS = 1_000_000_000


def timezone_of(calendar: str) -> str:
    """Time zone of a session calendar, `America/New_York`."""
    if calendar == "always":
        return "UTC"
    import pandas_market_calendars  # slow to load

    return str(pandas_market_calendars.get_calendar(calendar).tz)


def local(ts_ns: int, timezone: str) -> datetime:
    """UTC ns as exchange time, to the second."""
    return datetime.fromtimestamp(ts_ns // NS, UTC).astimezone(ZoneInfo(timezone))


@dataclass(frozen=True)
class SessionSurvey:
    """What the segments say about time."""

    sessions: list[SessionReport]
    without_rows: list[str]
    gaps: list[GapReport]  # longest first
    restarts: int


def survey_sessions(
    table: npt.NDArray[np.void], spans: Int64, max_gap_s: float, calendar: str, timezone: str
) -> SessionSurvey:
    """`table` `[G] structured` of SEGMENT; `spans` `[G, 2]` first and last row time of each, UTC ns."""
    inside = np.flatnonzero(table["ends_in_gap"])
    lengths = spans[inside + 1, 0] - spans[inside, 1]
    long = lengths > int(max_gap_s * 1e9)
    order = np.argsort(-lengths[long], kind="stable")
    gaps = [_gap(int(spans[i, 1]), int(spans[i + 1, 0])) for i in inside[long][order]]
    sessions = _sessions(table, spans, timezone)
    return SessionSurvey(sessions, _without_rows(sessions, calendar, timezone), gaps, int((~long).sum()))


def _gap(start_ns: int, end_ns: int) -> GapReport:
    return GapReport(start_ns, end_ns, (end_ns - start_ns) / NS)


def _sessions(table: npt.NDArray[np.void], spans: Int64, timezone: str) -> list[SessionReport]:
    starts = np.flatnonzero(np.diff(table["session"], prepend=-1))
    ends = [*starts[1:], len(table)][: len(starts)]
    return [_session(table[a:b], spans[a:b], timezone) for a, b in zip(starts, ends, strict=True)]


def _session(table: npt.NDArray[np.void], spans: Int64, timezone: str) -> SessionReport:
    open_ns, close_ns = int(table["session_open_ns"][0]), int(table["session_close_ns"][0])
    return SessionReport(
        date=_date(close_ns, timezone),
        open_ns=open_ns,
        close_ns=close_ns,
        rows=int(table["end_row"][-1] - table["first_row"][0]),
        first_row_ns=int(spans[0, 0]),
        last_row_ns=int(spans[-1, 1]),
        covered=float((spans[:, 1] - spans[:, 0]).sum() / (close_ns - open_ns)),
    )


def _without_rows(sessions: list[SessionReport], calendar: str, timezone: str) -> list[str]:
    """Dates of the calendar's sessions between the first and the last one that hold no row."""
    if len(sessions) < 2:
        return []
    held = {session.open_ns for session in sessions}
    table = session_intervals(calendar, sessions[0].open_ns, sessions[-1].close_ns)
    return [_date(close_ns, timezone) for open_ns, close_ns in table.tolist() if open_ns not in held]


def _date(close_ns: int, timezone: str) -> str:
    """Trading date: of a session's last second, in exchange time."""
    return local(close_ns - 1, timezone).date().isoformat()
