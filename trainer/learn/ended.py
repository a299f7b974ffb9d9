"""The last word of an orchestrated run, left beside its files: how the workflow ended and what failed.

The orchestrator's own record expires; the run directory stays (design page PIPELINE.md, "Retry and resume").
"""

import json
import re
from pathlib import Path
from typing import Any, TextIO

from trainer.errors import InputError
from trainer.learn.atomic import write_json

ENDED_FILE = "ended.json"
# Where a container said nothing, Argo quotes the end of its log behind this, with lines of its own executor.
QUOTED = re.compile(r"(?P<head>\S+ \w+ \(exit code \d+\)): (?P<log>.*\n.*)", re.DOTALL)
EXECUTOR_LINE = re.compile(r"\bargo=true\b|^Error: exit status \d+$")
# What Argo tells of a failed node that a person wants to know.
KEPT = ("displayName", "templateName", "phase", "message", "podName", "finishedAt")


def note_end(run_dir: Path, workflow: str, status: str, failures: str, stream: TextIO) -> None:
    """Write `ended.json` and one readable line a failure.

    failures: Argo's `{{workflow.failures}}`: a JSON list, or that once more quoted as a JSON string; empty
    or `null` for none. A run that never got a directory has none afterwards either. Raises InputError.
    """
    failed = _failures(failures)
    # A retried stage is told twice, the attempt and its retry node: the attempt has the reason.
    told = [one for one in failed if one.get("podName")] or failed
    for one in told:
        stream.write(f"{one.get('displayName')}: {one.get('phase')}: {_one_line(one.get('message'))}\n")
    stream.write(f"workflow {workflow} ended: {status}\n")
    if not run_dir.is_dir():
        return
    try:
        write_json(run_dir / ENDED_FILE, {"workflow": workflow, "status": status, "failures": failed})
    except OSError as error:
        raise InputError(
            f"cannot write: {error.strerror or error}", where=str(run_dir / ENDED_FILE), do="free some space"
        ) from error


def _one_line(message: object) -> str:
    """The message on one line; of a quoted log its last line: more would read as this stage's own log."""
    text = str(message or "no message")
    if quoted := QUOTED.fullmatch(text.strip()):
        own = [line for line in quoted["log"].splitlines() if line.strip() and not EXECUTOR_LINE.search(line)]
        text = f"{quoted['head']}: {own[-1] if own else ''}"
    return " ".join(text.split())


def _failures(text: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(text) if text.strip() else []
        found = json.loads(found) if isinstance(found, str) else found
        return [{key: one[key] for key in KEPT if one.get(key)} for one in found or []]
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            "not a JSON list of failed nodes", where="--failures", do="pass {{workflow.failures}}"
        ) from error
