"""The tables of `walkforward status`, for terminals and for files: plain text, no box."""

from collections.abc import Sequence
from datetime import datetime
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.cluster.estimate import duration
from pipelines.cluster.stages import WorkflowRun
from pipelines.cluster.status import StageStatus, Status, failures_of, gpu_text
from pipelines.cluster.verdict import verdict_of
from pipelines.progress import progress_cells

STYLES = {"running": "cyan", "retrying": "yellow", "done": "green", "failed": "red", "waiting": "dim"}
# A file or a pipe has no width; a table that fits none would be cut.
WIDE = 200


def recent_table(runs: Sequence[WorkflowRun], now: datetime, namespace: str, stdout: TextIO) -> None:
    """Writes one row a workflow, or a line that says how to begin."""
    if not runs:
        stdout.write(f"no workflows in namespace {namespace}; start one with walkforward submit\n")
        return
    table = _table("NAME", "RUN ID", "PHASE", "AGE", "FOLDS", "VERDICT")
    for run in runs:
        verdict = verdict_of(run)
        age = "" if run.created is None else duration((now - run.created).total_seconds())
        folds = f"{run.num_folds_done}/{len(run.folds)}" if run.folds else ""
        table.add_row(run.name, run.run_id, run.phase, age, folds, verdict.word if verdict else "")
    _print(stdout, table)


def status_table(status: Status, stdout: TextIO) -> None:
    """Writes the workflow's state, a row a stage, what went wrong, the GPU time and the verdict."""
    run = status.run
    began = "" if run.started is None else f", began {run.started:%Y-%m-%d %H:%M} UTC"
    lines = [f"{run.name}: {run.phase}{began}, run id {run.run_id or 'not known yet'}"]
    if run.run_dir:
        lines.append(f"run directory: {run.run_dir}")
    table = _table("STAGE", "STATE", "ATTEMPT", "PROGRESS", "", "TIME", "REASON")
    for stage in status.stages:
        table.add_row(*_row(stage, status.now))
    _print(stdout, *lines, table)
    if failures := failures_of(run.stages):
        _print(stdout, "attempts that went wrong:", *(f"  {line}" for line in failures))
    if run.gpus:
        _print(stdout, gpu_text(status.gpu))
    if verdict := verdict_of(run):
        _print(stdout, f"verdict: {verdict.line}")


def _row(stage: StageStatus, now: datetime) -> list[str | Text]:
    run, seconds = stage.run, stage.run.seconds(now)
    # What failed attempts said stands below the table.
    reason = run.error if run.failed else run.reason
    return [
        run.label,
        Text(run.state, STYLES.get(run.state, "")),
        str(run.last.number) if run.last else "",
        *progress_cells(stage.progress),
        "" if seconds is None else duration(seconds),
        reason,
    ]


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _print(stdout: TextIO, *parts: str | Table) -> None:
    console = Console(file=stdout, width=None if stdout.isatty() else WIDE)
    for part in parts:
        console.print(Text(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))
