"""Exponential averages over the rows of a segment."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 2.0**-60  # 1 minus this is 1 in float64


@dataclass
class Average:
    """An exponential average over rows without start-up bias (Adam's correction), carried over chunks."""

    rows: float
    carry: Floats = field(default_factory=lambda: np.zeros(1))

    def push(self, values: Floats, counts: Floats) -> Floats:
        """`values [n]` -> averages `[n]`; `counts [n]`: observations up to each row, 0 gives 0."""
        decay = 1.0 - 1.0 / max(self.rows, 1.0)
        from scipy.signal import lfilter  # slow to load; a cache that is reused does without

        sums, self.carry = lfilter([1.0 - decay], [1.0, -decay], values, zi=self.carry)
        if decay ** counts[0] < NEGLIGIBLE:  # counts rise: every weight is exactly 1
            return np.asarray(sums)
        weight = 1.0 - decay ** np.maximum(counts, 0.0)
        return np.asarray(np.where(counts > 0, sums / np.where(weight > 0, weight, 1.0), 0.0))
