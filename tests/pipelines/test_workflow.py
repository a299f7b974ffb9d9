"""The rendered YAML against the goldens, and what the goldens must say."""

import json
import re
from typing import Any

import pytest
import yaml

from pipelines.golden import CPU_VALUES, GOLDEN_DIR, goldens
from pipelines.parameters import RunParameters, parameters_of
from pipelines.plan import STAGES
from pipelines.render import render
from pipelines.settings import ChartValues


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    return {name: yaml.safe_load(text) for name, text in goldens().items()}


@pytest.fixture(scope="module")
def spec(rendered: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = rendered["walkforward.yaml"]["spec"]
    return found


@pytest.fixture(scope="module")
def templates(spec: dict[str, Any]) -> dict[str, Any]:
    return {template["name"]: template for template in spec["templates"]}


@pytest.mark.parametrize("name", ["walkforward.yaml", "walkforward-cpu.yaml", "workflow.yaml"])
def test_rendered_yaml_equals_its_golden(rendered: dict[str, Any], name: str) -> None:
    golden = yaml.safe_load((GOLDEN_DIR / name).read_text())
    assert rendered[name] == golden, "after a wanted change: python -m pipelines.golden"


def test_every_stage_runs_the_plans_command(templates: dict[str, Any]) -> None:
    for stage in STAGES:
        container = templates[stage.name]["container"]
        assert container["command"] == ["python", "-m", "trainer"]
        assert container["args"][0] == stage.name
        options = {word[2:] for word in container["args"] if word.startswith("--")}
        assert options <= set(stage.options)
        assert templates[stage.name]["retryStrategy"]["limit"] == stage.retry.limit


def test_folds_are_a_parameter_of_a_fan_out(templates: dict[str, Any]) -> None:
    dag = templates["walkforward"]["dag"]
    fold = next(task for task in dag["tasks"] if task["name"] == "fold")
    assert fold["withSequence"] == {"count": "{{workflow.parameters.folds}}"}
    assert dag["failFast"] is False


def test_a_failed_prepare_fails_the_workflow_whatever_the_gate_finds(templates: dict[str, Any]) -> None:
    dag = templates["walkforward"]["dag"]
    gate = next(task for task in dag["tasks"] if task["name"] == "gate")
    assert dag["target"] == "prepare gate"
    for end in ("Succeeded", "Failed", "Errored", "Omitted"):
        assert f"fold.{end}" in gate["depends"]


def decide(expression: str, fold_idx: int, folds: int, item: int = 0) -> bool:
    """Evaluate a `when` as Argo does: substitute, then compare numbers."""
    values = {"workflow.parameters.fold-idx": fold_idx, "workflow.parameters.folds": folds, "item": item}
    text = re.sub(r"\{\{(.*?)\}\}", lambda match: str(values[match[1]]), expression)
    alternatives = [re.fullmatch(r"(-?\d+) (<|>=|==) (-?\d+)", part) for part in text.split(" || ")]
    compare = {"<": int.__lt__, ">=": int.__ge__, "==": int.__eq__}
    return any(match and compare[match[2]](int(match[1]), int(match[3])) for match in alternatives)


@pytest.mark.parametrize(
    ("fold_idx", "trained", "judged"),
    [(-1, [0, 1, 2], True), (0, [0], False), (2, [2], False), (3, [], True)],
)
def test_fold_idx_picks_one_fold_without_verdict(
    templates: dict[str, Any], fold_idx: int, trained: list[int], judged: bool
) -> None:
    tasks = {task["name"]: task for task in templates["walkforward"]["dag"]["tasks"]}
    assert [k for k in range(3) if decide(tasks["fold"]["when"], fold_idx, 3, k)] == trained
    # An index beyond the folds trains nothing: the gate runs and fails, rather than a green empty run.
    assert decide(tasks["gate"]["when"], fold_idx, 3) is judged


def test_retries_compare_numbers_and_know_no_total_duration(templates: dict[str, Any]) -> None:
    retry = templates["train"]["retryStrategy"]
    assert retry["retryPolicy"] == "Always"
    assert "asInt(lastRetry.exitCode) not in [2, 3, 4, 70, 78]" in retry["expression"]
    assert retry["backoff"] == {"duration": "10s", "factor": 2, "cap": "300s"}


def deadline_pattern(templates: dict[str, Any]) -> str:
    match = re.search(r"matches '(.*)'\)", templates["train"]["retryStrategy"]["expression"])
    assert match
    return match[1]


def test_a_passed_deadline_is_told_from_a_transient_error(templates: dict[str, Any]) -> None:
    pattern = deadline_pattern(templates)
    assert re.search(pattern, "Pod was active on the node longer than the specified deadline")
    assert re.search(pattern, "Step exceeded its deadline")
    assert not re.search(pattern, "rpc error: context deadline exceeded")


def test_only_train_holds_a_gpu_and_the_pools_semaphore(templates: dict[str, Any]) -> None:
    for stage in STAGES:
        template = templates[stage.name]
        uses = "nvidia.com/gpu" in template["container"]["resources"]["limits"]
        assert uses == (stage.name == "train")
        assert ("nodeSelector" in template) == (stage.name == "train")
        assert ("semaphores" in template.get("synchronization", {})) == (stage.name == "train")


def test_every_other_stage_keeps_off_the_pools_nodes_whether_they_are_tainted_or_not(
    templates: dict[str, Any],
) -> None:
    avoided = {
        "key": ChartValues().gpu_pool_label,
        "operator": "NotIn",
        "values": ["{{workflow.parameters.gpu-pool}}"],
    }
    (key,) = templates["train"]["nodeSelector"].items()
    assert key == (avoided["key"], "{{workflow.parameters.gpu-pool}}")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for name in ("prepare", "evaluate", "gate", "finish"):
        (term,) = templates[name]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
        assert term == {"matchExpressions": [avoided]}
    assert "affinity" not in templates["train"]


@pytest.mark.parametrize("values", [{"keep_gpu_pool_free": False}, {"gpu_pool_label": ""}, {"gpus": 0}])
def test_without_a_pool_to_keep_free_a_stage_may_run_anywhere(values: dict[str, Any]) -> None:
    spec = yaml.safe_load(render(ChartValues.model_validate(values)))["spec"]
    assert not [template["name"] for template in spec["templates"] if "affinity" in template]


def test_two_workflows_of_one_run_never_write_one_directory(templates: dict[str, Any]) -> None:
    names = {
        name: templates[name]["synchronization"]["mutexes"][0]["name"] for name in ("prepare", "fold", "gate")
    }
    assert len(set(names.values())) == 3
    assert all("{{inputs.parameters.run-id}}" in name for name in names.values())
    assert "{{inputs.parameters.fold-idx}}" in names["fold"]


def test_pods_get_time_to_save(spec: dict[str, Any]) -> None:
    patch = yaml.safe_load(spec["podSpecPatch"])
    assert patch["terminationGracePeriodSeconds"] == 120
    assert {container["name"] for container in patch["initContainers"] + patch["containers"]} == {
        "init",
        "wait",
    }


def test_only_training_has_a_deadline_that_the_chart_chooses(templates: dict[str, Any]) -> None:
    assert {name: templates[name]["activeDeadlineSeconds"] for name in ("train", "evaluate", "gate")} == {
        stage.name: stage.deadline_s for stage in STAGES if stage.name != "prepare"
    }
    spec = yaml.safe_load(render(ChartValues(train_deadline_s=90_000)))["spec"]
    long = {template["name"]: template.get("activeDeadlineSeconds") for template in spec["templates"]}
    assert (long["train"], long["evaluate"]) == (90_000, templates["evaluate"]["activeDeadlineSeconds"])


def test_shared_memory_is_memory(templates: dict[str, Any]) -> None:
    assert templates["train"]["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}}
    ]


def test_parameters_are_complete_and_described(spec: dict[str, Any]) -> None:
    parameters = {item["name"]: item for item in spec["arguments"]["parameters"]}
    assert set(parameters) == {name.replace("_", "-") for name in RunParameters.model_fields}
    assert all(item["description"] and isinstance(item["value"], str) for item in parameters.values())
    assert parameters["market"]["enum"] == ["files", "planted", "martingale"]
    parameters_of([f"{name}={item['value']}" for name, item in parameters.items()])  # defaults validate


def test_a_submitted_workflow_holds_reference_arguments_and_labels_only(rendered: dict[str, Any]) -> None:
    workflow = rendered["workflow.yaml"]
    assert set(workflow["spec"]) == {"workflowTemplateRef", "arguments"}
    given = {item["name"]: item["value"] for item in workflow["spec"]["arguments"]["parameters"]}
    assert given == {"folds": "5", "market": "planted", "run-id": "abc-1"}


def test_a_cpu_cluster_needs_no_gpu_anywhere() -> None:
    text = render(CPU_VALUES)
    assert "nvidia.com/gpu" not in text
    assert "nodeSelector" not in text
    assert "nodeAntiAffinity: {}" in text


def test_values_reach_the_template() -> None:
    values = ChartValues(
        namespace="ml", queue_name="gpus", priority_class="high", image="registry/alpha", grace_s=30
    )
    body = yaml.safe_load(render(values))
    train = next(item for item in body["spec"]["templates"] if item["name"] == "train")
    assert body["metadata"]["namespace"] == "ml"
    assert train["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    assert train["priorityClassName"] == "high"
    assert train["container"]["image"] == "registry/alpha:{{workflow.parameters.git-branch}}"
    assert '"terminationGracePeriodSeconds": 30' in body["spec"]["podSpecPatch"]


def test_the_whole_template_is_far_below_argos_megabyte() -> None:
    assert len(render(ChartValues())) < 100_000


def test_the_verdict_and_its_report_are_outputs_also_of_a_gate_that_rejects(
    templates: dict[str, Any],
) -> None:
    outputs = templates["gate"]["outputs"]
    files = {item["name"]: item["valueFrom"]["path"].rpartition("/")[2] for item in outputs["parameters"]}
    assert files == {"summary": "summary.json", "report": "report.txt", "report-html": "report.html"}
    # A gate that broke has no files: without a default Argo would call that the error.
    assert all(item["valueFrom"]["default"] == "" for item in outputs["parameters"])


def test_the_report_is_an_artifact_only_where_there_is_a_repository(templates: dict[str, Any]) -> None:
    assert "artifacts" not in templates["gate"]["outputs"]
    spec = yaml.safe_load(render(ChartValues(artifact_repository=True)))["spec"]
    gate = next(template for template in spec["templates"] if template["name"] == "gate")
    (artifact,) = gate["outputs"]["artifacts"]
    # The key in the repository ends like the path: by that the UI shows the page instead of loading it down.
    assert artifact["path"].endswith("/report.html")
    assert artifact["archive"] == {"none": {}}
    assert artifact["optional"] is True


def test_the_exit_handler_is_told_how_the_run_ended(spec: dict[str, Any], templates: dict[str, Any]) -> None:
    assert spec["onExit"] == "finish"
    words = templates["finish"]["container"]["args"]
    assert words[words.index("--status") + 1] == "{{workflow.status}}"
    assert words[words.index("--failures") + 1] == "{{workflow.failures}}"
    assert "hooks" not in spec


def test_the_token_is_mounted_into_argos_containers_alone(
    spec: dict[str, Any], templates: dict[str, Any]
) -> None:
    patch = json.loads(spec["podSpecPatch"])
    assert patch["automountServiceAccountToken"] is False
    (volume,) = patch["volumes"]
    holders = [*patch["containers"], *patch["initContainers"]]
    assert [one["name"] for one in holders] == ["wait", "init"]
    assert all(volume["name"] in {mount["name"] for mount in one["volumeMounts"]} for one in holders)
    # They read the gate's outputs from the claim, whose files belong to the stages' user.
    assert {one["securityContext"]["runAsUser"] for one in holders} == {ChartValues().user_id}
    stages = [template["container"] for template in templates.values() if "container" in template]
    assert volume["name"] not in {mount["name"] for one in stages for mount in one["volumeMounts"]}


def sent(*pairs: str) -> dict[str, str]:
    """Parameters of the submitted workflow."""
    body = yaml.safe_load(render(ChartValues(), parameters_of(list(pairs))))
    return {item["name"]: item["value"] for item in body["spec"]["arguments"]["parameters"]}


def test_what_was_given_is_sent_though_it_equals_our_default() -> None:
    assert sent("folds=3")["folds"] == "3"
    assert set(sent("folds=3")) == {"folds", "run-id"}


def test_another_preset_brings_its_own_sizes_unless_they_are_given() -> None:
    found = sent("preset=demo", "n-steps=20", "run-id=a")
    assert found == {
        "run-id": "a",
        "preset": "demo",
        "n-steps": "20",
        "n-backtests": "64",
        "per-capacity": "16384",
        "checkpoint-every": "100",
    }


def test_credentials_of_the_store_are_named_and_never_written() -> None:
    spec = yaml.safe_load(render(ChartValues(env_secret="store")))["spec"]
    named = {
        template["name"]: template["container"].get("envFrom")
        for template in spec["templates"]
        if "container" in template
    }
    reference = [{"secretRef": {"name": "store"}}]
    assert named == {**dict.fromkeys(("prepare", "train", "evaluate", "gate"), reference), "finish": None}
