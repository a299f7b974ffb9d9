"""`inspect` on the command line: the report on stdout as text or JSON, progress on a terminal's stderr."""

import json
import os
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from trainer.config import Config
from trainer.data.inspection.inspector import inspect_data
from trainer.data.inspection.report import Report
from trainer.data.inspection.text import print_report
from trainer.errors import ExitCode
from trainer.storage.local import local_copy

QUIET_S = 2.0  # shorter inspections show no bar


def inspect_command(
    config: Config, location: Path | str, cache_root: Path, as_json: bool, stdout: TextIO, stderr: TextIO
) -> int:
    """Inspects a path or an s3:// URL, downloaded below `cache_root` as `prepare` would.

    Returns the exit code: 0 where `prepare` takes the data, 2 where not, 75 when interrupted. Raises
    InputError where there is nothing to report.
    """
    try:
        with _Bar(stderr) as bar, local_copy(location, cache_root, bar.advance) as source:
            report = inspect_data(config, source, lambda done, total: bar.advance("read", done, total))
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    _write(replace(report, path=str(location)), as_json, stdout)
    return int(report.exit_code)


def _write(report: Report, as_json: bool, stdout: TextIO) -> None:
    try:
        if as_json:
            stdout.write(json.dumps(report.as_json(), indent=1) + "\n")
        else:
            print_report(report, Console(file=stdout, highlight=False))
        stdout.flush()
    except BrokenPipeError:
        # The reader (head) has what it wanted; without this the interpreter's last flush fails.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())


class _Bar(AbstractContextManager["_Bar"]):
    """Bytes done, on a terminal and only when it takes a while; it leaves nothing behind."""

    def __init__(self, stream: TextIO) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
        self._progress = Progress(*columns, console=Console(file=stream), transient=True)
        self._task = self._progress.add_task("")
        self._terminal, self._shown = stream.isatty(), False
        self._begin_s = time.monotonic()

    def advance(self, what: str, done: int, total: int) -> None:
        """Bytes of the files as stored that were downloaded or read."""
        if self._terminal and not self._shown and time.monotonic() - self._begin_s > QUIET_S:
            self._progress.start()
            self._shown = True
        self._progress.update(self._task, description=what, completed=done, total=total)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._shown:
            self._progress.stop()
