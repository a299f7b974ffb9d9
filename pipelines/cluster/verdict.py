"""How a workflow ended: its exit code, and one line for a person."""

import json
from dataclasses import dataclass

from pipelines.cluster.stages import StageRun, WorkflowRun
from pipelines.plan import GATE, PREPARE
from trainer.errors import ExitCode

# Codes that say what to do next; any other (137, 1, a vanished pod) is just a failure.
TELLING = (ExitCode.BAD_INPUT, ExitCode.CRASHED_TOO_OFTEN, ExitCode.MISMATCH)
WORDS = {
    ExitCode.DONE: "pass",
    ExitCode.REJECTED: "fail or reject",
    ExitCode.INCONCLUSIVE: "inconclusive",
}
PLAIN_FAILURE = 1


@dataclass(frozen=True)
class Verdict:
    """exit_code: of a command that followed the workflow. word: `pass`, `reject`, `failed`, `stopped`, ...

    line: `pass`, `reject: fold 0: win rate is 0.41, needs >= 0.52`, `failed: fold1 train: ...`.
    """

    exit_code: int
    word: str
    line: str


def verdict_of(run: WorkflowRun) -> Verdict | None:
    """The end of an ended workflow; None while it runs.

    The gate's answer counts, except after a failed prepare: then the gate saw an earlier run's files at most.
    Without a gate's answer: the code of the first failed stage that says what to do, 75 for a stopped
    workflow, else 1.
    """
    if not run.ended:
        return None
    prepare, gate = run.stage(PREPARE.name), run.stage(GATE.name)
    unprepared = prepare is not None and prepare.failed
    if gate is not None and gate.gave_verdict and not unprepared:
        return _of_gate(gate)
    failed = [stage for stage in run.stages if stage.failed]
    if run.phase == "Succeeded" and not failed:
        return Verdict(
            int(ExitCode.DONE), "done", "done: every stage succeeded; one fold alone has no verdict"
        )
    telling = [stage for stage in failed if stage.exit_code in TELLING]
    if telling:
        return Verdict(int(telling[0].exit_code or PLAIN_FAILURE), "failed", _failure(telling[0]))
    if run.stopped or any(stage.exit_code == ExitCode.INTERRUPTED for stage in failed):
        why = run.message or (failed[0].label if failed else "before its end")
        return Verdict(
            int(ExitCode.INTERRUPTED), "stopped", f"stopped: {why}; submit the same run id to go on"
        )
    return Verdict(PLAIN_FAILURE, "failed", _failure(failed[0]) if failed else f"failed: {run.message}")


def _of_gate(gate: StageRun) -> Verdict:
    code = ExitCode(gate.exit_code or 0)
    word, reasons = WORDS[code], ""
    try:
        said = json.loads(gate.outputs.get("summary", ""))["verdict"]
        word, reasons = str(said["outcome"]), "; ".join(map(_reason, said["reasons"]))
    except (ValueError, KeyError, TypeError):
        pass  # an older template, or a summary that did not reach the Workflow: the code says enough
    return Verdict(int(code), word, word + (f": {reasons}" if reasons else ""))


def _reason(criterion: dict[str, object]) -> str:
    """`fold 0: win rate is 0.41, needs >= 0.52`."""
    fold, name, value = criterion["fold"], criterion["name"], criterion["value"]
    if name == "present":
        return f"fold {fold} is missing"
    shown = f"{value:.4g}" if isinstance(value, int | float) else str(value or "undefined")
    return f"fold {fold}: {name} is {shown}, needs {criterion['threshold']}"


def _failure(stage: StageRun) -> str:
    code = "" if stage.exit_code is None else f" (exit {stage.exit_code})"
    return f"failed: {stage.label}{code}: {stage.reason or 'no reason is known'}"
