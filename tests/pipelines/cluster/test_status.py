"""`walkforward status`: the list, one workflow, and both as JSON."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest

from pipelines.cluster.nodes import pod_name
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.status import show_recent, show_status, status_of, summary_object
from pipelines.cluster.tables import recent_table, status_table
from tests.pipelines.cluster.made_workflows import BEGAN, NAME, RUN_DIR, RUN_ID, MadeWorkflow, finished, pod
from tests.pipelines.cluster.scripted_api import ScriptedApi, stamped

NOW = BEGAN + timedelta(seconds=300)
WHY = "Waiting for argo/ConfigMap/walkforward-semaphores/gpu-pool lock. Lock status: 0/1"


def train_pod(attempt: int) -> str:
    return pod_name(NAME, f"{NAME}.fold(0:0).train({attempt - 1})", "train")


def running() -> dict[str, Any]:
    lost = pod("Failed", begin=20, end=120, code=137, message="main: OOMKilled (exit code 137)")
    lost["resourcesDuration"] = {"nvidia.com/gpu": 100, "cpu": 400}
    made = MadeWorkflow().done("prepare").dag(0).dag(1)
    made.stage("train", "Running", lost, pod("Running", begin=140, progress="300/1000"), fold=0)
    return made.stage("train", "Pending", fold=1, message=WHY).body()


LOGS: dict[str, Any] = {
    train_pod(1): [stamped(25, "step 400/1000 wr=0.5 sps=4 eta=3m")],
    train_pod(2): [
        stamped(150, "resumed from step 200 (/runs/checkpoint-200.bin)"),
        stamped(160, "step 450/1000 wr=0.561 sps=4.2 eta=2m"),
    ],
}


def table(body: dict[str, Any], logs: dict[str, Any]) -> list[str]:
    out = io.StringIO()
    status_table(status_of(ScriptedApi(logs=logs), workflow_run(body), NOW), out)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_a_running_workflow_for_people() -> None:
    assert table(running(), LOGS) == [
        f"{NAME}: Running, began 2026-11-30 03:00 UTC, run id {RUN_ID}",
        f"run directory: {RUN_DIR}",
        "STAGE STATE ATTEMPT PROGRESS TIME REASON",
        "prepare done 1 10 s",
        "fold0 train running 2 450/1000 (45 %) wr=0.561 sps=4.2 eta=2m 5 min",
        "fold0 evaluate waiting",
        "fold1 train waiting waits for semaphore gpu-pool (1 of 1 taken)",
        "fold1 evaluate waiting",
        "gate waiting",
        "attempts that went wrong:",
        "fold0 train/1 (exit 137): main: OOMKilled (exit code 137)",
        # 100 s, and 150 s of the second since its first line; half of the first one's steps were lost.
        "GPU time: 4 min used, 50 s of it wasted (20 %)",
    ]


def test_without_logs_progress_is_argos_and_waste_unknown() -> None:
    lines = table(running(), {})
    assert "fold0 train running 2 300/1000 (30 %) 5 min" in lines
    assert "GPU time: 4 min used; wasted: unknown, as logs are gone" in lines


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("task 'wf.fold(0:0).train' errored: no semaphore gpu-pool", "no semaphore gpu-pool"),
        ("No more retries left", ""),
    ],
)
def test_why_the_controller_gave_a_stage_up_stands_beside_it(message: str, shown: str) -> None:
    lost = pod("Error", begin=20, end=100, message="pod deleted")
    made = MadeWorkflow(folds=1).dag(0).stage("train", "Error", lost, fold=0, message=message)
    lines = table(made.body("Error"), {})
    assert f"fold0 train failed 1 80 s {shown}".strip() in lines
    assert "fold0 train/1: pod deleted" in lines


def test_a_finished_workflow_ends_with_its_verdict() -> None:
    lines = table(finished(gate_code=3), {})
    assert lines[-1] == "verdict: fail or reject"
    assert "gate done 1 1 s" in lines


def test_a_run_on_cpus_has_no_gpu_time() -> None:
    made = (
        MadeWorkflow(folds=1, gpus=0).done("prepare").dag(0).stage("train", "Running", pod("Running"), fold=0)
    )
    assert not any("GPU" in line for line in table(made.body(), {}))


def test_status_as_json() -> None:
    out = io.StringIO()
    assert show_status(ScriptedApi(logs=LOGS), running(), True, out) == 0
    found = json.loads(out.getvalue())
    assert found["name"] == NAME
    assert (found["folds"], found["folds_done"], found["verdict"]) == (2, 0, None)
    assert found["gpu"]["wasted_s"] == 50
    train = found["stages"][1]
    assert (train["label"], train["state"], train["fold"]) == ("fold0 train", "running", 0)
    assert (train["done"], train["total"], train["wr"]) == (450, 1000, "0.561")
    assert (train["started"], train["finished"]) == ("2026-11-30T03:00:20+00:00", None)
    assert [a["exit_code"] for a in train["attempts"]] == [137, None]


def test_the_list_shows_the_newest_with_folds_and_verdict() -> None:
    out = io.StringIO()
    recent_table([workflow_run(body) for body in (running(), finished())], NOW, "argo", out)
    assert [" ".join(line.split()) for line in out.getvalue().splitlines()] == [
        "NAME RUN ID PHASE AGE FOLDS VERDICT",
        f"{NAME} {RUN_ID} Running 5 min 0/2",
        f"{NAME} {RUN_ID} Succeeded 5 min 2/2 pass",
    ]


def test_an_empty_list_says_how_to_begin() -> None:
    out = io.StringIO()
    assert show_recent(ScriptedApi(), 20, False, out) == 0
    assert out.getvalue() == "no workflows in namespace argo; start one with walkforward submit\n"


def test_the_list_is_limited_and_survives_nodes_that_cannot_be_read() -> None:
    offloaded = running()
    offloaded["status"] = {"phase": "Running", "offloadNodeStatusVersion": "fnv:1"}
    out = io.StringIO()
    assert show_recent(ScriptedApi(listed=[offloaded, finished(), finished()]), 2, True, out) == 0
    found = json.loads(out.getvalue())
    assert [item["phase"] for item in found] == ["Running", "Succeeded"]


@pytest.mark.parametrize("code", [0, 3])
def test_the_verdict_is_in_the_json(code: int) -> None:
    verdict = summary_object(workflow_run(finished(gate_code=code)))["verdict"]
    assert verdict["exit_code"] == code
