"""What a person sees of running stages: a live table on a terminal, plain lines elsewhere."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

STEP = re.compile(r"^step (\d+)/(\d+)\b")
PROGRESS = re.compile(r"^progress (\d+)/(\d+)\b")
FIELD = re.compile(r"(\w+)=(\S+)")
SHOWN_FIELDS = ("wr", "sps", "eta")
# An evaluation has four pieces of work: each tenth of each would bury everything else in a short run.
QUIET_S = 10.0


@dataclass(frozen=True)
class Progress:
    """Done and total (steps of train, units of prepare) and the shown fields of a log line."""

    done: int
    total: int
    fields: dict[str, str] = field(default_factory=dict)


def parse_progress(line: str) -> Progress | None:
    """Progress of a trainer's log line `step 1200/25000 wr=0.561 ...` or `progress N/M`; None for others."""
    match = STEP.match(line) or PROGRESS.match(line)
    if match is None:
        return None
    found = dict(FIELD.findall(line))
    shown = {name: found[name] for name in SHOWN_FIELDS if name in found}
    return Progress(int(match[1]), int(match[2]), shown)


class Display(Protocol):
    """Where the runner reports; `label` names a stage (`fold0 train`)."""

    def waiting(self, label: str, why: str) -> None:
        """The stage cannot run yet: a queue, a lock, a pause between attempts."""

    def started(self, label: str, ago_s: float = 0.0) -> None:
        """A first or further attempt began so many seconds ago."""

    def line(self, label: str, text: str) -> None:
        """The stage wrote a line."""

    def ended(self, label: str, status: str, took_s: float | None = None) -> None:
        """The stage has its last status: `done`, `failed (exit 2): ...`, `omitted: ...`.

        took_s: for a stage that began before anyone looked.
        """

    def note(self, label: str, text: str) -> None:
        """The runner itself has something to say about the stage."""

    def close(self) -> None:
        """Nothing follows."""


class PlainDisplay:
    """One prefixed line a message: `fold0 train | step 100/1500 wr=0.561`.

    Of `progress N/M` the first line of each piece of work, then tenths, QUIET_S apart at least.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self._clock = stream, clock
        self.tenths: dict[tuple[str, str], int] = {}
        self._told_s: dict[str, float] = {}

    def waiting(self, label: str, why: str) -> None:
        self._write(label, f"waiting: {why}")

    def started(self, label: str, ago_s: float = 0.0) -> None:
        self._write(label, f"started {ago_s:.0f} s ago" if ago_s >= 1 else "started")

    def line(self, label: str, text: str) -> None:
        progress = None if STEP.match(text) else parse_progress(text)
        if progress is None or self._is_news(label, PROGRESS.sub("", text), progress):
            self._write(label, text)

    def _is_news(self, label: str, work: str, progress: Progress) -> bool:
        tenth, now_s = 10 * progress.done // max(1, progress.total), self._clock()
        known = self.tenths.get((label, work))
        if known == tenth or (known is not None and now_s - self._told_s[label] < QUIET_S):
            return False
        self.tenths[label, work], self._told_s[label] = tenth, now_s
        return True

    def ended(self, label: str, status: str, took_s: float | None = None) -> None:
        self._write(label, status)

    def note(self, label: str, text: str) -> None:
        self._write(label, text)

    def close(self) -> None:
        self.stream.flush()

    def _write(self, label: str, text: str) -> None:
        self.stream.write(f"{label} | {text}\n")
        self.stream.flush()


@dataclass
class _Row:
    began_s: float
    status: str = "running"
    progress: Progress | None = None
    ended_s: float | None = None
    waits_for: str = ""


class LiveDisplay:
    """A table on the terminal, one row a stage, refreshed in place; failures stay readable above it."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.rows: dict[str, _Row] = {}
        self.live = Live(console=console, refresh_per_second=4, get_renderable=self._table)
        self.live.start()

    def waiting(self, label: str, why: str) -> None:
        row = self.rows.setdefault(label, _Row(began_s=time.monotonic()))
        row.status, row.waits_for, row.ended_s = "waiting", why, None

    def started(self, label: str, ago_s: float = 0.0) -> None:
        self.rows[label] = _Row(began_s=time.monotonic() - ago_s)

    def line(self, label: str, text: str) -> None:
        progress = parse_progress(text)
        if progress is not None and label in self.rows:
            self.rows[label].progress = progress

    def ended(self, label: str, status: str, took_s: float | None = None) -> None:
        row = self.rows.setdefault(label, _Row(began_s=time.monotonic()))
        row.status, row.ended_s = status.partition(":")[0], time.monotonic()
        if took_s is not None:
            row.began_s = row.ended_s - took_s
        if row.status != "done":
            self.note(label, status)

    def note(self, label: str, text: str) -> None:
        self.console.print(Text(f"{label} | {text}"))

    def close(self) -> None:
        self.live.stop()

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(5):
            table.add_column(no_wrap=True)
        table.add_column()  # alone may shrink: what a stage waits for can be long
        for label, row in self.rows.items():
            seconds = (row.ended_s or time.monotonic()) - row.began_s
            waits = Text(row.waits_for if row.status == "waiting" else "", no_wrap=True, overflow="ellipsis")
            table.add_row(label, row.status, *progress_cells(row.progress), f"{seconds:.0f} s", waits)
        return table


def progress_cells(progress: Progress | None) -> tuple[str, str]:
    """`1200/25000 (4 %)` and `wr=0.561 ...`; empty texts for None."""
    if progress is None:
        return "", ""
    percent = 100 * progress.done // max(1, progress.total)
    return f"{progress.done}/{progress.total} ({percent} %)", " ".join(
        f"{k}={v}" for k, v in progress.fields.items()
    )


def display_for(stdout: TextIO, stderr: TextIO) -> Display:
    """Live where both streams are terminals, else plain lines on stderr; stdout keeps the result alone."""
    if stdout.isatty() and stderr.isatty():
        return LiveDisplay(Console(file=stderr))
    return PlainDisplay(stderr)
