"""The report of an inspection. `as_json` gives its stable, documented form (docs/data-inspect.md).

Times are UTC ns, prices exact decimal strings. None: there is nothing to tell it from.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from trainer.errors import AlphaError, ExitCode

REPORT_VERSION = 1


@dataclass(frozen=True)
class Problem:
    """An `error` is what `prepare` refuses the data for; a `warning` is what a person should know."""

    severity: Literal["error", "warning"]
    what: str
    where: str
    do: str

    def __str__(self) -> str:
        """One line, `WHERE: WHAT; DO`, as every command prints it."""
        return str(AlphaError(self.what, where=self.where, do=self.do))


@dataclass(frozen=True)
class FileReport:
    """One file of the source."""

    name: str
    format: str  # e.g. DBN 3
    dataset: str
    symbols: tuple[str, ...]  # as requested from the vendor
    stored_bytes: int
    records: int  # that could be read
    complete: bool  # read to its end without damage


@dataclass(frozen=True)
class IdReport:
    """One instrument id of the records."""

    instrument_id: int
    symbol: str | None  # from the file's symbol mappings
    records: int
    book_updates: int  # last records of an event that are no trades: what rows can come from
    first_ns: int | None
    last_ns: int | None
    low: str | None  # lowest best bid
    high: str | None  # highest best ask
    grid: str | None  # greatest step that divides every price of the book: a multiple of the tick


@dataclass(frozen=True)
class InstrumentReport:
    """The instrument preset that rows are judged by."""

    name: str
    inferred: bool  # from dataset and symbols; else given
    tick_size: str
    grid: str | None  # observed
    calendar: str
    timezone: str


@dataclass(frozen=True)
class TradeReport:
    """Trades among the records, in session or not."""

    trades: int
    buys: int  # the aggressor bought
    sells: int
    volume_lots: int


@dataclass(frozen=True)
class RecordReport:
    """Records of the judged instrument, or all where none is chosen."""

    records: int
    first_ns: int | None
    last_ns: int | None
    actions: dict[str, int]
    flags: dict[str, int]  # by the value of the flags byte
    trades: TradeReport


@dataclass(frozen=True)
class SessionReport:
    """A trading session that holds rows."""

    date: str  # trading date: of the close, exchange time
    open_ns: int
    close_ns: int
    rows: int
    first_row_ns: int
    last_row_ns: int
    covered: float  # share of the session inside segments


@dataclass(frozen=True)
class GapReport:
    """A stretch of a session without rows, longer than data.max_gap_s."""

    start_ns: int
    end_ns: int
    seconds: float


@dataclass(frozen=True)
class BookReport:
    """Distributions over the valid rows. A quantile at `QUANTILE_LIMIT` means that or more."""

    low: str  # lowest best bid
    high: str  # highest best ask
    spread_ticks_median: int
    spread_ticks_p95: int
    depth_lots_median: int  # at the best, both sides pooled
    levels_median: int  # filled on the thinner side
    all_levels_share: float  # rows with all levels filled on both sides
    equal_time_share: float  # rows with the receive time of the row before


@dataclass(frozen=True)
class RowReport:
    """Valid rows, as `prepare` would find them; `skipped` and `refused` say where the other records went."""

    rows: int
    records: int
    skipped: dict[str, int]  # by reason: normal, left out
    refused: dict[str, int]  # by kind: `prepare` stops at the first
    crossed_share: float | None  # of the two-sided books in session
    instrument_ids: tuple[int, ...]  # in order of appearance
    segments: int
    max_gap_s: float
    restarts: int  # segments begun by a clear or a snapshot
    sessions: tuple[SessionReport, ...]
    sessions_without_rows: tuple[str, ...]  # dates between the first and the last row
    gaps: tuple[GapReport, ...]  # longest first
    book: BookReport | None


@dataclass(frozen=True)
class WalkForwardReport:
    """What the rows are enough for."""

    decision_rows: int
    decisions: int
    folds: int
    enough: bool
    refusal: str  # why they are not
    window_rows: tuple[int, ...]  # rows of the `folds` + 1 windows; empty where they are not enough
    most_folds: int  # with these decision_rows, up to MOST_FOLDS
    most_decision_rows: int  # with these folds, up to the configured ones


@dataclass(frozen=True)
class Report:
    """Everything that an inspection found."""

    path: str
    files: tuple[FileReport, ...]
    instrument: InstrumentReport | None
    instrument_ids: tuple[IdReport, ...]  # most records first
    records: RecordReport
    rows: RowReport | None  # None: not judged, a problem says why
    walk_forward: WalkForwardReport | None
    problems: tuple[Problem, ...]

    @property
    def usable(self) -> bool:
        """Whether `prepare` takes the data with this configuration."""
        return not any(problem.severity == "error" for problem in self.problems)

    @property
    def exit_code(self) -> ExitCode:
        """DONE or BAD_INPUT."""
        return ExitCode.DONE if self.usable else ExitCode.BAD_INPUT

    def as_json(self) -> dict[str, Any]:
        """Plain values by stable keys."""
        return {"report_version": REPORT_VERSION, "usable": self.usable, **asdict(self)}
