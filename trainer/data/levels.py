"""The 10 price levels of records, in integer ticks and lots (DATA.md "The record", traps 6 and 8)."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.config import InstrumentConfig
from trainer.data.dbn import UNDEF_PRICE, Records
from trainer.data.place import Place
from trainer.types import NUM_LEVELS

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

SIDES = ("bid", "ask")
# The two sides of a number lie side by side in a record: they are copied and taken as one item.
LEVEL = np.dtype([("px", "V16"), ("sz", "V8"), ("ct", "V8")])
LEVELS_OFFSET = 48  # bytes of a record before its first level
NANOS = 1_000_000_000  # price units of one currency unit


@dataclass(frozen=True)
class Levels:
    """Books of `n` records, level by level, since numpy is fast along a long axis; the last axis is SIDES.

    A missing level repeats the price of the one above it, with size and count 0.
    """

    px: Int32  # [L, n, 2] ticks
    sz: Int32  # [L, n, 2] lots
    ct: Int32  # [L, n, 2] orders

    def faults(self, instrument: InstrumentConfig) -> dict[str, Bool]:
        """Per reason, which records `[n] bool` cannot be rows because of their book."""
        bid, ask = self.px[0, :, 0], self.px[0, :, 1]
        low, high = (
            _bound_ticks(price, instrument) for price in (instrument.min_price, instrument.max_price)
        )
        insane = np.zeros(len(bid), np.bool_)
        if low is not None:
            insane |= bid < low
        if high is not None:
            insane |= ask > high
        rises, falls = self.px[1:] > self.px[:-1], self.px[1:] < self.px[:-1]
        return {
            "missing_best": _either(self.sz[0] == 0),
            # A locked book (bid = ask) has no spread to cross and counts as crossed.
            "crossed": bid >= ask,
            "levels_out_of_order": _any_level(rises)[:, 0] | _any_level(falls)[:, 1],
            "insane_price": insane,
        }

    def of_rows(self, rows: Int64) -> dict[str, Int32]:
        """The records `rows` `[m]` as columns of a BookChunk: `[m, L]` each, views of level-major memory."""
        columns: dict[str, Int32] = {}
        for name, values in vars(self).items():
            pairs = values.view(np.int64)[:, :, 0].take(rows, axis=1)
            both = pairs.view(np.int32).reshape(NUM_LEVELS, len(rows), 2)
            columns |= {f"{side}_{name}": both[:, :, i].T for i, side in enumerate(SIDES)}
        return columns


def read_levels(records: Records, instrument: InstrumentConfig, place: Place) -> Levels:
    """Levels of `records` `[n] structured`, checked.

    Raises InputError with the file, offset and field of a price off the tick grid or beyond int32 ticks, and
    of a size or count beyond int32.
    """
    price = _copied(records, "px", np.int64)
    sz, ct = (_copied(records, field, np.int32) for field in ("sz", "ct"))
    px, exact = _ticks(price, instrument)
    if not len(records):
        return Levels(px, sz, ct)
    least = sz.min()
    if least < 0 or ct.min() < 0:
        for field, values in (("sz", sz), ("ct", ct)):
            do = "the file is damaged"
            _refuse_levels(values < 0, values.view(np.uint32), field, "not plausible", do, place)
    # Both at once in the usual case: every price is on the grid, and no level is missing.
    if least == 0 or not exact.all():
        undefined = price == UNDEF_PRICE
        _require_exact(exact | undefined, price, instrument, place)
        _fill_missing(px, sz, ct, undefined | (sz == 0))
    return Levels(px, sz, ct)


def _copied(records: Records, field: str, kind: Any) -> npt.NDArray[Any]:
    """One field of LEVEL of all records, level-major: `[L, n, 2]` of `kind`."""
    layout = np.dtype(
        {
            "names": ["levels"],
            "formats": [(LEVEL, (NUM_LEVELS,))],
            "offsets": [LEVELS_OFFSET],
            "itemsize": records.dtype.itemsize,
        }
    )
    view = np.ascontiguousarray(records).view(layout)["levels"][field]
    copied: npt.NDArray[Any] = np.ascontiguousarray(view.T).view(kind)
    return copied.reshape(NUM_LEVELS, len(records), 2)


def _any_level(of_levels: Bool) -> Bool:
    """Sides `[n, 2]` of `[L, n, 2]` with a true level."""
    return np.asarray(of_levels.any(axis=0))


def _either(of_sides: Bool) -> Bool:
    """Records `[n]` of `[n, 2]` with a true side: `any` is slow along a short axis."""
    either: Bool = of_sides[:, 0] | of_sides[:, 1]
    return either


def _ticks(price: Int64, instrument: InstrumentConfig) -> tuple[Int32, Bool]:
    """Prices `[L, n, 2]` of 1e-9 units in ticks, and which of them are exactly that many ticks.

    Ticks beyond int32 wrap, and then their product is another price: a step of 2^32 or more keeps quotients
    within int32, a smaller one keeps the product of any int32 within int64.
    """
    step = instrument.tick_size_nanos
    whole = price // step
    ticks = whole.astype(np.int32)
    return ticks, np.multiply(ticks, step, out=whole, dtype=np.int64) == price


def _require_exact(exact: Bool, price: Int64, instrument: InstrumentConfig, place: Place) -> None:
    """Raises InputError unless all of `exact` `[L, n, 2]`; says whether the grid or the range is left."""
    if exact.all():
        return
    do = "check the instrument's tick size; else the file is damaged"
    off_grid = ~exact & (price % instrument.tick_size_nanos != 0)
    if off_grid.any():
        what = f"off the grid of {instrument.name}, tick size {instrument.tick_size}"
        _refuse_levels(off_grid, price / NANOS, "px", what, do, place)
    _refuse_levels(~exact, price / NANOS, "px", "not plausible", do, place)


def _refuse_levels(
    wrong: Bool, values: npt.NDArray[np.generic], field: str, what: str, do: str, place: Place
) -> None:
    """Raises InputError at the first record with a true element in `wrong` `[L, n, 2]`."""

    def text(index: int) -> str:
        side, level = divmod(int(np.argmax(wrong[:, index].T)), NUM_LEVELS)
        return f"{SIDES[side]}_{field}_{level:02d} = {values[level, index, side]} is {what}"

    place.refuse(_either(_any_level(wrong)), text, do)


def _fill_missing(px: Int32, sz: Int32, ct: Int32, missing: Bool) -> None:
    """Carries prices into the `missing` levels below, with size and count 0, in place; all `[L, n, 2]`.

    A missing best becomes 0, and its record is no row. Few records miss a level: only those are touched.
    """
    found = np.flatnonzero(_either(_any_level(missing)))
    gone, filled = missing[:, found], px[:, found]
    filled[0][gone[0]] = 0
    for level in range(1, NUM_LEVELS):
        np.copyto(filled[level], filled[level - 1], where=gone[level])
    px[:, found] = filled
    for values in (sz, ct):
        values[:, found] = np.where(gone, 0, values[:, found])


def _bound_ticks(price: Decimal | None, instrument: InstrumentConfig) -> float | None:
    return None if price is None else float(price / instrument.tick_size)
