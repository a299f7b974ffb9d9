"""One bounded-memory pass over order-book files that survives what `prepare` refuses."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from trainer.config import Config, InstrumentConfig
from trainer.data.calendar import resolve_instrument
from trainer.data.dbn import Records
from trainer.data.inspection.enough import Rows, walk_forward
from trainer.data.inspection.files import Listed, list_files, mapped_symbols, problem_of
from trainer.data.inspection.findings import (
    absent_problem,
    fault_problems,
    obstacle_problem,
    row_report,
    several_problem,
    shortage_problem,
    warnings,
)
from trainer.data.inspection.judgement import Judgement
from trainer.data.inspection.report import (
    FileReport,
    IdReport,
    InstrumentReport,
    Problem,
    Report,
    RowReport,
    WalkForwardReport,
)
from trainer.data.inspection.sessions import timezone_of
from trainer.data.inspection.survey import IdSurvey, RecordSurvey, book_prices
from trainer.data.readers import open_book
from trainer.errors import InputError

SALVAGE_CHUNKS = 20_000  # a damaged file is read again in so many pieces: within a second, nearly exact

Progress = Callable[[int, int], None]


def inspect_data(config: Config, source: Path, on_progress: Progress | None = None) -> Report:
    """What `source` (file or directory) holds and what `prepare` with `config` would make of it.

    Rows are judged by the code that `prepare` uses; where nothing is refused, counts equal the cache's
    manifest. `on_progress(bytes_done, bytes_total)` counts bytes of the files as stored. Raises InputError
    only where no file has a readable header; everything else is a problem of the report.
    """
    listed, problems = list_files(source)
    return _Inspection(config, source, listed, problems).run(on_progress or _no_progress)


def _no_progress(_done: int, _total: int) -> None:
    """Progress nobody asked for."""


def _advance(on_progress: Progress, done: int, total: int, num_bytes: int) -> None:
    on_progress(done + num_bytes, total)


class _Inspection:
    """The state of one pass."""

    def __init__(self, config: Config, source: Path, listed: list[Listed], problems: list[Problem]) -> None:
        self.config, self.source, self.listed, self.problems = config, source, listed, problems
        self.chosen = config.data.instrument_id
        self.ids, self.records = IdSurvey(), RecordSurvey()
        self.files: list[FileReport] = []
        self.obstacle: InputError | None = None  # why rows are not judged
        self.instrument = self._resolve()
        self.judgement: Judgement | None = None
        if self.instrument is not None:
            self.judgement = Judgement(config, self.instrument, self._rolls())

    def run(self, on_progress: Progress) -> Report:
        """Reads everything and sums up."""
        total, done = sum(file.stored_bytes for file in self.listed), 0
        for file in self.listed:
            self._read(file, partial(_advance, on_progress, done, total))
            done += file.stored_bytes
        return self._report()

    def _resolve(self) -> InstrumentConfig | None:
        name = self.config.data.instrument
        try:
            return resolve_instrument(name, self.listed[0].description)
        except InputError as error:
            if name != "auto":
                raise  # a typing error: there is nothing to report yet
            self.obstacle = error
            return None

    def _rolls(self) -> bool:
        """Whether the files hold one symbol, so that a change of instrument id is a roll."""
        descriptions = [file.description for file in self.listed]
        symbols = {symbol for description in descriptions for symbol in description.symbols}
        return len(symbols) == 1 and not any(description.grouped for description in descriptions)

    def _read(self, file: Listed, on_bytes: Callable[[int], None]) -> None:
        """All records of a file that can be read; damage ends it."""
        num_read, damage = 0, None
        try:
            with open_book(file.path) as reader:
                for records in reader:
                    self._push(file, records, reader.offset)
                    num_read += len(records)
                    on_bytes(reader.bytes_read)
        except InputError as error:
            damage = error
            num_read += self._salvage(file, num_read)
        if damage is not None:
            self.problems.append(problem_of(damage))
        self.files.append(_file_report(file, num_read, damage is None))

    def _salvage(self, file: Listed, num_read: int) -> int:
        """Number of records between the last whole chunk and the damage, read again in small chunks."""
        pieces: list[Records] = []
        offset, behind = None, 0
        try:
            with open_book(file.path, chunk_records=1 + num_read // SALVAGE_CHUNKS) as reader:
                for records in reader:
                    known, behind = max(0, num_read - behind), behind + len(records)
                    if known >= len(records):
                        continue
                    if not pieces and reader.offset is not None:
                        offset = reader.offset + known * records.dtype.itemsize
                    pieces.append(records[known:])
        except InputError:
            pass  # the damage that is known already
        if pieces:
            self._push(file, np.concatenate(pieces), offset)
        return sum(map(len, pieces))

    def _push(self, file: Listed, records: Records, offset: int | None) -> None:
        prices = book_prices(records)
        self.ids.add(records, prices, file.only_symbol)
        # Another venue's files are refused as such: their books say nothing about this instrument's.
        if file.description.dataset != self.listed[0].description.dataset:
            return
        mine = records if self.chosen is None else records[records["instrument_id"] == self.chosen]
        self.records.add(mine)
        if self.judgement is not None and self.instrument is not None:
            on_grid = self.ids.divides(self.instrument.tick_size_nanos)
            try:
                self.judgement.push(records, prices, on_grid, str(file.path), offset)
            except InputError as error:
                self.obstacle, self.judgement = error, None

    def _report(self) -> Report:
        ids = self.ids.reports(self._symbols())
        records = self.records.report()
        grid = self._grid(ids)
        judged_grid = self.judgement.grid(grid) if self.judgement is not None else grid
        instrument = self._instrument_report(judged_grid)
        rows = walked = None
        problems = list(self.problems)
        if self.obstacle is not None:
            problems.append(obstacle_problem(self.obstacle, ids, grid))
        if self.instrument is None and len(ids) > 1 and not self._rolls() and self.chosen is None:
            problems.append(several_problem(ids, str(self.source)))
        if self.judgement is not None and instrument is not None:
            rows = row_report(self.judgement, self.config, instrument)
            plan = Rows(self.judgement.survey.times, self.judgement.segments.table())
            walked = walk_forward(plan, self.config)
            problems += fault_problems(self.judgement, grid)
            problems += self._shortage(walked, rows, ids)
            problems += warnings(rows, records, instrument)
        return Report(
            path=str(self.source),
            files=tuple(self.files),
            instrument=instrument,
            instrument_ids=tuple(ids),
            records=records,
            rows=rows,
            walk_forward=walked,
            problems=tuple(sorted(problems, key=lambda problem: problem.severity)),  # errors first
        )

    def _symbols(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for file in self.listed:
            if file.description.format.startswith("DBN"):
                found |= mapped_symbols(file.path)
        return found

    def _grid(self, ids: list[IdReport]) -> str | None:
        """Observed grid of the chosen instrument, else of the one with the most records."""
        return next((one.grid for one in ids if self.chosen in (None, one.instrument_id)), None)

    def _instrument_report(self, grid: str | None) -> InstrumentReport | None:
        if self.instrument is None:
            return None
        return InstrumentReport(
            name=self.instrument.name,
            inferred=self.config.data.instrument == "auto",
            tick_size=str(self.instrument.tick_size),
            grid=grid,
            calendar=self.instrument.calendar,
            timezone=timezone_of(self.instrument.calendar),
        )

    def _shortage(self, walked: WalkForwardReport, rows: RowReport, ids: list[IdReport]) -> list[Problem]:
        where = str(self.source)
        if self.chosen is not None and all(one.instrument_id != self.chosen for one in ids):
            return [absent_problem(self.chosen, ids, where)]
        return [] if walked.enough else [shortage_problem(walked, rows, where)]


def _file_report(file: Listed, records: int, complete: bool) -> FileReport:
    return FileReport(
        name=file.path.name,
        format=file.description.format,
        dataset=file.description.dataset,
        symbols=file.description.symbols,
        stored_bytes=file.stored_bytes,
        records=records,
        complete=complete,
    )
