"""The reading against workflows that Argo 4.0.5's controller wrote (tests/pipelines/cluster/data)."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.cluster.runs import workflow_run
from pipelines.cluster.stages import WorkflowRun
from pipelines.cluster.verdict import verdict_of

DATA = Path(__file__).with_name("data")
# Names of pods as the cluster had them, by the name of their node.
PODS: dict[str, str] = json.loads((DATA / "pods.json").read_text())


def recorded(name: str) -> WorkflowRun:
    body: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return workflow_run(body)


def rows(run: WorkflowRun) -> list[tuple[str, str, int, str]]:
    return [(stage.label, stage.state, len(stage.attempts), stage.reason) for stage in run.stages]


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.json") if path.stem != "pods"))
def test_every_pod_has_the_name_that_the_cluster_gave_it(name: str) -> None:
    body = json.loads((DATA / f"{name}.json").read_text())
    named = {attempt.pod for stage in workflow_run(body).stages for attempt in stage.attempts}
    # Of a stopped workflow some pods were deleted before their names could be noted.
    real = {PODS[node["name"]] for node in body["status"]["nodes"].values() if node["name"] in PODS}
    assert real
    assert real <= named


def test_a_rejected_run_is_read_whole() -> None:
    run = recorded("rejected")
    assert rows(run) == [
        ("prepare", "done", 1, ""),
        ("fold0 train", "done", 1, ""),
        ("fold0 evaluate", "done", 1, ""),
        ("fold1 train", "done", 1, ""),
        ("fold1 evaluate", "done", 1, ""),
        ("gate", "done", 1, ""),
        ("finish", "done", 1, ""),
    ]
    assert (run.run_id, run.run_dir) == ("two", "/feature-cache/alpha-rl-runs/two")
    assert (run.num_folds_done, run.folds) == (2, (0, 1))
    train = run.stage("train", 1)
    assert train is not None
    assert train.attempts[0].progress == (60, 60)
    assert train.attempts[0].resource_s["memory"] == 1986
    verdict = verdict_of(run)
    assert verdict is not None
    assert (verdict.exit_code, verdict.word) == (3, "reject")
    assert verdict.line.startswith("reject: fold 0: win rate is 0.3986, needs >= 0.5")


def test_a_stopped_run_ends_with_75() -> None:
    run = recorded("stopped")
    assert (run.stopped, run.ended) == (True, True)
    assert rows(run)[:2] == [
        ("prepare", "failed", 1, "workflow shutdown with strategy: Stop"),
        ("fold0 train", "omitted", 0, "omitted: depends condition not met"),
    ]
    assert rows(run)[-1] == (
        *("finish", "failed", 1),
        "Pod was active on the node longer than the specified deadline",
    )
    verdict = verdict_of(run)
    assert verdict is not None
    assert verdict.exit_code == 75
    assert verdict.line == "stopped: Stopped with strategy 'Stop'; submit the same run id to go on"


def test_a_killed_attempt_and_the_one_after_it() -> None:
    (stage,) = recorded("retried").stages
    assert [attempt.exit_code for attempt in stage.attempts] == [137, 0]
    assert stage.attempts[0].message == "main: Error (exit code 137)"
    assert stage.state == "done"


def test_locks_are_told_as_the_controller_tells_them() -> None:
    semaphore = {stage.label: stage.reason for stage in recorded("semaphore").stages}
    assert semaphore["fold1 train"] == "waits for semaphore one (1 of 1 taken)"
    assert semaphore["fold0 train"] == "Backoff for 40 seconds"
    mutex = {stage.label: stage.reason for stage in recorded("mutex").stages}
    holder = recorded("semaphore").name
    assert mutex["fold0 train"] == f"waits for mutex locks-fold0, held by {holder}"
    assert mutex["fold1 train"] == f"waits for mutex locks-fold1, held by {holder}"


def test_a_pod_that_fits_no_node_says_what_the_scheduler_says() -> None:
    stages = {stage.label: stage for stage in recorded("unschedulable").stages}
    assert stages["fold0 train"].state == "done"
    assert len(stages["fold0 train"].attempts) == 2
    assert stages["fold0 evaluate"].state == "waiting"
    assert stages["fold0 evaluate"].reason.startswith("Unschedulable: 0/")
    assert stages["gate"].state == "waiting"
