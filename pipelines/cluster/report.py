"""`walkforward report`: the verdict of a run, from its Workflow or from its directory here."""

from pathlib import Path
from typing import TextIO

from pipelines.cluster.api import WorkflowApi
from pipelines.cluster.find import find_workflow
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.stages import WorkflowRun
from pipelines.plan import GATE
from trainer.errors import ExitCode, InputError

# What the gate leaves: its output parameters, and its files in the run directory.
FILES = {"summary": "summary.json", "report": "report.txt", "report-html": "report.html"}


def part_for(as_json: bool, output: Path | None) -> str:
    """Which part is asked for: by --json, or by the name of the file to write."""
    if as_json or (output is not None and output.suffix == ".json"):
        return "summary"
    return "report-html" if output is not None and output.suffix in (".html", ".htm") else "report"


def of_directory(run_dir: Path, part: str) -> str:
    """The part of a run directory here; InputError where its gate has not run."""
    file = run_dir / FILES[part]
    if not (run_dir / FILES["summary"]).exists():
        raise InputError("no verdict there", where=str(run_dir), do="give a run directory whose gate has run")
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        do = f"write it: python -m trainer gate --run-dir {run_dir}"
        raise InputError("an earlier version judged this run", where=str(file), do=do) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("cannot read", where=str(file), do="check its permissions") from error


def of_workflow(api: WorkflowApi, text: str, part: str) -> str:
    """The part that the gate left in the Workflow; InputError where it has given no verdict."""
    run = workflow_run(find_workflow(api, text))
    gate = run.stage(GATE.name)
    found = gate.outputs.get(part, "") if gate is not None else ""
    if found:
        return found
    if gate is not None and gate.gave_verdict:
        do = f"its run directory {run.run_dir or 'on the claim'} has {FILES[part]}"
        raise InputError(f"its Workflow does not hold the {part}", where=run.name, do=do)
    raise InputError(
        f"no verdict: {_why(run)}", where=run.name, do=f"walkforward status {run.name} says more"
    )


def _why(run: WorkflowRun) -> str:
    if not run.ended:
        return f"it is {run.phase.lower()}, the gate comes last"
    if run.stopped:
        return "it was stopped"
    failed = next((stage for stage in run.stages if stage.failed), None)
    if failed is not None:
        return f"{failed.label} failed: {failed.reason or 'no reason is known'}"
    return (
        "it ran one fold alone"
        if run.phase == "Succeeded"
        else f"it ended: {run.phase} {run.message}".strip()
    )


def write(text: str, output: Path | None, stdout: TextIO) -> int:
    """To the file, whole or not at all, or to stdout."""
    text = text if text.endswith("\n") else text + "\n"
    if output is None:
        stdout.write(text)
        return int(ExitCode.DONE)
    part = output.with_name(f".{output.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(output)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(
            f"cannot write: {error.strerror}", where=str(output), do="give -o a writable file"
        ) from error
    return int(ExitCode.DONE)
