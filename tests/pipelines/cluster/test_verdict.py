"""The end of a workflow as exit code and line."""

import json

from pipelines.cluster.runs import workflow_run
from pipelines.cluster.verdict import Verdict, verdict_of
from tests.pipelines.cluster.made_workflows import MadeWorkflow, finished, pod

SUMMARY = json.dumps(
    {
        "verdict": {
            "outcome": "reject",
            "reasons": [
                {"fold": 0, "name": "win rate", "value": 0.41234, "threshold": ">= 0.52"},
                {"fold": 1, "name": "net P&L, lower bound", "value": None, "threshold": "> 0"},
            ],
        }
    }
)


def end(made: MadeWorkflow, phase: str = "Failed", message: str = "", shutdown: str = "") -> Verdict:
    verdict = verdict_of(workflow_run(made.body(phase, message, shutdown)))
    assert verdict is not None
    return verdict


def test_a_running_workflow_has_no_verdict() -> None:
    assert verdict_of(workflow_run(MadeWorkflow().body())) is None


def test_the_gates_code_is_the_verdict_with_its_reasons() -> None:
    assert verdict_of(workflow_run(finished())) == Verdict(0, "pass", "pass")
    assert verdict_of(workflow_run(finished(gate_code=4))) == Verdict(4, "inconclusive", "inconclusive")
    assert verdict_of(workflow_run(finished(gate_code=3))) == Verdict(3, "fail or reject", "fail or reject")
    line = (
        "reject: fold 0: win rate is 0.4123, needs >= 0.52; "
        "fold 1: net P&L, lower bound is undefined, needs > 0"
    )
    assert verdict_of(workflow_run(finished(gate_code=3, summary=SUMMARY))) == Verdict(3, "reject", line)


def test_a_missing_fold_is_the_gates_answer() -> None:
    reasons = [{"fold": 1, "name": "present", "value": 0.0, "threshold": "evaluated"}]
    summary = json.dumps({"verdict": {"outcome": "fail", "reasons": reasons}})
    verdict = verdict_of(workflow_run(finished(gate_code=3, summary=summary)))
    assert verdict == Verdict(3, "fail", "fail: fold 1 is missing")


def test_a_summary_that_is_cut_off_leaves_the_code() -> None:
    verdict = verdict_of(workflow_run(finished(gate_code=3, summary=SUMMARY[:50])))
    assert verdict == Verdict(3, "fail or reject", "fail or reject")


def test_a_failed_prepare_counts_before_a_gate_that_judged_an_earlier_run() -> None:
    made = MadeWorkflow().stage(
        "prepare", "Failed", pod("Failed", end=3, code=2, message="main: Error (exit code 2): bad row")
    )
    made.stage("gate", "Succeeded", pod("Succeeded", begin=5, end=6, code=0))
    assert end(made) == Verdict(2, "failed", "failed: prepare (exit 2): main: Error (exit code 2): bad row")


def test_the_first_stage_that_says_what_to_do_gives_the_code() -> None:
    made = MadeWorkflow().done("prepare").dag(0, "Failed").dag(1, "Failed")
    made.stage("train", "Failed", pod("Failed", end=3, code=137, message="OOMKilled"), fold=0)
    made.stage("train", "Failed", pod("Failed", end=3, code=78, message="another config"), fold=1)
    assert end(made) == Verdict(78, "failed", "failed: fold1 train (exit 78): another config")


def test_a_failure_that_says_nothing_is_1() -> None:
    made = MadeWorkflow(folds=1).done("prepare").dag(0, "Failed")
    made.stage("train", "Error", pod("Error", end=3, message="pod deleted"), fold=0)
    assert end(made) == Verdict(1, "failed", "failed: fold0 train: pod deleted")
    assert end(MadeWorkflow(), "Error", "invalid spec") == Verdict(1, "failed", "failed: invalid spec")


def test_a_stopped_workflow_is_75() -> None:
    made = MadeWorkflow(folds=1).done("prepare").dag(0, "Failed")
    made.stage("train", "Failed", pod("Failed", end=3, code=75), fold=0)
    verdict = end(made, message="Stopped with strategy 'Stop'", shutdown="Stop")
    assert (verdict.exit_code, verdict.word) == (75, "stopped")
    assert verdict.line == "stopped: Stopped with strategy 'Stop'; submit the same run id to go on"


def test_one_fold_alone_ends_with_0() -> None:
    made = MadeWorkflow(fold_idx=0).done("prepare").dag(0, "Succeeded").done("train", 0).done("evaluate", 0)
    made.left_out("gate", "gate", "Skipped", "when '0 < 0 || 0 >= 2' evaluated false")
    assert end(made, "Succeeded").exit_code == 0
