"""Where in a file a faulty record is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import InputError


class Place:
    """Maps an index into chosen records back to `source @ byte offset` of the decompressed stream.

    Without an offset the records are of a text file, whose line is their `sequence`: then to `source:line`.
    """

    def __init__(
        self, source: str, offset: int | None, records: npt.NDArray[Any], index: npt.NDArray[np.int64]
    ) -> None:
        self.source, self.offset, self.records = source, offset, records
        self.index = index  # [n] positions of the chosen records among `records`

    def __call__(self, chosen: int) -> str:
        position = int(self.index[chosen])
        if self.offset is None:
            return f"{self.source}:{self.records['sequence'][position]}"
        return f"{self.source} @ {self.offset + position * self.records.dtype.itemsize}"

    def refuse(self, wrong: npt.NDArray[np.bool_], what: Callable[[int], str], do: str) -> None:
        """Raises InputError at the first true element of `wrong` `[n]`; `what` maps its index to the text."""
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InputError(what(first), where=self(first), do=do)
