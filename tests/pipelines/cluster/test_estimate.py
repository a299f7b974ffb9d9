"""An estimate comes from finished runs like this one, scaled by steps; without one there is none."""

import json
from typing import Any

import pytest

from pipelines.cluster.estimate import Estimate, duration, estimate
from tests.pipelines.cluster.made_workflows import NAME, RUN_ID, MadeWorkflow, pod, stamp
from tests.pipelines.cluster.memory_api import TEMPLATE, MemoryApi

DEFAULTS = {item["name"]: str(item["value"]) for item in TEMPLATE["spec"]["arguments"]["parameters"]}


def run(
    name: str, train_s: float = 100, *, run_id: str = "", day: int = 1, phase: str = "Succeeded", **given: str
) -> dict[str, Any]:
    """A run of two folds of 1,000 steps: prepare 10 s, train as given, evaluate 30 s, gate 5 s."""
    made = MadeWorkflow()
    made.stage("prepare", "Succeeded", pod("Succeeded", begin=0, end=10, code=0))
    for fold in (0, 1):
        made.dag(fold, "Succeeded")
        # The stage waited for the pool's semaphore long before its pod began.
        train = pod("Succeeded", begin=500, end=500 + train_s, code=0)
        made.stage("train", "Succeeded", train, fold=fold, startedAt=stamp(10))
        made.stage("evaluate", "Succeeded", pod("Succeeded", begin=700, end=730, code=0), fold=fold)
    made.stage("gate", "Failed", pod("Failed", begin=800, end=805, code=3))
    body = json.loads(
        json.dumps(made.body(phase)).replace(RUN_ID, run_id or f"run-{name}").replace(NAME, name)
    )
    body["metadata"]["creationTimestamp"] = f"2026-11-{day:02d}T00:00:00Z"
    body["spec"]["workflowTemplateRef"] = {"name": "walkforward"}
    body["status"]["storedWorkflowTemplateSpec"]["arguments"] = TEMPLATE["spec"]["arguments"]
    values = {"folds": "2", "n_steps": "1000", **given}
    body["spec"]["arguments"]["parameters"] = [
        {"name": key.replace("_", "-"), "value": value} for key, value in values.items()
    ]
    return body


def wanted(**given: str) -> dict[str, str]:
    return {**DEFAULTS, **{key.replace("_", "-"): value for key, value in given.items()}}


def found(*bodies: dict[str, Any], **given: str) -> Estimate | None:
    return estimate(MemoryApi(*bodies), "walkforward", wanted(**given))


def test_training_scales_with_steps_and_evaluation_with_the_window() -> None:
    made = found(run("a"), folds="5", n_steps="3000")
    assert made == Estimate(prepare_s=10, train_s=300, evaluate_s=15, gate_s=5, folds=5, num_runs=1)
    assert made.at_once_s == 330
    assert made.one_by_one_s == 10 + 5 * 315 + 5


def test_one_fold_alone_takes_one_folds_time() -> None:
    made = found(run("a"), fold_idx="1", n_steps="1000")
    assert made is not None
    assert made.at_once_s == made.one_by_one_s


def test_the_middle_of_several_runs_counts() -> None:
    made = found(run("a", 90), run("b", 100), run("c", 5000), n_steps="1000")
    assert made is not None
    assert (made.train_s, made.num_runs) == (100, 3)


def test_preempted_attempts_count_as_time_that_a_fold_took() -> None:
    body = run("a")
    nodes = body["status"]["nodes"]
    first = next(key for key in nodes if key.endswith("train(0)"))
    retry = next(node for node in nodes.values() if node.get("children") == [first])
    lost = {**nodes[first], "id": "lost", "name": nodes[first]["name"].replace("(0)", "(1)")}
    nodes["lost"] = lost | {"startedAt": stamp(600), "finishedAt": stamp(650)}
    retry["children"] = [first, "lost"]
    made = found(body, n_steps="1000")
    assert made is not None
    assert made.train_s == 125  # between 100 s of one fold and 150 s of the other


@pytest.mark.parametrize(
    "given",
    [
        {"n_backtests": "512"},
        {"preset": "seed"},
        {"market": "planted"},
        {"gpu_pool": "slow"},
        {"config": "/c"},
    ],
)
def test_a_run_of_another_kind_is_no_basis(given: dict[str, str]) -> None:
    assert found(run("a"), **given) is None


def test_a_run_of_another_template_is_no_basis() -> None:
    body = run("a")
    body["spec"]["workflowTemplateRef"]["name"] = "walkforward-next"
    assert found(body) is None


def test_a_run_of_which_no_fold_is_done_is_no_basis() -> None:
    body = run("a")
    for node in body["status"]["nodes"].values():
        if node.get("templateName") == "evaluate":
            node["phase"] = "Failed"
    assert found(body) is None
    assert found(run("b", phase="Running")) is None
    assert found() is None


def test_a_workflow_that_found_its_folds_done_says_nothing_about_time() -> None:
    first, resumed = run("a", 100, run_id="r", day=1), run("b", 2, run_id="r", day=2)
    made = found(resumed, first, n_steps="1000")
    assert made is not None
    assert (made.train_s, made.num_runs) == (100, 1)


def test_a_workflow_whose_nodes_cannot_be_read_is_passed_over() -> None:
    broken = run("b")
    broken["status"] = {"phase": "Succeeded", "compressedNodes": "damaged"}
    made = found(broken, run("a"), n_steps="1000")
    assert made is not None
    assert made.num_runs == 1


def test_what_a_person_reads() -> None:
    made = Estimate(prepare_s=60, train_s=1680, evaluate_s=60, gate_s=10, folds=3, num_runs=2)
    assert str(made) == (
        "30 min if all 3 folds run at once, 88 min one by one "
        "(28 min of training a fold; from 2 finished runs)"
    )
    assert [duration(s) for s in (5, 89, 90, 5999, 6000, 7230)] == [
        "5 s",
        "89 s",
        "2 min",
        "1 h 40 min",
        "1 h 40 min",
        "2 h 00 min",
    ]
