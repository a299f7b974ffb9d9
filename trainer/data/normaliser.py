"""The feature normaliser: fitted on the train window, saved with the model (design page SYSTEM.md 1)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.errors import InputError

Floats = npt.NDArray[np.float32]

CLIP = 10.0  # standard deviations; a normalised feature beyond them is an outlier, not information
CHUNK_ROWS = 1 << 18  # rows summed at once: the cache is memory-mapped and may not fit in memory
CONSTANT_SD = 1e-6  # relative to the mean: below it a column is constant up to float32 rounding
FIELDS = ("mean", "sd", "move_sd", "elapsed_scale_s")


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Statistics of the train window's rows, and nothing else."""

    mean: Floats  # [F]
    sd: Floats  # [F]; 0 marks a constant column
    move_sd: Floats  # [H] ticks, root mean square move about its mean
    elapsed_scale_s: float  # mean seconds between rows of a segment: the unit of elapsed time

    @classmethod
    def fit(
        cls,
        features: Floats,
        ts_ns: npt.NDArray[np.int64],
        segment: npt.NDArray[np.int32],
        moves: Floats,
        valid: npt.NDArray[np.bool_],
        start: int,
        end: int,
    ) -> "Normaliser":
        """Reads rows `start..end-1` only of `features [R, F]`, `ts_ns, segment [R]`, `moves, valid [R, H]`.

        `moves` and `valid` are `Labels.move_ticks` and `Labels.valid` of the train window, so no label
        reaches past it. Raises InputError where the window has fewer than two rows or a horizon no label.
        """
        if end - start < 2:
            raise InputError(
                f"the train window has {max(end - start, 0)} rows",
                where="data",
                do="use more data or fewer folds",
            )
        known = valid[start:end]
        if not known.any(axis=0).all():
            raise InputError(
                "the train window's segments are shorter than the largest horizon",
                where="data.horizons", do="use shorter horizons, more data or fewer folds",
            )  # fmt: skip
        mean, sd = _moments(features, start, end)
        columns = zip(moves[start:end].T, known.T, strict=True)
        move_sd = np.array([column[keep].std(dtype=np.float64) for column, keep in columns], dtype=np.float32)
        return cls(mean, sd, move_sd, _elapsed_scale(ts_ns[start:end], segment[start:end]))

    def apply(self, features: Floats) -> Floats:
        """Normalised `[..., F] float32` in [-10, 10]; constant columns become 0. Each row alone."""
        inverse = np.divide(1.0, self.sd, out=np.zeros_like(self.sd), where=self.sd > 0)
        scaled = (features - self.mean) * inverse
        return np.asarray(np.clip(scaled, -CLIP, CLIP), dtype=np.float32)

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The fields as arrays, for a checkpoint; `elapsed_scale_s` as `[] float64`."""
        return {name: np.asarray(getattr(self, name)) for name in FIELDS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> "Normaliser":
        """The inverse of `to_arrays`. Raises InputError where a field is missing."""
        missing = [name for name in FIELDS if name not in arrays]
        if missing:
            raise InputError(
                f"the saved normaliser lacks {', '.join(missing)}", do="use an intact checkpoint"
            )
        mean, sd, move_sd = (np.asarray(arrays[name], dtype=np.float32) for name in FIELDS[:3])
        return cls(mean, sd, move_sd, float(np.asarray(arrays["elapsed_scale_s"], dtype=np.float64)))


def _moments(features: Floats, start: int, end: int) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, two passes in float64, chunk by chunk."""
    chunks = [slice(first, min(first + CHUNK_ROWS, end)) for first in range(start, end, CHUNK_ROWS)]
    num_rows = end - start
    mean = sum(features[rows].sum(axis=0, dtype=np.float64) for rows in chunks) / num_rows
    squares = sum(np.square(features[rows] - mean).sum(axis=0) for rows in chunks)
    sd = np.sqrt(squares / num_rows)
    sd = np.where(sd > CONSTANT_SD * np.maximum(np.abs(mean), 1.0), sd, 0.0)
    return np.asarray(mean, dtype=np.float32), sd.astype(np.float32)


def _elapsed_scale(ts_ns: npt.NDArray[np.int64], segment: npt.NDArray[np.int32]) -> float:
    """Mean seconds between consecutive rows of one segment; 1 where every time is equal."""
    gaps_s = np.diff(ts_ns)[segment[1:] == segment[:-1]] * 1e-9
    scale = float(gaps_s.mean()) if len(gaps_s) else 0.0
    return scale if scale > 0 else 1.0
