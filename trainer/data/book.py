"""A chunk of valid book rows: what readers produce and features consume."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class BookChunk:
    """`n` consecutive valid book rows in time order, struct of arrays.

    A missing level repeats the price of the level above it and has size and count 0, so the last column is
    always the worst visible price. Its consumer knows rows before the chunk only through its own state.
    """

    ts_ns: npt.NDArray[np.int64]  # [n] receive time, UTC ns
    bid_px: npt.NDArray[np.int32]  # [n, L] ticks
    ask_px: npt.NDArray[np.int32]  # [n, L] ticks
    bid_sz: npt.NDArray[np.int32]  # [n, L] lots
    ask_sz: npt.NDArray[np.int32]  # [n, L] lots
    bid_ct: npt.NDArray[np.int32]  # [n, L] orders
    ask_ct: npt.NDArray[np.int32]  # [n, L] orders
    signed_volume: npt.NDArray[np.int32]  # [n] lots bought minus sold by aggressors since the previous row
    trade_count: npt.NDArray[np.int32]  # [n] trades since the previous row, sided or not
    segment: npt.NDArray[np.int32]  # [n] contiguous stretch the row belongs to
    session_open_ns: npt.NDArray[np.int64]  # [n] of the row's session
    session_close_ns: npt.NDArray[np.int64]  # [n] of the row's session

    def __len__(self) -> int:
        return len(self.ts_ns)
