"""Progress of an experiment on stderr: at most a line every two seconds, whatever the stages say."""

import io
import re
import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY_S = 2.0
_STEP = re.compile(r"step (\d+)/\d+ (.*) eta=\S+")


class Progress(io.StringIO):
    """The stream that a training writes to, and the listener of preparing and evaluating.

    A training to a point of the curve knows nothing of what follows it, so the step line is shown against
    `total_steps` and without its time left. A warning is shown once, whatever its figures, and also when
    `quiet` drops all else.
    """

    def __init__(
        self,
        name: str,
        total_steps: int,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._name, self._total_steps, self._quiet, self._clock = name, total_steps, quiet, clock
        self._stream = stream or sys.stderr
        self._fold, self._shown_s = "", clock()
        self._warned: set[str] = set()

    def fold(self, index: int) -> None:
        """What follows is of this fold."""
        self._fold = f" fold {index}"

    def write(self, text: str) -> int:
        """A line of the training log."""
        if text.startswith("warning:"):
            if (kind := re.sub(r"\d+", "#", text)) not in self._warned:
                self._warned.add(kind)
                self._say(text.strip())
        elif match := _STEP.match(text):
            self._maybe(f"step {match[1]}/{self._total_steps} {match[2]}")
        return len(text)

    def note(self, what: str, done: int, total: int) -> None:
        """`done` of `total` units of the work at hand."""
        self._maybe(f"{what} {done}/{total}")

    def say(self, text: str) -> None:
        """A line that is due at once."""
        if not self._quiet:
            self._say(text)

    def _maybe(self, text: str) -> None:
        if self._clock() - self._shown_s >= EVERY_S:
            self.say(text)

    def _say(self, text: str) -> None:
        self._stream.write(f"{self._name}{self._fold}: {text}\n")
        self._stream.flush()
        self._shown_s = self._clock()
