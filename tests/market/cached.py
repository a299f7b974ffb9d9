"""Markets out of a feature cache: a tape, and the oracle's history of the same rows."""

from dataclasses import replace

import numpy as np

from tests.market.recorded import Recorded, rules_of
from tests.oracles.history import History, Segment
from trainer.config import Config
from trainer.data.cache import Cache
from trainer.data.normaliser import Normaliser
from trainer.data.windows import Window
from trainer.market import build_tape
from trainer.market.tape import fit_normaliser, window_labels

Levels = list[list[tuple[int, int]]]


def fitted(cache: Cache, window: Window, config: Config) -> Normaliser:
    """The normaliser of a train window, as training fits it."""
    return fit_normaliser(cache, window, window_labels(cache, window, config), config)


def window_of(cache: Cache, first: int, end: int) -> Window:
    """Rows `[first, end)` as a window that ends with the next row's time."""
    close = int(cache.ts_ns[end]) if end < cache.num_rows else int(cache.ts_ns[-1]) + 1
    return Window(first, end, int(cache.ts_ns[first]), close)


def levels(px: np.ndarray, sz: np.ndarray) -> Levels:
    """(price, size) pairs per row, plain integers."""
    return [list(zip(p, s, strict=True)) for p, s in zip(px.tolist(), sz.tolist(), strict=True)]


def from_cache(
    cache: Cache, window: Window, config: Config, normaliser: Normaliser | None = None, **instrument: object
) -> Recorded:
    """The window's market in both forms, with fields of the instrument replaced."""
    priced = replace(cache, instrument=cache.instrument.model_copy(update=instrument))
    tape = build_tape(priced, window, normaliser or fitted(priced, window, config), config, "cpu")
    first = max(window.start_row - config.data.window_rows, 0)
    rows = slice(first, window.end_row)
    history = History(
        cache.ts_ns[rows].tolist(),
        levels(cache.bid_px[rows], cache.bid_sz[rows]),
        levels(cache.ask_px[rows], cache.ask_sz[rows]),
        segments_of(cache, rows),
        window.end_ns,
        rules_of(config, priced.instrument),
    )
    return Recorded(tape, history, config, priced.instrument)


def segments_of(cache: Cache, rows: slice) -> list[Segment]:
    """The cache's segments cut to `rows` and counted from its first."""
    found = []
    for first, end, session, _, close_ns, _, ends_in_gap in cache.segments.tolist():
        low, high = max(first, rows.start), min(end, rows.stop)
        if low < high:
            found.append(Segment(low - rows.start, high - rows.start, session, close_ns, ends_in_gap))
    return found
