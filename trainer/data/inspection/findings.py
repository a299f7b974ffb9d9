"""From what a pass gathered to the parts of the report: rows, and problems with what to do about them."""

from decimal import Decimal

from trainer.config import Config
from trainer.data.inspection.files import problem_of
from trainer.data.inspection.judgement import Judgement
from trainer.data.inspection.report import (
    IdReport,
    InstrumentReport,
    Problem,
    RecordReport,
    RowReport,
    SessionReport,
    WalkForwardReport,
)
from trainer.data.inspection.sessions import survey_sessions
from trainer.data.rows import REASONS, SeveralInstrumentsError
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS

MOST_IDS = 10  # of a list in one line
ENOUGH_ROWS = 1000  # of fewer, prices may share a wide grid, or none be a trade, by chance
LATE_START_NS = 1_000_000_000  # after a session's open


def row_report(judgement: Judgement, config: Config, instrument: InstrumentReport) -> RowReport:
    """The rows of a pass that ended."""
    builder, table = judgement.builder, judgement.segments.table()
    times = survey_sessions(
        table, judgement.survey.spans(), config.data.max_gap_s, instrument.calendar, instrument.timezone
    )
    return RowReport(
        rows=judgement.segments.num_rows,
        records=builder.num_records + judgement.refused.total(),
        skipped=dict(builder.skipped),
        refused=dict(judgement.refused),
        crossed_share=_crossed_share(builder.skipped, judgement.segments.num_rows),
        instrument_ids=tuple(builder.seen_ids),
        segments=len(table),
        max_gap_s=config.data.max_gap_s,
        restarts=times.restarts,
        sessions=tuple(times.sessions),
        sessions_without_rows=tuple(times.without_rows),
        gaps=tuple(times.gaps),
        book=judgement.survey.report(),
    )


def _crossed_share(skipped: dict[str, int], rows: int) -> float | None:
    """Of the whole events in session with both best levels: those that passed every test before `crossed`."""
    after = REASONS[REASONS.index("crossed") :]
    judged = rows + sum(skipped[reason] for reason in after)
    return skipped["crossed"] / judged if judged else None


def obstacle_problem(error: InputError, ids: list[IdReport], grid: str | None) -> Problem:
    """Why rows are not judged, and which option changes that."""
    if isinstance(error, SeveralInstrumentsError):
        return several_problem(ids, error.where)
    if error.where == "data.instrument":
        return Problem("error", error.what, error.where, f"{error.do} with --instrument{_fitting(grid)}")
    return problem_of(error)


def several_problem(ids: list[IdReport], where: str) -> Problem:
    """Several instruments, and none chosen."""
    do = f"choose one: --instrument-id {ids[0].instrument_id} has the most (data.instrument_id)"
    return Problem("error", f"several instruments: {_counted(ids)}", where, do)


def fault_problems(judgement: Judgement, grid: str | None) -> list[Problem]:
    """One error a kind of refused record: the first of them, how many there are, and what to do."""
    found = []
    for kind, first in judgement.first_faults().items():
        num = judgement.refused[kind]
        counted = f"the first of {num:,} such records" if num > 1 else "1 such record"
        do = first.do
        if kind == "off_grid" and judgement.wrong_tick:
            do = f"choose the instrument with --instrument{_fitting(grid)}"
        found.append(Problem("error", f"{first.what} ({counted})", first.where, do))
    return found


def _fitting(grid: str | None) -> str:
    """Which presets have a tick that fits the observed prices."""
    if grid is None:
        return ""
    ticks = {name: preset.tick_size for name, preset in INSTRUMENTS.items() if name != "synthetic"}
    fits = [name for name, tick in ticks.items() if Decimal(grid) % tick == 0]
    most = max((ticks[name] for name in fits), default=None)
    named = ", ".join(f"{name} ({ticks[name]})" for name in fits if ticks[name] == most)
    said = f"which the tick of {named} fits" if named else "which the tick of none of them fits"
    return f"; prices lie on a grid of {grid}, {said}"


def absent_problem(chosen: int, ids: list[IdReport], where: str) -> Problem:
    """No record of the chosen instrument."""
    what = f"no record of instrument {chosen}, but of {_counted(ids)}"
    return Problem("error", what, where, "choose one of them: --instrument-id")


def shortage_problem(walked: WalkForwardReport, rows: RowReport, where: str) -> Problem:
    """Rows that are not enough, where the records went, and what the rows are enough for."""
    reasons = ", ".join(f"{name} {count}" for name, count in rows.skipped.items() if count)
    found = f"{rows.rows} valid rows of {rows.records} records ({reasons or 'none skipped'})"
    ways = ["give more data"]
    if walked.most_folds:
        ways.append(f"--folds {walked.most_folds}")
    if walked.most_decision_rows:
        ways.append(f"data.decision_rows {walked.most_decision_rows}")
    return Problem("error", f"{found}, {walked.refusal}", where, " or ".join(ways))


def _counted(ids: list[IdReport]) -> str:
    more = f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else ""
    return ", ".join(f"{one.instrument_id} ({one.records} records)" for one in ids[:MOST_IDS]) + more


def warnings(rows: RowReport, records: RecordReport, instrument: InstrumentReport) -> list[Problem]:
    """What `prepare` takes, but a person should know."""
    found = []
    grid, tick = instrument.grid, instrument.tick_size
    enough = rows.rows >= ENOUGH_ROWS
    if enough and grid is not None and Decimal(grid) > Decimal(tick):
        what = f"all prices lie on a grid of {grid}, wider than the tick {tick}"
        found.append(Problem("warning", what, "data.instrument", "check that it is the right instrument"))
    if enough and not records.trades.trades:
        do = "give the trades files with --trades-data-dir, or go on without trade features"
        found.append(Problem("warning", "no trade among the records", "", do))
    if rows.sessions and _starts_inside(records, rows.sessions[0]):
        what = "the data begins inside a session: its first books may be incomplete"
        found.append(Problem("warning", what, "", "start at a session's open where that matters"))
    if rows.sessions_without_rows:
        dates = rows.sessions_without_rows
        more = f" and {len(dates) - MOST_IDS} more" if len(dates) > MOST_IDS else ""
        what = f"no row in {len(dates)} sessions of the calendar: {', '.join(dates[:MOST_IDS])}{more}"
        found.append(Problem("warning", what, "", "check whether files are missing"))
    return found


def _starts_inside(records: RecordReport, first: SessionReport) -> bool:
    return records.first_ns is not None and records.first_ns > first.open_ns + LATE_START_NS
