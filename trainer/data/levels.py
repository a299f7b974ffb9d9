"""The 10 price levels of records, in integer ticks and lots (DATA.md "The record", traps 6 and 8)."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.config import InstrumentConfig
from trainer.data.book import BookChunk
from trainer.data.dbn import UNDEF_PRICE, Records
from trainer.data.place import Place
from trainer.types import NUM_LEVELS

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

SIDES = ("bid", "ask")
LEVEL_FIELDS = (("px", "i8"), ("sz", "u4"), ("ct", "u4"))
LEVELS_OFFSET = 48  # bytes of a record before its first level
LEVEL = np.dtype([(f"{side}_{name}", kind) for name, kind in LEVEL_FIELDS for side in SIDES])
MAX_INT32 = np.iinfo(np.int32).max
NANOS = 1_000_000_000  # price units of one currency unit


@dataclass(frozen=True)
class Levels:
    """Books of `n` records. A missing level repeats the price of the one above it, with size and count 0."""

    px: dict[str, Int32]  # side -> [n, L] ticks
    sz: dict[str, Int32]  # side -> [n, L] lots
    ct: dict[str, Int32]  # side -> [n, L] orders

    def faults(self, instrument: InstrumentConfig) -> dict[str, Bool]:
        """Per reason, which records `[n] bool` cannot be rows because of their book."""
        bid, ask = self.px["bid"], self.px["ask"]
        missing = (self.sz["bid"][:, 0] == 0) | (self.sz["ask"][:, 0] == 0)
        order = np.zeros(len(bid), np.bool_)
        for wrong in (bid[:, 1:] > bid[:, :-1], ask[:, 1:] < ask[:, :-1]):
            order[_records_with(wrong)] = True
        low, high = (
            _bound_ticks(price, instrument) for price in (instrument.min_price, instrument.max_price)
        )
        insane = np.zeros(len(bid), np.bool_)
        if low is not None:
            insane |= bid[:, 0] < low
        if high is not None:
            insane |= ask[:, 0] > high
        # A locked book (bid = ask) has no spread to cross and counts as crossed.
        crossed = bid[:, 0] >= ask[:, 0]
        return {
            "missing_best": missing,
            "crossed": crossed,
            "levels_out_of_order": order,
            "insane_price": insane,
        }

    def chunk(
        self,
        rows: Int64,
        ts_ns: Int64,
        open_ns: Int64,
        close_ns: Int64,
        segment: Int32,
        signed_volume: Int32,
        trade_count: Int32,
    ) -> BookChunk:
        """The records `rows` `[m]` as a BookChunk; times are per record `[n]`, the rest per row `[m]`."""
        return BookChunk(
            ts_ns=ts_ns[rows],
            bid_px=self.px["bid"].take(rows, axis=0),
            ask_px=self.px["ask"].take(rows, axis=0),
            bid_sz=self.sz["bid"].take(rows, axis=0),
            ask_sz=self.sz["ask"].take(rows, axis=0),
            bid_ct=self.ct["bid"].take(rows, axis=0),
            ask_ct=self.ct["ask"].take(rows, axis=0),
            signed_volume=signed_volume,
            trade_count=trade_count,
            segment=segment,
            session_open_ns=open_ns[rows],
            session_close_ns=close_ns[rows],
        )


def read_levels(records: Records, instrument: InstrumentConfig, place: Place) -> Levels:
    """Levels of `records` `[n] structured`, checked.

    Raises InputError with the file, offset and field of a price off the tick grid or beyond int32 ticks, and
    of a size or count beyond int32.
    """
    table = _level_view(records)
    px: dict[str, Int32] = {}
    sz: dict[str, Int32] = {}
    ct: dict[str, Int32] = {}
    for side in SIDES:
        price, size, count = (np.ascontiguousarray(table[f"{side}_{field}"]) for field in ("px", "sz", "ct"))
        sz[side] = _int32(size, f"{side}_sz", place)
        ct[side] = _int32(count, f"{side}_ct", place)
        undefined = price == UNDEF_PRICE
        np.copyto(price, 0, where=undefined)
        px[side] = _ticks(price, side, instrument, place).astype(np.int32)
        _fill_missing(px[side], sz[side], ct[side], undefined | (size == 0))
    return Levels(px, sz, ct)


def _int32(values: npt.NDArray[np.uint32], field: str, place: Place) -> Int32:
    """The same memory as int32; a value of 2^31 or more is refused."""
    signed: Int32 = values.view(np.int32)
    if values.size and signed.min() < 0:
        _refuse_levels(values > MAX_INT32, values, field, "not plausible", "the file is damaged", place)
    return signed


def _level_view(records: Records) -> Records:
    """The levels of records as `[n, L] structured`, without a copy."""
    layout = np.dtype(
        {
            "names": ["levels"],
            "formats": [(LEVEL, (NUM_LEVELS,))],
            "offsets": [LEVELS_OFFSET],
            "itemsize": records.dtype.itemsize,
        }
    )
    view: Records = np.ascontiguousarray(records).view(layout)["levels"]
    return view


def _ticks(price: Int64, side: str, instrument: InstrumentConfig, place: Place) -> Int64:
    """Prices `[n, L]` of 1e-9 units in ticks; every one must lie on the grid."""
    step = instrument.tick_size_nanos
    ticks = price // step
    what = f"off the grid of {instrument.name}, tick size {instrument.tick_size}"
    do = "check the instrument's tick size; else the file is damaged"
    off_grid = ticks * step != price
    if off_grid.any():
        _refuse_levels(off_grid, price / NANOS, f"{side}_px", what, do, place)
    if ticks.size and (ticks.min() < -MAX_INT32 or ticks.max() > MAX_INT32):
        _refuse_levels(np.abs(ticks) > MAX_INT32, price / NANOS, f"{side}_px", "not plausible", do, place)
    return ticks


def _refuse_levels(
    wrong: Any, values: npt.NDArray[np.generic], field: str, what: str, do: str, place: Place
) -> None:
    """Raises InputError at the first record with a true element in `wrong` `[n, L]`."""
    rows: Bool = wrong.any(axis=1)

    def text(index: int) -> str:
        level = int(np.argmax(wrong[index]))
        return f"{field}_{level:02d} = {values[index, level]} is {what}"

    place.refuse(rows, text, do)


def _fill_missing(ticks: Int32, sizes: Int32, counts: Int32, missing: Bool) -> None:
    """Carries prices into the missing levels below, with size and count 0, in place.

    A missing best becomes 0, and its record is no row. Few records miss a level: only those are touched.
    """
    found = _records_with(missing)
    if not len(found):
        return
    gone, filled = missing[found], ticks[found]
    filled[:, 0][gone[:, 0]] = 0
    for level in range(1, NUM_LEVELS):
        filled[:, level] = np.where(gone[:, level], filled[:, level - 1], filled[:, level])
    ticks[found] = filled
    for values in (sizes, counts):
        values[found] = np.where(gone, 0, values[found])


def _records_with(wrong: Bool) -> Int64:
    """Records `[m]`, sorted, with a true element in `wrong` `[n, levels]`: `any` is slow on a short axis."""
    return np.unique(np.flatnonzero(wrong) // wrong.shape[1])


def _bound_ticks(price: Decimal | None, instrument: InstrumentConfig) -> float | None:
    return None if price is None else float(price / instrument.tick_size)
