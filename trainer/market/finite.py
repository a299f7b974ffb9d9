"""Refusing damaged features before they reach a tape."""

from typing import TYPE_CHECKING

import numpy as np

from trainer.config import Config
from trainer.errors import InputError
from trainer.market.tape import tape_info

if TYPE_CHECKING:
    from trainer.data.cache import Cache
    from trainer.data.windows import Window

_CHUNK_ROWS = 1 << 18  # rows looked at once: the cache is memory-mapped and may not fit in memory


def require_finite(cache: "Cache", window: "Window", config: Config) -> None:
    """Raises InputError where a feature that `window`'s tape would hold is not finite.

    One NaN makes its column's mean NaN, and so every observation of the window; every update would then be
    skipped, and the run would end with the weights it began with. Reads the rows of the tape alone.
    """
    first = tape_info(window, config).first_cache_row
    for start in range(first, window.end_row, _CHUNK_ROWS):
        bad = ~np.isfinite(cache.features[start : min(start + _CHUNK_ROWS, window.end_row)])
        if bad.any():
            from trainer.data.features import FEATURE_NAMES

            row, column = (int(index) for index in np.argwhere(bad)[0])
            raise InputError(
                f"{FEATURE_NAMES[column]} of row {start + row} is not finite",
                where=str(cache.path / "features.npy"), do="remove this cache directory and prepare again",
            )  # fmt: skip
