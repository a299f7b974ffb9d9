"""A signal that asks a training to save and end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class StopRequest:
    """Set by SIGTERM or SIGINT; looked at between steps."""

    signum: int | None = None

    @contextmanager
    def installed(self) -> Iterator["StopRequest"]:
        """Handles both signals inside the block and restores the old handlers after it."""

        def on_signal(signum: int, frame: FrameType | None) -> None:
            self.signum = signum

        old = {s: signal.signal(s, on_signal) for s in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield self
        finally:
            for signum, handler in old.items():
                signal.signal(signum, handler)
