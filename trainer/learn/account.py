"""The joined account of one fold's evaluation: decisions and trades in time order (SYSTEM.md section 10).

Money is in ticks times lots ("ticks" for short); times are UTC ns. These records hold what was executed on
the test window; nothing here reads the market.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trainer.errors import InputError

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

_COLUMN_TYPES: dict[Any, Any] = {
    I8: np.int8,
    I32: np.int32,
    I64: np.int64,
    F32: np.float32,
    F64: np.float64,
    Bool: np.bool_,
}


@dataclass(frozen=True)
class _Columns:
    """Equally long 1-d columns; a column given in another dtype is converted. ValueError for other shapes."""

    def __post_init__(self) -> None:
        lengths = {}
        for column in fields(self):
            value = getattr(self, column.name)
            if value is None:
                continue
            array = np.asarray(value, dtype=_dtype(column.type))
            object.__setattr__(self, column.name, array)
            lengths[column.name] = array.shape
        if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
            raise ValueError(f"columns must be 1-d and equally long, not {lengths}")

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def write_parquet(self, path: Path) -> None:
        """Write the columns under their names; InputError if the path cannot be written."""
        import pyarrow as pa  # slow to load; the gate reads no account
        import pyarrow.parquet as pq

        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        table = pa.table({name: value for name, value in columns.items() if value is not None})
        try:
            pq.write_table(table, path, compression="zstd")
        except OSError as error:
            raise InputError(f"cannot write: {error}", where=str(path)) from error

    @classmethod
    def read_parquet(cls, path: Path) -> Self:
        """Read what `write_parquet` wrote; InputError if it is no such file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
            return cls(**{name: table.column(name).to_numpy() for name in table.column_names})
        except (OSError, pa.ArrowException, TypeError) as error:
            raise InputError(f"cannot read: {error}", where=str(path)) from error


@dataclass(frozen=True)
class Decisions(_Columns):
    """The decisions of a joined account in time order, all `[T]`.

    ts_ns: time of the decision row. pnl_ticks: change of marked equity since the decision before, net of all
    costs, marked at the prices that a close would get. ordered: whether it sent an order. action: the
    executed action. num_feasible: feasible actions. entropy: of the policy over them, nats. in_market:
    whether a position was held. tile: index of the evaluation tile. session: trading-session index; None =
    the UTC date of `ts_ns`.
    """

    ts_ns: I64
    pnl_ticks: F64
    ordered: Bool
    action: I8
    num_feasible: I8
    entropy: F32
    in_market: Bool
    tile: I32
    session: I32 | None = None


@dataclass(frozen=True)
class Trades(_Columns):
    """Closed trades in time order, all `[M]`; a trade runs from flat to flat or to the reversal.

    side: +1 long, -1 short. lots: the largest position. gross_ticks: at the fill prices, before fees.
    fee_ticks: all fees, >= 0. pnl_ticks = gross_ticks - fee_ticks. age: decisions held. forced: closed by an
    end of session, tile, episode or gap. r: pnl over initial risk. entry_ticks, exit_ticks: average fill
    prices. spread_ticks: distance of the fills from the mid, >= 0, already inside gross_ticks; None = not
    measured.
    """

    entry_ns: I64
    exit_ns: I64
    side: I8
    lots: I32
    pnl_ticks: F64
    fee_ticks: F64
    gross_ticks: F64
    age: I32
    forced: Bool
    r: F64
    entry_ticks: F64
    exit_ticks: F64
    spread_ticks: F64 | None = None


def _dtype(annotation: Any) -> Any:
    # `F64 | None` is a union whose first part is the array type.
    if annotation in _COLUMN_TYPES:
        return _COLUMN_TYPES[annotation]
    return _COLUMN_TYPES[annotation.__args__[0]]
