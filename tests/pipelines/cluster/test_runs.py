"""From a Workflow's body to the stages of the plan."""

import pytest

from pipelines.cluster.nodes import pod_name
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.stages import StageRun, WorkflowRun
from tests.pipelines.cluster.made_workflows import NAME, RUN_DIR, RUN_ID, MadeWorkflow, finished, pod

PLAN = ["prepare", "fold0 train", "fold0 evaluate", "fold1 train", "fold1 evaluate", "gate"]
SEMAPHORE = "Waiting for argo/ConfigMap/walkforward-semaphores/gpu-pool lock. Lock status: 0/2"
MUTEX = f"Waiting for argo/Mutex/walkforward-{RUN_ID}-fold1 lock. Lock status: 0/1"


def states(run: WorkflowRun) -> dict[str, str]:
    return {stage.label: stage.state for stage in run.stages}


def stage(run: WorkflowRun, label: str) -> StageRun:
    return next(stage for stage in run.stages if stage.label == label)


def test_a_workflow_that_the_controller_has_not_seen_shows_the_plan_of_its_parameters() -> None:
    body = MadeWorkflow().body()
    del body["status"]
    run = workflow_run(body)
    assert (run.phase, run.run_id) == ("Pending", "")
    assert [stage.label for stage in run.stages] == PLAN
    del body["spec"]["arguments"]  # the template's defaults are not known yet
    assert workflow_run(body).stages == ()


def test_the_run_id_is_that_of_the_stages_else_as_submitted() -> None:
    body = finished()
    body["metadata"]["labels"]["alpha-rl/run-id"] = "labelled"
    assert workflow_run(body).run_id == RUN_ID
    body["status"]["nodes"] = {}
    assert workflow_run(body).run_id == "labelled"


def test_the_plan_is_there_before_its_nodes() -> None:
    run = workflow_run(MadeWorkflow().body())
    assert [stage.label for stage in run.stages] == PLAN
    assert set(states(run).values()) == {"waiting"}
    assert run.folds == (0, 1)
    assert (run.num_folds_done, run.gpus) == (0, 1)


def test_a_postponed_workflow_says_why_at_its_first_stage() -> None:
    made = MadeWorkflow()
    made.nodes.clear()
    run = workflow_run(made.body("Pending", "Workflow processing has been postponed: too many run"))
    assert stage(run, "prepare").reason == "Workflow processing has been postponed: too many run"


def test_a_finished_workflow_has_every_stage_once_in_order() -> None:
    run = workflow_run(finished())
    assert [stage.label for stage in run.stages] == PLAN
    assert set(states(run).values()) == {"done"}
    assert run.ended
    assert run.num_folds_done == 2
    assert (run.run_id, run.run_dir) == (RUN_ID, RUN_DIR)


def test_attempts_are_in_order_also_beyond_ten_and_dependents_are_no_attempts() -> None:
    pods = [
        pod("Failed", begin=i, end=i + 1, code=137, message="OOMKilled (exit code 137)") for i in range(11)
    ]
    made = MadeWorkflow(folds=1).dag(0)
    made.stage("train", "Running", *pods, pod("Running", begin=50, progress="120/25000"), fold=0)
    retry = next(node for node in made.nodes.values() if node["type"] == "Retry")
    retry["children"] = [*reversed(retry["children"]), f"id-{NAME}.fold(0:0)"]
    train = stage(workflow_run(made.body()), "fold0 train")
    assert [attempt.number for attempt in train.attempts] == list(range(1, 13))
    assert train.attempts[0].exit_code == 137
    assert train.last is not None
    assert train.last.pod == pod_name(NAME, f"{NAME}.fold(0:0).train(11)", "train")
    assert train.last.progress == (120, 25000)
    assert train.state == "running"
    assert train.reason == ""


def test_an_old_controller_names_pods_by_node_id() -> None:
    body = MadeWorkflow(folds=1).dag(0).stage("train", "Running", pod("Running"), fold=0).body()
    body["metadata"]["annotations"]["workflows.argoproj.io/pod-name-format"] = "v1"
    assert stage(workflow_run(body), "fold0 train").attempts[0].pod == f"id-{NAME}.fold(0:0).train(0)"


def test_a_stage_without_retries_is_one_attempt() -> None:
    made = MadeWorkflow(folds=1)
    made._add({"name": f"{NAME}.onExit", "type": "Pod", "templateName": "finish", **pod("Running")})
    finish = stage(workflow_run(made.body()), "finish")
    assert [attempt.number for attempt in finish.attempts] == [1]


@pytest.mark.parametrize(
    ("phase", "message", "state", "reason"),
    [
        ("Running", "Backoff for 10 seconds", "retrying", "Backoff for 10 seconds"),
        ("Failed", "No more retries left", "failed", "main: OOMKilled (exit code 137)"),
    ],
)
def test_a_failed_attempt_is_retried_or_is_the_reason(
    phase: str, message: str, state: str, reason: str
) -> None:
    failed = pod("Failed", end=5, code=137, message="main: OOMKilled\n  (exit code 137)")
    made = MadeWorkflow(folds=1).dag(0).stage("train", phase, failed, fold=0, message=message)
    train = stage(workflow_run(made.body()), "fold0 train")
    assert (train.state, train.reason) == (state, reason)


def test_an_unschedulable_pod_says_why() -> None:
    why = "Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    made = MadeWorkflow(folds=1).dag(0).stage("train", "Running", pod("Pending", message=why), fold=0)
    train = stage(workflow_run(made.body()), "fold0 train")
    assert (train.state, train.reason) == ("waiting", why)


def test_locks_are_told_at_the_stage_that_waits() -> None:
    made = MadeWorkflow().dag(0).stage("train", "Pending", fold=0, message=SEMAPHORE).dag(1, "Pending", MUTEX)
    made.synchronization = {
        "mutex": {
            "waiting": [
                {"mutex": f"argo/Mutex/walkforward-{RUN_ID}-fold1", "holder": "argo/walkforward-old/n"}
            ]
        }
    }
    run = workflow_run(made.body())
    assert stage(run, "fold0 train").reason == "waits for semaphore gpu-pool (2 of 2 taken)"
    assert (
        stage(run, "fold1 train").reason
        == f"waits for mutex walkforward-{RUN_ID}-fold1, held by walkforward-old"
    )
    assert stage(run, "fold1 evaluate").reason == ""


def test_what_a_failed_stage_left_out_is_omitted() -> None:
    made = MadeWorkflow()
    made.stage(
        "prepare", "Failed", pod("Failed", end=3, code=2, message="main: Error (exit code 2): no rows")
    )
    made.left_out("fold", "fold", "Omitted", "omitted: depends condition not met")
    made.stage("gate", "Failed", pod("Failed", begin=5, end=6, code=2))
    run = workflow_run(made.body("Failed"))
    assert states(run) == {
        "prepare": "failed",
        **dict.fromkeys(PLAN[1:5], "omitted"),
        "gate": "failed",
    }
    assert stage(run, "fold0 train").reason == "omitted: depends condition not met"


def test_evaluate_after_a_failed_train_belongs_to_its_fold() -> None:
    made = MadeWorkflow().dag(1, "Failed")
    made.stage("train", "Failed", pod("Failed", end=3, code=70), fold=1)
    made.left_out("evaluate", "evaluate", "Omitted", "omitted: depends condition not met", fold=1)
    run = workflow_run(made.body("Failed"))
    assert stage(run, "fold1 evaluate").state == "omitted"
    assert len([s for s in run.stages if s.label == "fold1 evaluate"]) == 1


def test_one_fold_alone_has_neither_other_folds_nor_a_gate() -> None:
    made = MadeWorkflow(fold_idx=1).done("prepare").dag(1).done("train", 1)
    made.left_out("fold(0:0)", "fold", "Skipped", "when '1 < 0 || 1 == 0' evaluated false")
    run = workflow_run(made.body())
    assert [stage.label for stage in run.stages] == ["prepare", "fold1 train", "fold1 evaluate"]


def test_a_gate_that_rejects_is_done_and_one_that_breaks_failed() -> None:
    assert states(workflow_run(finished(gate_code=3)))["gate"] == "done"
    assert states(workflow_run(finished(gate_code=2)))["gate"] == "failed"


def test_a_stopped_workflow_is_known() -> None:
    assert workflow_run(MadeWorkflow().body(shutdown="Stop")).stopped
    assert not workflow_run(MadeWorkflow().body()).stopped


def test_an_output_that_only_the_pod_has_is_found() -> None:
    body = finished()
    nodes = [node for node in body["status"]["nodes"].values() if node["templateName"] == "gate"]
    for node in nodes:
        of_pod = node["type"] == "Pod"
        node.setdefault("outputs", {})["parameters"] = [{"name": "summary", "value": "{}" if of_pod else ""}]
    assert {node["type"] for node in nodes} == {"Pod", "Retry"}
    assert stage(workflow_run(body), "gate").outputs == {"summary": "{}"}
