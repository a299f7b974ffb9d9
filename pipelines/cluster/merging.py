"""Lines of pods' logs by their times: each exactly once across broken streams, and merged.

A server that is asked for the lines since a time answers from the whole second on (the API server cuts the
fraction off), so an answer begins with lines that were read before. They are recognised by their place in
the log, not by their content: equal lines of one nanosecond are counted right.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

SECOND_NS = 1_000_000_000
# stdout and stderr are stamped by two writers: a line may come behind one with a slightly later time.
OVERLAP_NS = 2 * SECOND_NS
# The clock that stamps lines and the one that dates nodes differ, and nodes are dated in whole seconds.
CLOCK_SKEW_NS = 5 * SECOND_NS


class LogLine(NamedTuple):
    """ns: Unix time in nanoseconds; time: the same as the server wrote it."""

    ns: int
    time: str
    text: str


def log_line(raw: str) -> LogLine | None:
    """A line behind its RFC 3339 time and a blank; None for what is no line of a container.

    The kubelet mixes words of its own into the stream (`unable to retrieve container logs for ...`).
    """
    time, _, text = raw.partition(" ")
    ns = time_ns(time)
    return None if ns is None else LogLine(ns, time, text.rstrip("\r"))


def time_ns(time: str) -> int | None:
    """Unix time in nanoseconds, exactly, of an RFC 3339 time; None for other text."""
    clock, dot, rest = time.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789")) if dot else 0
    fraction, zone = (rest[:digits], rest[digits:]) if dot else ("", "")
    try:
        seconds = datetime.fromisoformat(clock + zone)
    except ValueError:
        return None
    if seconds.tzinfo is None or (dot and not digits):
        return None
    whole = int(seconds.timestamp())
    return whole * SECOND_NS + int(fraction[:9].ljust(9, "0"))


class Seen:
    """What was read of one log. Memory: a number a line of the last three seconds.

    since_ns: read only lines from then on. `gap` is set when lines may be missing: the server no longer had
    the last ones that were read (it keeps a log's newest file only, and starts a new one at a certain size).
    """

    def __init__(self, since_ns: int = 0) -> None:
        self.gap = False
        self._from_ns = since_ns // SECOND_NS * SECOND_NS
        self._recent: deque[tuple[int, int]] = deque()

    @property
    def since_time(self) -> str | None:
        """The time to ask the server for, a whole second; None for the whole log."""
        if self._from_ns <= 0:
            return None
        return datetime.fromtimestamp(self._from_ns // SECOND_NS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def new(self, answer: Iterable[LogLine]) -> Iterator[LogLine]:
        """Lines of an answer since `since_time` that were not read before, in the log's order.

        The answer may break off anywhere (its exception passes through); the next one goes on behind it.
        """
        expected, from_ns = tuple(self._recent), self._from_ns
        lines = (line for line in answer if line.ns >= from_ns)
        for line in _behind(expected, lines, self):
            self._note(line)
            yield line

    def _note(self, line: LogLine) -> None:
        if line.ns >= self._from_ns:
            self._recent.append((line.ns, hash(line.text)))
        from_ns = (line.ns - OVERLAP_NS) // SECOND_NS * SECOND_NS
        if from_ns > self._from_ns:
            self._from_ns = from_ns
            self._recent = deque(key for key in self._recent if key[0] >= from_ns)


def _behind(expected: Sequence[tuple[int, int]], lines: Iterable[LogLine], seen: Seen) -> Iterator[LogLine]:
    """Lines of an answer behind those that were read before.

    As long as the server has the whole log, the answer begins with all of `expected`. When it began a new
    file, with the end of `expected`, or with nothing of it.
    """
    offset, held, iterator = 0, list[LogLine](), iter(lines)
    for line in iterator:
        if offset + len(held) == len(expected):
            yield line
            break
        held.append(line)
        if _key(line) != expected[offset + len(held) - 1]:
            offset = _next_offset(expected, offset, [_key(item) for item in held])
            seen.gap |= offset == len(expected) > 0
            new = held[len(expected) - offset :]
            if new:
                yield from new
                break
    yield from iterator


def _next_offset(expected: Sequence[tuple[int, int]], offset: int, got: Sequence[tuple[int, int]]) -> int:
    """The smallest larger offset at which `expected` agrees with what came; its length agrees with all."""
    return next(
        start
        for start in range(offset + 1, len(expected) + 1)
        if all(a == b for a, b in zip(expected[start:], got, strict=False))
    )


def _key(line: LogLine) -> tuple[int, int]:
    return line.ns, hash(line.text)


def merged(sources: Sequence[tuple[str, int, Iterator[LogLine]]]) -> Iterator[tuple[str, LogLine]]:
    """Lines of several logs by time, each log in its own order.

    sources: label, Unix time in ns of the beginning, lines. A log is begun only when the merge comes to its
    time, so that few are open at once. Equal times: in the order of the sources.
    """
    waiting = deque(sorted(enumerate(sources), key=lambda item: item[1][1]))
    heap: list[tuple[int, int, LogLine]] = []

    def advance(order: int, floor_ns: int) -> None:
        line = next(sources[order][2], None)
        if line is not None:
            # A line behind one with a later time must not overtake it.
            heapq.heappush(heap, (max(line.ns, floor_ns), order, line))

    while waiting or heap:
        while waiting and (not heap or waiting[0][1][1] - CLOCK_SKEW_NS <= heap[0][0]):
            advance(waiting.popleft()[0], 0)
        if heap:
            at_ns, order, line = heapq.heappop(heap)
            yield sources[order][0], line
            advance(order, at_ns)
