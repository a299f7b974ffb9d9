"""An inspection as a person reads it: fits 80 columns; long lists are cut, `--json` has them whole."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trainer.data.inspection.faults import FAULTS
from trainer.data.inspection.report import IdReport, Report, RowReport, SessionReport
from trainer.data.inspection.sentences import bytes_text, listed, percent, sentences, share_text
from trainer.data.inspection.sessions import local

MOST_LINES = 10  # of a table
MOST_PROBLEMS = 20
LABEL_WIDTH = 12

MEANINGS = {
    "other_instrument": "of another instrument id",
    "trade": "shows the book before the trade",
    "clear": "the book is cleared",
    "not_last": "inside an event: book half changed",
    "bad_ts_recv": "no reliable receive time",
    "maybe_bad_book": "flagged: the book may be wrong",
    "out_of_session": "outside the trading session",
    "missing_best": "no bid or no ask",
    "crossed": "best bid at or above best ask",
    "levels_out_of_order": "a level better than the one above",
    "insane_price": "outside min_price and max_price",
}
STYLES = {"error": ("✗", "bold red"), "warning": ("!", "yellow")}


def print_report(report: Report, console: Console) -> None:
    """Prints the report; a problem is one line whatever the width, for grep."""
    with console.capture() as capture:
        _print(report, console)
    # Tables are padded to the full width.
    for line in capture.get().splitlines():
        console.file.write(line.rstrip() + "\n")


def _print(report: Report, console: Console) -> None:
    console.print(_headline(report))
    console.print(_files(report))
    console.print(_facts(report))
    for table in _tables(report):
        console.print(Padding(table, (1, 0, 0, 2)))
    if report.problems:
        console.print()
    for problem in report.problems[:MOST_PROBLEMS]:
        mark, style = STYLES[problem.severity]
        line = Text.assemble((f"{mark} {problem.severity}: ", style), str(problem))
        console.print(line, soft_wrap=True)
    if len(report.problems) > MOST_PROBLEMS:
        console.print(Text(f"and {len(report.problems) - MOST_PROBLEMS:,} more", style="dim"))


def _headline(report: Report) -> Text:
    counts = [
        f"{num} {severity}{'s' * (num > 1)}"
        for severity in STYLES
        if (num := sum(problem.severity == severity for problem in report.problems))
    ]
    said = f" ({', '.join(counts)}, below)" if counts else ""
    if report.usable:
        return Text(f"✓ prepare takes this data{said}", style="bold green")
    return Text(f"✗ prepare refuses this data{said}", style="bold red")


def _files(report: Report) -> RenderableType:
    """One line a file; the dataset only where there are several, for width. Names are no markup: Text."""
    files = report.files
    several = len({file.dataset for file in files}) > 1
    table = _table("Files", "~name", "format", *["dataset"] * several, "~symbols", ">records", ">stored")
    for file in files[:MOST_LINES]:
        cut = "" if file.complete else " ✗"
        whose = [Text(file.dataset)] * several + [Text(listed(file.symbols, 2))]
        counts = f"{file.records:,}{cut}", bytes_text(file.stored_bytes)
        table.add_row(Text(file.name), file.format, *whose, *counts)
    if len(files) > 1:
        records = sum(file.records for file in files)
        size = bytes_text(sum(file.stored_bytes for file in files))
        blank = [""] * (2 + several)
        table.add_row(f"all {len(files):,} files", *blank, f"{records:,}", size, style="dim")
    return Padding(table, (1, 0, 1, 2))


def _facts(report: Report) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=LABEL_WIDTH, style="bold", no_wrap=True)
    grid.add_column()
    for label, lines in sentences(report):
        grid.add_row(label, Group(*(Text(line) for line in lines)))
    return grid


def _tables(report: Report) -> Iterable[RenderableType]:
    if report.rows is None or len(report.instrument_ids) > 1:
        yield _id_table(report.instrument_ids)
    if report.rows is not None:
        yield _reason_table(report.rows)
        zone = report.instrument.timezone if report.instrument else "UTC"
        if report.rows.sessions:
            yield _session_table(report.rows.sessions, zone)
        if report.rows.gaps:
            yield _gap_table(report.rows, zone)


def _id_table(ids: Sequence[IdReport]) -> RenderableType:
    table = _table("Instrument ids", ">id", "symbol", ">records", ">book updates", ">low", ">high", ">grid")
    for one in ids[:MOST_LINES]:
        counts = f"{one.records:,}", f"{one.book_updates:,}"
        prices = (_on_grid(value, one.grid) for value in (one.low, one.high, one.grid))
        table.add_row(str(one.instrument_id), Text(one.symbol or "–"), *counts, *prices)
    return _capped(table, len(ids))


def _reason_table(rows: RowReport) -> Table:
    table = _table("Where the records went", "reason", ">records", ">share", "~")
    table.add_row("valid rows", f"{rows.rows:,}", percent(rows.rows, rows.records), "")
    for reason, num in sorted(rows.skipped.items(), key=lambda item: -item[1]):
        if num:
            table.add_row(reason, f"{num:,}", percent(num, rows.records), MEANINGS[reason])
    for kind, num in rows.refused.items():
        what = f"refused: {FAULTS[kind]}"
        table.add_row(kind, f"{num:,}", percent(num, rows.records), what, style="red")
    return table


def _session_table(sessions: Sequence[SessionReport], zone: str) -> RenderableType:
    """All sessions, or where they are many the least covered ones, in order of date."""
    shown = sorted(sorted(sessions, key=lambda one: one.covered)[:MOST_LINES], key=lambda one: one.open_ns)
    least = f", the {MOST_LINES} least covered of {len(sessions):,}" if len(sessions) > len(shown) else ""
    headings = "date", ">open", ">close", ">rows", ">first row", ">last row", ">covered"
    table = _table(f"Sessions{least} ({zone} time)", *headings)
    for one in shown:
        times = f"{local(one.open_ns, zone):%H:%M}", f"{local(one.close_ns, zone):%H:%M}"
        span = (f"{local(ts_ns, zone):%H:%M:%S}" for ts_ns in (one.first_row_ns, one.last_row_ns))
        table.add_row(one.date, *times, f"{one.rows:,}", *span, share_text(one.covered))
    return table


def _gap_table(rows: RowReport, zone: str) -> RenderableType:
    table = _table(f"Longest gaps ({zone} time)", "from", "to", ">seconds")
    for gap in rows.gaps[:MOST_LINES]:
        start, end = (f"{local(ts_ns, zone):%Y-%m-%d %H:%M:%S}" for ts_ns in (gap.start_ns, gap.end_ns))
        table.add_row(start, end, f"{gap.seconds:,.1f}")
    return _capped(table, len(rows.gaps))


def _table(title: str, *headings: str) -> Table:
    """A plain table; of headings, `>` aligns a column to the right and `~` lets it wrap."""
    table = Table(title=title, box=None, pad_edge=False, header_style="dim")
    table.title_justify, table.title_style = "left", "bold"
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading.startswith(">") else "left"
        wraps = heading.startswith("~")
        table.add_column(heading.lstrip(">~"), justify=justify, overflow="fold", no_wrap=not wraps)
    return table


def _on_grid(price: str | None, grid: str | None) -> str:
    """A price with the decimals of its grid."""
    if price is None or grid is None:
        return "–"
    return f"{Decimal(price):.{max(0, -int(Decimal(grid).as_tuple().exponent))}f}"


def _capped(table: Table, num: int) -> RenderableType:
    more = num - MOST_LINES
    return Group(table, Text(f"and {more:,} more", style="dim")) if more > 0 else table
