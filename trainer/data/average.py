"""Exponential averages over the rows of a segment."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NEGLIGIBLE = 2.0**-60  # 1 minus this is 1 in float64


class Averages:
    """`k` exponential averages over rows without start-up bias (Adam's correction), carried over chunks."""

    def __init__(self, rows: float, k: int) -> None:
        self._decay = 1.0 - 1.0 / max(rows, 1.0)
        self._carry = np.zeros((k, 1))

    def push(self, values: Floats, counts: list[Floats]) -> Floats:
        """`values [k, n]` -> averages `[k, n]`; each of `counts [n]`: observations up to a row, 0 gives 0."""
        from scipy.signal import lfilter  # slow to load; a cache that is reused does without

        averages, self._carry = lfilter([1.0 - self._decay], [1.0, -self._decay], values, zi=self._carry)
        for average, count in zip(averages, counts, strict=True):
            if self._decay ** count[0] >= NEGLIGIBLE:  # else, since counts rise, every weight is exactly 1
                weight = 1.0 - self._decay ** np.maximum(count, 0.0)
                average[:] = np.where(count > 0, average / np.where(weight > 0, weight, 1.0), 0.0)
        return np.asarray(averages)
