"""Where in a file a faulty record is."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from trainer.errors import InputError


class Place:
    """Maps an index into chosen records back to `source @ byte offset` of the decompressed stream."""

    def __init__(self, source: str, offset: int, record_bytes: int, index: npt.NDArray[np.int64]) -> None:
        self.source, self.offset, self.record_bytes = source, offset, record_bytes
        self.index = index  # [n] positions of the chosen records among the chunk's

    def __call__(self, chosen: int) -> str:
        return f"{self.source} @ {self.offset + int(self.index[chosen]) * self.record_bytes}"

    def refuse(self, wrong: npt.NDArray[np.bool_], what: Callable[[int], str], do: str) -> None:
        """Raises InputError at the first true element of `wrong` `[n]`; `what` maps its index to the text."""
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InputError(what(first), where=self(first), do=do)
