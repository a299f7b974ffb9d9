"""The sentences of an inspection's text: one labelled fact a line, short enough for 80 columns."""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from trainer.data.inspection.book import QUANTILE_LIMIT
from trainer.data.inspection.enough import MOST_FOLDS
from trainer.data.inspection.report import (
    BookReport,
    IdReport,
    InstrumentReport,
    RecordReport,
    Report,
    RowReport,
    WalkForwardReport,
)
from trainer.data.inspection.sessions import local

MOST_PARTS = 6  # of a list in a sentence

ACTIONS = {"A": "add", "C": "cancel", "M": "modify", "T": "trade", "R": "clear", "F": "fill", "N": "none"}
FLAG_BITS = {128: "LAST", 64: "TOB", 32: "SNAPSHOT", 16: "MBP", 8: "BAD_TS_RECV", 4: "MAYBE_BAD_BOOK"}


def sentences(report: Report) -> Iterable[tuple[str, list[str]]]:
    """Label and lines of each fact."""
    zone = report.instrument.timezone if report.instrument else "UTC"
    yield "Dataset", [listed(sorted({file.dataset for file in report.files}), MOST_PARTS)]
    yield "Instrument", _instrument(report.instrument, report.instrument_ids, report.rows)
    yield "Span", _span(report.records, zone)
    yield "Records", [f"{report.records.records:,}: {_shares(report.records.actions, _action)}"]
    yield "Flags", [_shares(report.records.flags, _flag) or "none"]
    yield "Trades", [_trades(report.records)]
    if report.rows is not None:
        yield "Valid rows", [_rows(report.rows)]
        if report.rows.book is not None:
            yield "Book", _book(report.rows.book, report.instrument)
        yield "Segments", [_segments(report.rows)]
    if report.walk_forward is not None:
        yield "Walk-forward", _walk_forward(report.walk_forward)


def _instrument(
    instrument: InstrumentReport | None, ids: Sequence[IdReport], rows: RowReport | None
) -> list[str]:
    if instrument is None:
        return ["not known: rows are not judged"]
    how = "inferred" if instrument.inferred else "as given"
    whose = "rows are not judged"
    if rows is not None:
        judged = [str(ident) for ident in rows.instrument_ids]
        of = f" of {len(ids):,}" if len(ids) > len(judged) else ""
        whose = f"id {listed(judged, MOST_PARTS) or 'none'}{of}"
    return [
        f"{instrument.name} ({how}), {whose}",
        f"tick {instrument.tick_size} (observed price grid {instrument.grid or '–'}), "
        f"calendar {instrument.calendar}",
    ]


def _span(records: RecordReport, zone: str) -> list[str]:
    if records.first_ns is None or records.last_ns is None:
        return ["no record with a receive time"]
    return [
        f"{local(records.first_ns, name):%Y-%m-%d %H:%M:%S} to "
        f"{local(records.last_ns, name):%Y-%m-%d %H:%M:%S} {name}"
        for name in dict.fromkeys(["UTC", zone])
    ]


def _trades(records: RecordReport) -> str:
    trades = records.trades
    if not trades.trades:
        return "none"
    unsided = trades.trades - trades.buys - trades.sells
    return (
        f"{trades.trades:,} of {trades.volume_lots:,} lots: {percent(trades.buys, trades.trades)} bought, "
        f"{percent(trades.sells, trades.trades)} sold, {percent(unsided, trades.trades)} unsided"
    )


def _rows(rows: RowReport) -> str:
    text = f"{rows.rows:,}, {percent(rows.rows, rows.records)} of the records"
    if rows.crossed_share is not None:
        text += f"; {share_text(rows.crossed_share)} of books in session crossed"
    return text


def _book(book: BookReport, instrument: InstrumentReport | None) -> list[str]:
    low, high = (_price(price, instrument) for price in (book.low, book.high))
    return [
        f"prices {low} to {high}",
        f"spread in ticks: median {_least(book.spread_ticks_median)}, 95 % within "
        f"{_least(book.spread_ticks_p95)}",
        f"depth at the best: median {_least(book.depth_lots_median)} lots",
        f"levels filled: median {book.levels_median}, all ten in {share_text(book.all_levels_share)} of rows",
        f"{share_text(book.equal_time_share)} of rows have the receive time of the row before",
    ]


def _segments(rows: RowReport) -> str:
    gaps = f"{_num(len(rows.gaps), 'gap')} over {rows.max_gap_s:g} s"
    restarts = _num(rows.restarts, "restart") + " of the book"
    return f"{rows.segments:,} in {_num(len(rows.sessions), 'session')}; {gaps}, {restarts}"


def _walk_forward(found: WalkForwardReport) -> list[str]:
    most = f"up to {_num(found.most_folds, 'fold')}" if found.most_folds else "none"
    most = f"{MOST_FOLDS} or more" if found.most_folds == MOST_FOLDS else most
    windows = "not enough rows"
    if found.enough:
        windows = f"windows of {min(found.window_rows):,} to {max(found.window_rows):,} rows"
    return [
        f"{_num(found.decisions, 'decision')} of {_num(found.decision_rows, 'row')}",
        f"{_num(found.folds, 'fold')}: {windows}; possible: {most}",
    ]


def listed(names: Sequence[str], most: int) -> str:
    """The first `most` names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shares(counts: dict[str, int], name: Callable[[str], str]) -> str:
    total = sum(counts.values())
    parts = [f"{name(key)} {percent(num, total)}" for key, num in counts.items()]
    return listed(parts, MOST_PARTS)


def _action(letter: str) -> str:
    return ACTIONS.get(letter, repr(letter))


def _flag(value: str) -> str:
    bits = [name for bit, name in FLAG_BITS.items() if int(value) & bit]
    return f"{value} ({'+'.join(bits)})" if bits else value


def _num(num: int, noun: str) -> str:
    return f"{num:,} {noun}{'' if num == 1 else 's'}"


def percent(part: int, whole: int) -> str:
    """A part of a whole in per cent."""
    return share_text(part / whole) if whole else "–"


def share_text(share: float) -> str:
    """Per cent; what is neither nothing nor everything never looks like it."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return "<0.1 %" if share < 0.001 else ">99.9 %" if share > 0.999 else f"{100 * share:.1f} %"


def _least(value: int) -> str:
    return f"{value:,} or more" if value >= QUANTILE_LIMIT else f"{value:,}"


def _price(price: str, instrument: InstrumentReport | None) -> str:
    return str(Decimal(price).quantize(Decimal(instrument.tick_size))) if instrument else price


def bytes_text(num: int) -> str:
    """A size for people."""
    return f"{num / 1e6:,.1f} MB" if num >= 1e5 else f"{num:,} B"
