"""Walk-forward windows of equal session time, and train and test rows kept apart (SYSTEM.md section 2)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.config import Config
from trainer.data.cache import Cache
from trainer.data.decisions import first_row_reaching, least_rows
from trainer.errors import InputError

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """Rows `[start_row, end_row)` of a cache; their times lie in `[start_ns, end_ns)`, UTC ns."""

    start_row: int
    end_row: int
    start_ns: int
    end_ns: int

    @property
    def num_rows(self) -> int:
        """Rows of the window."""
        return self.end_row - self.start_row


def plan_windows(cache: Cache, config: Config) -> list[Window]:
    """`folds` + 1 disjoint, adjoining windows of equal session time that together hold every row.

    Session time runs from the first to the last valid row through the sessions that hold rows; closed hours
    and days without data are left out. Reads times only. Raises InputError that names a window with too few
    rows for one decision.
    """
    count = config.data.folds + 1
    first_ns, end_ns = int(cache.ts_ns[0]), int(cache.ts_ns[-1]) + 1
    sessions = np.unique(cache.segments[["session_open_ns", "session_close_ns"]])
    open_ns = np.maximum(sessions["session_open_ns"], first_ns)
    close_ns = np.minimum(sessions["session_close_ns"], end_ns)
    bounds_ns = [first_ns, *_cut(open_ns, close_ns, count), end_ns]
    bounds_row = np.searchsorted(cache.ts_ns, bounds_ns, side="left").tolist()
    windows = [Window(bounds_row[k], bounds_row[k + 1], bounds_ns[k], bounds_ns[k + 1]) for k in range(count)]
    for index, window in enumerate(windows):
        _require_decision(window, f"window {index} of {count}", config)
    return windows


def train_test(cache: Cache, windows: list[Window], fold: int, config: Config) -> tuple[Window, Window]:
    """Train window of `fold` (window `fold`, or with `expanding` all up to it) and test window, the next one.

    The end of the train window is purged: every label read by a train row lies, with the order latency and
    the embargo after it, before the test window begins. Raises InputError for a fold that does not exist or
    when the purge leaves too few rows.
    """
    if not 0 <= fold < len(windows) - 1:
        raise InputError(f"no fold {fold}: there are folds 0 to {len(windows) - 2}", where="--fold-idx")
    test = windows[fold + 1]
    first = windows[0] if config.data.scheme == "expanding" else windows[fold]
    margin_ns = config.market.latency_ns + int(config.data.embargo_s * 1e9)
    label_end_row = min(
        test.start_row, int(np.searchsorted(cache.ts_ns, test.start_ns - margin_ns, side="left"))
    )
    end_row = first_row_reaching(cache.ts_ns, label_end_row, max(config.data.horizons), config.data)
    # Rows of one instant stay together, so that the window is half-open in time as well as in rows.
    end_ns = int(cache.ts_ns[end_row])
    end_row = int(np.searchsorted(cache.ts_ns, end_ns, side="left"))
    train = Window(
        first.start_row, max(end_row, first.start_row), first.start_ns, max(end_ns, first.start_ns)
    )
    _require_decision(
        train, f"train window of fold {fold}, purged of label horizon, latency and embargo,", config
    )
    return train, test


def _cut(open_ns: Int64, close_ns: Int64, count: int) -> list[int]:
    """The `count` - 1 inner times that cut the intervals `[M]` into parts of equal total length."""
    length = close_ns - open_ns
    before = np.concatenate([[0], np.cumsum(length)])
    cuts = []
    for k in range(1, count):
        target = int(before[-1]) * k // count
        index = int(np.searchsorted(before, target, side="right")) - 1
        cuts.append(int(open_ns[index]) + target - int(before[index]))
    return cuts


def _require_decision(window: Window, name: str, config: Config) -> None:
    """A decision needs a window of rows to look back over and rows after it to be filled and marked on."""
    needed = config.data.window_rows + least_rows(config.data)
    if window.num_rows < needed:
        raise InputError(
            f"{name} has {window.num_rows} rows, fewer than the {needed} of one decision",
            where="data.folds",
            do="give more data, fewer folds or shorter horizons",
        )
