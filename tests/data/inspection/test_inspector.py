"""An inspection agrees with `prepare`: same counts where it takes the data, same words where it does not."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import databento_dbn
import numpy as np
import pytest

from tests.data import conftest as made
from tests.oracles import lobster
from trainer.config import Config
from trainer.data.cache import MIN_WINDOW_DECISIONS, Cache, build_cache
from trainer.data.dbn import read_records
from trainer.data.inspection import inspector
from trainer.data.inspection.faults import FaultFinder
from trainer.data.inspection.inspector import inspect_data
from trainer.data.inspection.report import Report
from trainer.data.readers import open_book
from trainer.data.synthetic import write_market
from trainer.data.windows import plan_windows, train_test
from trainer.errors import ExitCode, InputError
from trainer.presets import default, demo

SMALL = Config().replaced(data={"decision_rows": 4, "window_rows": 8, "horizons": (1, 2, 4), "folds": 1})
PARENT = databento_dbn.SType.PARENT
TICK = made.TICK_NANOS


def stored(path: Path, records: Any, **header: Any) -> Path:
    return made._write(path, made._encode(records, **header))


def errors(report: Report) -> list[str]:
    return [str(problem) for problem in report.problems if problem.severity == "error"]


def warned(report: Report) -> str:
    return "\n".join(str(problem) for problem in report.problems if problem.severity == "warning")


def assert_counts_of(report: Report, cache: Cache) -> None:
    """Everything that the manifest counts, and what its columns say of the book."""
    rows, manifest = report.rows, cache.manifest
    assert rows is not None
    assert report.usable
    assert report.exit_code == ExitCode.DONE
    assert rows.rows == manifest["num_rows"]
    assert rows.records == manifest["num_records"]
    assert rows.skipped == manifest["skipped"]
    assert rows.refused == {}
    assert list(rows.instrument_ids) == manifest["instrument_ids"]
    assert rows.segments == manifest["num_segments"]
    assert [[one.open_ns, one.close_ns] for one in rows.sessions] == manifest["sessions"]
    assert sum(one.rows for one in rows.sessions) == rows.rows
    spread = np.sort(cache.ask_px[:, 0] - cache.bid_px[:, 0])
    depth = np.concatenate([cache.bid_sz[:, 0], cache.ask_sz[:, 0]])
    filled = np.minimum((cache.bid_sz > 0).sum(axis=1), (cache.ask_sz > 0).sum(axis=1))
    book = rows.book
    assert book is not None
    assert book.spread_ticks_median == np.percentile(spread, 50, method="inverted_cdf")
    assert book.spread_ticks_p95 == np.percentile(spread, 95, method="inverted_cdf")
    assert book.depth_lots_median == np.percentile(depth, 50, method="inverted_cdf")
    assert book.levels_median == np.percentile(filled, 50, method="inverted_cdf")
    assert book.all_levels_share == (filled == 10).mean()
    assert book.equal_time_share == (np.diff(cache.ts_ns) == 0).sum() / rows.rows
    tick = float(cache.instrument.tick_size)
    assert float(book.low) == cache.bid_px[:, 0].min() * tick
    assert float(book.high) == cache.ask_px[:, 0].max() * tick


@pytest.mark.parametrize("name", ["ESH4_20231225.mbp-10.dbn.zst", "FROG_20250403.mbp-10.dbn.zst"])
def test_counts_of_a_real_file_are_those_of_its_cache(shared_data: Path, tmp_path: Path, name: str) -> None:
    cache = build_cache(default(), shared_data / name, tmp_path)
    report = inspect_data(default(), shared_data / name)
    assert_counts_of(report, cache)
    assert report.records.trades.trades == cache.trade_count.sum()
    assert report.records.trades.buys + report.records.trades.sells <= report.records.trades.trades


def test_counts_of_a_synthetic_market_are_those_of_its_cache(tmp_path: Path) -> None:
    config = demo().replaced(synthetic={"rows_per_session": 2048, "sessions": 3})
    (tmp_path / "market").mkdir()
    write_market(config, tmp_path / "market", lambda *_: None)
    report = inspect_data(config, tmp_path / "market")
    cache = build_cache(config, tmp_path / "market", tmp_path / "cache")
    assert_counts_of(report, cache)
    assert report.walk_forward is not None
    windows = plan_windows(cache, config)
    assert report.walk_forward.window_rows == tuple(window.num_rows for window in windows)
    files = sorted((tmp_path / "market").iterdir())
    assert [file.records for file in report.files] == [sum(map(len, read_records(path))) for path in files]


@pytest.mark.parametrize("seed", range(6))
def test_counts_of_records_with_every_trap_are_those_of_the_row_builder(seed: int, tmp_path: Path) -> None:
    records = made._scrambled(seed)
    columns, segments, builder = made._build(records)
    rows = inspect_data(SMALL, stored(tmp_path / "es.dbn", records)).rows
    assert rows is not None
    assert rows.rows == len(columns["ts_ns"])
    assert rows.skipped == builder.skipped
    assert rows.segments == len(segments)
    same = segments["ends_in_gap"]
    last, first = columns["ts_ns"][segments["end_row"] - 1], columns["ts_ns"][segments["first_row"]]
    lengths = [int(first[i + 1] - last[i]) for i in np.flatnonzero(same)]
    assert [gap.end_ns - gap.start_ns for gap in rows.gaps] == sorted(
        (length for length in lengths if length > 60 * 10**9), reverse=True
    )
    assert rows.restarts == sum(length <= 60 * 10**9 for length in lengths)


def test_a_report_does_not_depend_on_the_chunk_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = made._scrambled(3)
    records["bid_px_02"][50] += 1
    records["instrument_id"][60:] = 8
    source = stored(tmp_path / "es.dbn", records)
    whole = inspect_data(SMALL, source)
    monkeypatch.setattr(inspector, "open_book", partial(open_book, chunk_records=7))
    assert inspect_data(SMALL, source) == whole


def faulty(records: Any, kind: str) -> list[int]:
    """Damages two records or more and returns which."""
    at = [200, 300]
    if kind == "publisher":
        records["publisher_id"][at] = 2
    elif kind == "action":
        records["action"][at] = b"X"
    elif kind == "time_range":
        records["ts_recv"][at] = 5
    elif kind == "size":
        records["ask_ct_09"][at] = 2**31
    elif kind == "off_grid":
        records["ask_px_07"][at] += TICK // 2
    elif kind == "price_range":
        records["bid_px_09"][at] = 2**31 * TICK
    elif kind == "time_order":
        records["ts_recv"][at] -= 10**9
    return at


@pytest.mark.parametrize(
    "kind", ["publisher", "action", "time_range", "size", "off_grid", "price_range", "time_order"]
)
def test_a_fault_is_told_in_the_words_of_prepare_and_the_other_records_are_judged(
    kind: str, tmp_path: Path
) -> None:
    records = made._records(600)
    at = faulty(records, kind)
    source = stored(tmp_path / "es.dbn.zst", records)
    with pytest.raises(InputError) as refused:
        build_cache(SMALL, source, tmp_path / "cache")
    report = inspect_data(SMALL, source)
    assert report.exit_code == ExitCode.BAD_INPUT
    (problem,) = (problem for problem in report.problems if problem.severity == "error")
    assert problem.what == f"{refused.value.what} (the first of 2 such records)"
    assert (problem.where, problem.do) == (refused.value.where, refused.value.do)
    columns, _, builder = made._build(np.delete(records, at))
    assert report.rows is not None
    assert report.rows.refused == {kind: 2}
    assert report.rows.rows == len(columns["ts_ns"])
    assert report.rows.skipped == builder.skipped
    assert report.rows.records == 600


def test_several_kinds_of_faults_are_one_problem_each(tmp_path: Path) -> None:
    records = made._records(600)
    for kind in ("off_grid", "action"):
        faulty(records, kind)
    report = inspect_data(SMALL, stored(tmp_path / "es.dbn", records))
    assert [error.split(" @ ")[1].split(":")[0] for error in errors(report)] == [str(200 + 200 * 368)] * 1
    assert report.rows is not None
    assert report.rows.refused == {"action": 2}, "a record counts under the first fault that prepare meets"
    records["ask_px_07"][400] += 1
    assert len(errors(inspect_data(SMALL, stored(tmp_path / "es.dbn", records)))) == 2


def test_a_wrong_tick_is_told_from_a_damaged_price(tmp_path: Path) -> None:
    records = made._records(600)
    one = stored(tmp_path / "one.dbn", records)
    for name in records.dtype.names:
        if "_px_" in name:
            records[name] = records[name] // 25 + 30_000_000
    report = inspect_data(SMALL, stored(tmp_path / "all.dbn", records))
    assert report.instrument is not None
    assert report.instrument.grid == "0.01"
    assert "prices lie on a grid of 0.01, which the tick of equity (0.01) fits" in errors(report)[0]
    damaged = made._records(600)
    damaged["bid_px_00"][5] += 1
    report = inspect_data(SMALL, stored(one, damaged))
    assert report.instrument is not None
    assert report.instrument.grid == "0.25", "one damaged price does not hide the grid of the others"
    assert "else the file is damaged" in errors(report)[0]


def test_a_refusal_that_was_not_foreseen_is_still_the_line_of_prepare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = made._records(600)
    faulty(records, "off_grid")
    source = stored(tmp_path / "es.dbn", records)
    with pytest.raises(InputError) as refused:
        build_cache(SMALL, source, tmp_path / "cache")
    monkeypatch.setattr(FaultFinder, "find", lambda *_: {})
    report = inspect_data(SMALL, source)
    assert errors(report) == [str(refused.value)]
    assert report.rows is None
    assert report.records.records == 600


def cut(data: bytes) -> bytes:
    return data[: len(data) * 3 // 4]


def second_header(data: bytes) -> bytes:
    return data + made._encode(made._records(5))


def misaligned(data: bytes) -> bytes:
    return data[: -8 * 368] + b"\0" + data[-8 * 368 :]


@pytest.mark.parametrize("damage", [cut, second_header, misaligned])
def test_records_before_damage_are_read_and_the_damage_is_told_as_prepare_does(
    damage: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = made._records(600)
    data = damage(made._encode(records))
    source = made._write(tmp_path / "es.dbn", data)
    with pytest.raises(InputError) as refused:
        build_cache(SMALL, source, tmp_path / "cache")
    header = len(made._encode(records[:0]))
    intact = next(
        (
            i
            for i in range(len(data) // 368 + 1)
            if data[header + i * 368 :][:368] != records[i : i + 1].tobytes()
        ),
        600,
    )
    for chunk_records in (16_384, 100):
        monkeypatch.setattr(
            inspector, "open_book", lambda path, chunk_records=chunk_records: open_book(path, chunk_records)
        )
        report = inspect_data(SMALL, source)
        assert errors(report) == [str(refused.value)]
        assert [(file.records, file.complete) for file in report.files] == [(intact, False)]
        assert report.rows is not None
        assert report.rows.rows == intact


def test_a_damaged_file_does_not_hide_the_others(tmp_path: Path) -> None:
    stored(tmp_path / "a.dbn", made._records(600))
    (tmp_path / "b.dbn.zst").write_bytes(b"")
    stored(tmp_path / "c.dbn", made._records(600, start_ns=made.OPEN_NS + made.HOUR_NS))
    made._write(
        tmp_path / "d.dbn", made._encode(made._trades([1], 1, b"B"), schema=databento_dbn.Schema.TRADES)
    )
    report = inspect_data(SMALL, tmp_path)
    assert [file.name for file in report.files] == ["a.dbn", "c.dbn"]
    assert errors(report) == [f"{tmp_path / 'b.dbn.zst'} @ 0: the file is empty; download it again"]
    assert report.rows is not None
    assert report.rows.rows == 1200


def test_nothing_readable_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or directory"):
        inspect_data(SMALL, tmp_path / "absent")
    (tmp_path / "a.dbn").write_bytes(b"")
    with pytest.raises(InputError, match=r"a\.dbn @ 0: the file is empty"):
        inspect_data(SMALL, tmp_path / "a.dbn")
    (tmp_path / "b.dbn").write_bytes(b"text")
    with pytest.raises(InputError, match=r"a\.dbn @ 0: the file is empty"):
        inspect_data(SMALL, tmp_path)
    (tmp_path / "trades").mkdir()
    trades = made._encode(made._trades([1], 1, b"B"), schema=databento_dbn.Schema.TRADES)
    made._write(tmp_path / "trades" / "a.dbn", trades)
    with pytest.raises(InputError, match="no mbp-10 file"):
        inspect_data(SMALL, tmp_path / "trades")


def test_a_file_without_records_is_reported(tmp_path: Path) -> None:
    report = inspect_data(SMALL, stored(tmp_path / "es.dbn", made._records(0)))
    assert report.records.records == 0
    assert report.records.first_ns is None
    assert "0 valid rows of 0 records" in errors(report)[0]


def two_instruments(path: Path, symbols: tuple[str, ...] = ("ES.FUT",)) -> Path:
    records = made._records(900)
    records["instrument_id"][::3] = 9
    return stored(path, records, symbols=symbols, stype=PARENT)


def test_several_instruments_are_listed_and_one_can_be_chosen(tmp_path: Path) -> None:
    source = two_instruments(tmp_path / "es.dbn")
    config = SMALL.replaced(data={"instrument": "ES"})
    report = inspect_data(config, source)
    assert report.rows is None
    assert [(one.instrument_id, one.records, one.grid) for one in report.instrument_ids] == [
        (7, 600, "0.25"),
        (9, 300, "0.25"),
    ]
    (error,) = errors(report)
    assert "several instruments: 7 (600 records), 9 (300 records); choose one: --instrument-id 7" in error
    chosen = config.replaced(data={"instrument_id": 9})
    assert_counts_of(inspect_data(chosen, source), build_cache(chosen, source, tmp_path / "cache"))
    assert inspect_data(chosen, source).records.records == 300


def test_an_instrument_id_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    config = SMALL.replaced(data={"instrument": "ES", "instrument_id": 8})
    source = two_instruments(tmp_path / "es.dbn")
    with pytest.raises(InputError) as refused:
        build_cache(config, source, tmp_path / "cache")
    (error,) = errors(inspect_data(config, source))
    assert refused.value.what.startswith("no record of instrument 8, but of ")
    assert "no record of instrument 8, but of 7 (600 records), 9 (300 records)" in error


def test_an_unknown_instrument_shows_the_grid_and_what_fits_it(tmp_path: Path) -> None:
    records = made._records(600)
    source = stored(tmp_path / "cl.dbn", records, symbols=("CLH4",))
    report = inspect_data(SMALL, source)
    assert (report.instrument, report.rows) == (None, None)
    (error,) = errors(report)
    assert error.startswith(
        "data.instrument: cannot infer the instrument of dataset GLBX.MDP3, CLH4; choose "
    )
    assert error.endswith("with --instrument; prices lie on a grid of 0.25, which the tick of ES (0.25) fits")
    assert inspect_data(SMALL.replaced(data={"instrument": "ES"}), source).usable
    several = errors(inspect_data(SMALL, two_instruments(tmp_path / "parent.dbn")))
    assert len(several) == 2
    assert several[1].startswith(f"{tmp_path / 'parent.dbn'}: several instruments: 7 (600 records)")


def test_an_instrument_that_is_misspelt_is_no_report(tmp_path: Path) -> None:
    source = stored(tmp_path / "es.dbn", made._records(9))
    with pytest.raises(InputError, match="unknown instrument 'SE'"):
        inspect_data(SMALL.replaced(data={"instrument": "SE"}), source)


def test_symbols_come_from_the_mappings_or_from_the_only_one(tmp_path: Path) -> None:
    day = date(2024, 1, 8)
    metadata = databento_dbn.Metadata(
        dataset="GLBX.MDP3",
        start=made.OPEN_NS,
        stype_in=PARENT,
        stype_out=databento_dbn.SType.INSTRUMENT_ID,
        schema=databento_dbn.Schema.MBP_10,
        symbols=["ES.FUT"],
        mappings=[
            SimpleNamespace(
                raw_symbol=name,
                intervals=[SimpleNamespace(start_date=day, end_date=day + timedelta(1), symbol=ident)],
            )
            for name, ident in (("ESH4", "7"), ("ESM4-ESH4", "9"))
        ],
    )
    records = made._records(900)
    records["instrument_id"][::3] = 9
    source = made._write(tmp_path / "es.dbn", metadata.encode() + records.tobytes())
    found = inspect_data(SMALL, source).instrument_ids
    assert [(one.instrument_id, one.symbol) for one in found] == [(7, "ESH4"), (9, "ESM4-ESH4")]
    single = inspect_data(SMALL, stored(tmp_path / "one.dbn", made._records(9)))
    assert [one.symbol for one in single.instrument_ids] == ["ESH4"]


def test_files_of_two_datasets_are_refused_and_the_first_ones_are_judged(tmp_path: Path) -> None:
    stored(tmp_path / "a.dbn", made._records(600))
    stored(tmp_path / "b.dbn", made._records(50, ident=3), symbols=("X",), dataset="XNAS.ITCH")
    report = inspect_data(SMALL, tmp_path)
    (error,) = errors(report)
    with pytest.raises(InputError) as refused:
        build_cache(SMALL, tmp_path, tmp_path / "cache")
    assert error == str(refused.value)
    assert report.rows is not None
    assert (report.rows.rows, report.records.records) == (600, 600)
    assert [one.symbol for one in report.instrument_ids] == ["ESH4", "X"]


def test_legacy_files_beside_others_are_named(tmp_path: Path) -> None:
    stored(tmp_path / "a.dbn", made._records(600))
    (tmp_path / "old.dbz").write_bytes(b"DBZ")
    report = inspect_data(SMALL, tmp_path)
    assert report.usable
    assert "1 legacy .dbz file left out, such as old.dbz; convert" in warned(report)


@pytest.mark.parametrize("num", [50, 100, 333, 600])
def test_what_the_rows_are_enough_for_is_what_prepare_takes(num: int, tmp_path: Path) -> None:
    """The most folds and the most rows a decision are taken, one more is not."""
    source = stored(tmp_path / "es.dbn", made._records(num))
    config = SMALL.replaced(data={"folds": 4, "decision_rows": 8})
    found = inspect_data(config, source).walk_forward
    assert found is not None

    # Built where nearly everything is enough; what `prepare` asks for besides is the number of rows.
    cache = build_cache(SMALL.replaced(data={"decision_rows": 1}), source, tmp_path / "cache")

    def takes(**change: int) -> bool:
        changed = config.replaced(data=change)
        if num < (changed.data.folds + 1) * MIN_WINDOW_DECISIONS * changed.data.decision_rows:
            return False
        try:
            windows = plan_windows(cache, changed)
            for fold in range(changed.data.folds):
                train_test(cache, windows, fold, changed)
        except InputError:
            return False
        return True

    assert found.enough == takes()
    assert found.most_folds == max((folds for folds in range(1, 12) if takes(folds=folds)), default=0)
    assert found.most_decision_rows == next((rows for rows in (8, 4, 2, 1) if takes(decision_rows=rows)), 0)


def test_too_few_rows_are_told_as_prepare_does_with_what_is_possible(tmp_path: Path) -> None:
    source = stored(tmp_path / "es.dbn", made._records(333))
    config = SMALL.replaced(data={"folds": 9})
    with pytest.raises(InputError) as refused:
        build_cache(config, source, tmp_path / "cache")
    (problem,) = (one for one in inspect_data(config, source).problems if one.severity == "error")
    assert (problem.what, problem.where) == (refused.value.what, refused.value.where)
    assert problem.do == "give more data or --folds 7 or data.decision_rows 2"


def test_sessions_gaps_and_missing_days_are_named(tmp_path: Path) -> None:
    """An hour of one session, with a gap of 100 s; none of the next day; half an hour of the day after."""
    first, day_ns = made._records(3600, step_ns=10**9), 86_400 * 10**9
    first["ts_recv"][1000:] += 100 * 10**9
    stored(tmp_path / "a.dbn", first)
    stored(tmp_path / "b.dbn", made._records(1800, start_ns=made.OPEN_NS + 2 * day_ns, step_ns=10**9))
    report = inspect_data(SMALL, tmp_path)
    assert report.rows is not None
    assert [one.date for one in report.rows.sessions] == ["2024-01-09", "2024-01-11"]
    assert [one.rows for one in report.rows.sessions] == [3600, 1800]
    assert [one.first_row_ns for one in report.rows.sessions] == [made.OPEN_NS, made.OPEN_NS + 2 * day_ns]
    assert report.rows.sessions[0].covered == pytest.approx((3599 - 1) / (23 * 3600))
    (gap,) = report.rows.gaps
    assert (gap.start_ns, gap.seconds) == (made.OPEN_NS + 999 * 10**9, 101.0)
    assert report.rows.sessions_without_rows == ("2024-01-10",)
    assert "no row in 1 sessions of the calendar: 2024-01-10" in warned(report)


def test_warnings_name_a_wide_grid_a_late_start_and_the_absence_of_trades(tmp_path: Path) -> None:
    records = made._records(2000, start_ns=made.OPEN_NS + made.HOUR_NS)
    for name in records.dtype.names:
        if "_px_" in name:
            records[name] *= 2
    report = inspect_data(SMALL, stored(tmp_path / "es.dbn", records))
    assert report.usable
    for said in (
        "all prices lie on a grid of 0.5, wider than the tick 0.25",
        "begins inside a session",
        "no trade",
    ):
        assert said in warned(report)
    records = made._records(2000)
    records["action"][7] = b"T"
    assert warned(inspect_data(SMALL, stored(tmp_path / "es.dbn", records))) == ""


def test_progress_counts_the_stored_bytes_of_all_files(tmp_path: Path) -> None:
    for name in ("a.dbn", "b.dbn.zst"):
        stored(
            tmp_path / name, made._records(300, start_ns=made.OPEN_NS + (name == "b.dbn.zst") * made.HOUR_NS)
        )
    seen: list[tuple[int, int]] = []
    inspect_data(SMALL, tmp_path, lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_json_holds_the_whole_report(tmp_path: Path) -> None:
    report = inspect_data(SMALL, stored(tmp_path / "es.dbn", made._records(600)))
    body = json.loads(json.dumps(report.as_json()))
    assert body.pop("report_version") == 1
    assert body.pop("usable") is True
    assert body == json.loads(json.dumps(asdict(report)))
    assert replace(report, path="x").as_json()["path"] == "x"


def lobster_day(directory: Path, num: int = 300, price: int = 5_853_300) -> Path:
    """Some minutes of two-level books, a new resting order a second."""
    messages, books = [], []
    for k in range(num):
        ask = 5_859_400 + 100 * (k % 7)
        messages.append(f"{34_200 + k}.5,1,{k},18,{price},1")
        books.append(f"{ask},200,{price},18,{ask + 400},210,{price - 300},150")
    return lobster.write_pair(directory, lobster.message_name("AAPL", date(2012, 6, 21), 2), messages, books)


def test_counts_of_lobster_files_are_those_of_their_cache(tmp_path: Path) -> None:
    book = lobster_day(tmp_path / "lobster")
    report = inspect_data(SMALL, tmp_path / "lobster")
    assert_counts_of(report, build_cache(SMALL, tmp_path / "lobster", tmp_path / "cache"))
    (file,) = report.files
    assert (file.format, file.symbols, file.name) == ("LOBSTER", ("AAPL",), book.name)
    assert file.stored_bytes == sum(path.stat().st_size for path in book.parent.iterdir())
    assert [one.symbol for one in report.instrument_ids] == ["AAPL"]
    assert report.rows is not None
    assert report.rows.book is not None
    assert report.rows.book.levels_median == 2


def test_a_fault_of_a_lobster_file_is_told_by_its_line(tmp_path: Path) -> None:
    book = lobster_day(tmp_path)
    lines = book.read_text().splitlines()
    lines[99] = lines[99].replace("5853300", "5853301")
    book.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as refused:
        build_cache(SMALL, tmp_path, tmp_path / "cache")
    report = inspect_data(SMALL, tmp_path)
    (error,) = errors(report)
    assert error == str(refused.value).replace("0.01;", "0.01 (1 such record);")
    assert ":100: bid_px_00" in error
    assert report.rows is not None
    assert (report.rows.rows, report.rows.refused) == (299, {"off_grid": 1})


def test_dbn_and_lobster_files_side_by_side_are_named_and_the_dbn_files_shown(tmp_path: Path) -> None:
    lobster_day(tmp_path)
    stored(tmp_path / "es.dbn", made._records(600))
    report = inspect_data(SMALL, tmp_path)
    (error,) = errors(report)
    assert "both DBN and LOBSTER files" in error
    assert [file.name for file in report.files] == ["es.dbn"]
