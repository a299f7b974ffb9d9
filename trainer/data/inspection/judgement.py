"""Rows of records that may be damaged: RowBuilder judges what is left of them without the damage."""

from collections import Counter
from copy import deepcopy

import numpy as np
import numpy.typing as npt

from trainer.config import Config, InstrumentConfig
from trainer.data.calendar import Sessions
from trainer.data.dbn import Records
from trainer.data.inspection.book import RowSurvey
from trainer.data.inspection.faults import FAULTS, FaultFinder
from trainer.data.rows import RowBuilder
from trainer.data.segments import Segmenter
from trainer.errors import InputError

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Judgement:
    """The rows that `prepare` would build, and each kind of fault with its number and its first place.

    Without faults `builder` has been pushed exactly what `prepare` pushes, so its counts are the manifest's.
    """

    def __init__(self, config: Config, instrument: InstrumentConfig, rolls: bool) -> None:
        chosen, sessions = config.data.instrument_id, Sessions(instrument.calendar)
        self.builder = RowBuilder(instrument, chosen, config.data.max_gap_s, sessions, rolls=rolls)
        self.survey = RowSurvey(instrument.tick_size_nanos)
        self.refused: Counter[str] = Counter()
        self._first: dict[str, InputError] = {}
        self._finder = FaultFinder(instrument)

    @property
    def segments(self) -> Segmenter:
        """Of the rows so far."""
        return self.builder.segments

    def push(self, records: Records, prices: Int64, on_grid: bool, source: str, offset: int | None) -> None:
        """Judges the next records, with their `book_prices` and whether all are known to be on the grid.

        After a SeveralInstrumentsError nothing is known of the rows.
        """
        chosen = self._chosen(records)
        if chosen is None:
            found = self._finder.find(records, prices, on_grid)
        else:
            found = self._finder.find(records[chosen], prices[:, chosen], on_grid)
        clean = np.ones(len(records), np.bool_)
        for kind, wrong in found.items():
            index = np.flatnonzero(wrong) if chosen is None else chosen[wrong]
            self.refused[kind] += len(index)
            if kind not in self._first:
                self._first[kind] = self._refusal(records, int(index[0]), clean, source, offset)
            clean[index] = False
        self.survey.add(self.builder.push(records if clean.all() else records[clean], source, offset))

    def first_faults(self) -> dict[str, InputError]:
        """Each kind's first record, in the words of `prepare` and in its order."""
        return {kind: self._first[kind] for kind in FAULTS if kind in self._first}

    @property
    def wrong_tick(self) -> bool:
        """Whether most books are off the grid: the tick is wrong then, not the data."""
        return 2 * self.refused["off_grid"] > self.builder.num_records + self.refused.total()

    def grid(self, of_all: str | None) -> str | None:
        """Observed price grid: of the rows, as one damaged price would spoil that of all records."""
        return of_all if self.wrong_tick or self.survey.grid is None else self.survey.grid

    def _chosen(self, records: Records) -> Int64 | None:
        if self.builder.instrument_id is None:
            return None
        return np.flatnonzero(records["instrument_id"] == self.builder.instrument_id)

    def _refusal(
        self,
        records: Records,
        index: int,
        clean: Bool,
        source: str,
        offset: int | None,
    ) -> InputError:
        """What RowBuilder says of record `index` after the clean records before it."""
        builder = deepcopy(self.builder)
        builder.push(records[:index][clean[:index]], source, offset)
        place = None if offset is None else offset + index * records.dtype.itemsize
        try:
            builder.push(records[index : index + 1], source, place)
        except InputError as error:
            return error
        raise AssertionError(f"RowBuilder takes record {index} of {source} @ {offset}")
