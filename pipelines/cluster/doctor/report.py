"""Findings for a person, line by line, or for a script."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from typing import TextIO

from pipelines.cluster.doctor.examine import Finding
from pipelines.cluster.doctor.result import Level
from trainer.errors import ExitCode

COLOURS = {Level.OK: "32", Level.WARNING: "33", Level.ERROR: "31"}


def tell(findings: Iterable[Finding], stdout: TextIO) -> int:
    """Writes each finding as it comes, under its group; returns the exit code."""
    coloured = stdout.isatty()
    levels: Counter[Level] = Counter()
    group = ""
    for finding in findings:
        if finding.group != group:
            stdout.write(f"{_paint(finding.group, '1', coloured)}\n")
            group = finding.group
        levels[finding.result.level] += 1
        stdout.write(f"  {_line(finding, coloured)}\n")
        stdout.flush()
    stdout.write(f"{_summary(levels)}\n")
    return _code(levels[Level.ERROR])


def tell_json(findings: Iterable[Finding], stdout: TextIO) -> int:
    """Writes one object with all findings; returns the exit code."""
    rows = [
        {
            "group": finding.group,
            "check": finding.check,
            "level": finding.result.level.value,
            "what": finding.result.what,
            "do": finding.result.do,
        }
        for finding in findings
    ]
    counts = Counter(row["level"] for row in rows)
    body = {"errors": counts["error"], "warnings": counts["warning"], "findings": rows}
    stdout.write(json.dumps(body, indent=2) + "\n")
    return _code(counts["error"])


def _line(finding: Finding, coloured: bool) -> str:
    result = finding.result
    level = _paint(f"{result.level.value:<7}", COLOURS[result.level], coloured)
    if not result.do:
        return f"{level}  {result.what}"
    # A terminal that would break the line anyway gets what to do on a line of its own.
    whole = f"  {result.level.value:<7}  {result.what} -> {result.do}"
    if coloured and len(whole) > shutil.get_terminal_size().columns:
        return f"{level}  {result.what}\n           -> {result.do}"
    return f"{level}  {result.what} -> {result.do}"


def _paint(text: str, colour: str, coloured: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if coloured else text


def _summary(levels: Counter[Level]) -> str:
    errors, warnings = levels[Level.ERROR], levels[Level.WARNING]
    if not errors and not warnings:
        return "all well: walkforward submit"
    told = [
        f"{count} {word}{'s' if count > 1 else ''}"
        for count, word in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    return f"{', '.join(told)}{'' if errors else ': nothing here stops a run'}"


def _code(errors: int) -> int:
    return int(ExitCode.BAD_INPUT if errors else ExitCode.DONE)
