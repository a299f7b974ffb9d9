"""What a submit sends: only what was given, checked here and against the template on the cluster."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cluster.find import LABEL_VALUE
from pipelines.cluster.submission import (
    Submission,
    again,
    check_against,
    check_names,
    stable_run_id,
    workflow_body,
)
from pipelines.golden import GOLDEN_DIR
from pipelines.parameters import RunParameters
from pipelines.settings import matches
from tests.pipelines.cluster.memory_api import TEMPLATE, submitted
from trainer.errors import InputError

SENT = {"folds": "5", "market": "planted"}


def template(**items: Any) -> dict[str, Any]:
    """The rendered template with some parameters replaced, or left out (None)."""
    found = copy.deepcopy(TEMPLATE)
    parameters = {item["name"]: item for item in found["spec"]["arguments"]["parameters"]}
    for name, item in items.items():
        key = name.replace("_", "-")
        parameters[key] = item and {"name": key, **item}
    found["spec"]["arguments"]["parameters"] = [item for item in parameters.values() if item]
    return found


def test_the_run_id_is_the_same_for_the_same_parameters_whatever_their_order() -> None:
    one = stable_run_id({"folds": "3", "seed": "1"}, "c")
    assert one == stable_run_id({"seed": "1", "folds": "3"}, "c")
    assert one != stable_run_id({"folds": "3", "seed": "2"}, "c")
    assert one.startswith("main-")
    assert stable_run_id({"folds": "3", "git-branch": "v2"}, "c").startswith("v2-")


def test_a_tag_that_moves_takes_the_code_into_the_key_and_a_commit_does_not() -> None:
    """Else a branch that was pushed again would be answered with the verdict of its old code."""
    for tag, moves in (("main", True), ("dev", True), ("v1.2", True), ("0a1b2c3", False), ("f" * 40, False)):
        values = {"folds": "3", "git-branch": tag}
        assert (stable_run_id(values, "one") != stable_run_id(values, "two")) == moves, tag


def test_the_code_of_who_submits_is_the_one_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = set()
    for sha in ("a" * 40, "b" * 40):
        monkeypatch.setenv("CODE_SHA", sha)
        ids.add(Submission("walkforward", {"folds": "3"}).run_id)
        assert Submission("walkforward", {"run-id": "mine"}).run_id == "mine"
    assert len(ids) == 2


@pytest.mark.parametrize("elsewhere", [{"fold-idx": "1"}, {"gpu-pool": "other"}, {"mirror": "s3://results"}])
def test_another_fold_pool_or_mirror_of_the_same_run_is_the_same_run(elsewhere: dict[str, str]) -> None:
    assert stable_run_id({"folds": "3", **elsewhere}, "c") == stable_run_id({"folds": "3"}, "c")


@given(
    st.dictionaries(st.sampled_from(["folds", "seed", "config"]), st.text(max_size=5)),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", fullmatch=True),
)
def test_a_run_id_is_always_a_label_a_directory_and_a_parameter(values: dict[str, str], branch: str) -> None:
    run_id = stable_run_id({**values, "git-branch": branch}, "c")
    assert matches(LABEL_VALUE, run_id)
    assert RunParameters(run_id=run_id).run_id == run_id


def test_the_body_is_the_workflow_that_render_writes() -> None:
    golden = yaml.safe_load((GOLDEN_DIR / "workflow.yaml").read_text())
    assert workflow_body(Submission("walkforward", {**SENT, "run-id": "abc-1"}), "argo") == golden


def test_without_run_id_the_stable_one_is_sent_and_labelled() -> None:
    submission = Submission("walkforward", SENT)
    body = workflow_body(submission, "")
    assert body["spec"]["arguments"]["parameters"][-1] == {"name": "run-id", "value": submission.run_id}
    assert body["metadata"]["labels"]["alpha-rl/run-id"] == submission.run_id
    assert "namespace" not in body["metadata"]


def test_a_run_id_that_is_no_label_is_sent_without_one() -> None:
    body = workflow_body(Submission("walkforward", {"run-id": "x" * 64}), "")
    assert "alpha-rl/run-id" not in body["metadata"]["labels"]
    assert body["spec"]["arguments"]["parameters"][-1]["value"] == "x" * 64


def test_names_and_labels_are_what_kubernetes_takes() -> None:
    assert check_names("my-run", "team=desk,a.b/c=1,empty=") == {"team": "desk", "a.b/c": "1", "empty": ""}


@pytest.mark.parametrize(
    ("name", "labels"), [("My", ""), ("-a", ""), ("a" * 64, ""), ("", "a"), ("", "a=b c"), ("", "/x=1")]
)
def test_names_and_labels_that_kubernetes_refuses(name: str, labels: str) -> None:
    with pytest.raises(InputError):
        check_names(name, labels)


def test_the_rendered_template_takes_every_parameter() -> None:
    sent = {item["name"]: str(item["value"]) for item in TEMPLATE["spec"]["arguments"]["parameters"]}
    assert check_against(TEMPLATE, Submission("walkforward", sent)) == sent


def test_the_templates_defaults_are_under_what_is_sent() -> None:
    values = check_against(template(n_steps={"value": "777"}), Submission("walkforward", SENT))
    assert (values["n-steps"], values["folds"]) == ("777", "5")


@pytest.mark.parametrize(
    ("items", "sent", "other", "message"),
    [
        (
            {"market": None},
            SENT,
            {},
            "WorkflowTemplate walkforward: no parameter market; it takes git-branch",
        ),
        ({}, {}, {"later": "1"}, "no parameter later"),
        (
            {"market": {"value": "files", "enum": ["files", "martingale"]}},
            SENT,
            {},
            "market: 'planted'; use one of files, martingale",
        ),
        ({"desk": {"description": "who pays"}}, SENT, {}, "desk has no default; give -p desk=VALUE"),
        ({"n_backtests": {"value": "99999"}}, SENT, {}, "must be a power of two >= n_backtests 99999"),
    ],
)
def test_what_the_template_on_the_cluster_does_not_take(
    items: dict[str, Any], sent: dict[str, str], other: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as said:
        check_against(template(**items), Submission("walkforward", sent, other))
    assert message in str(said.value)


def test_a_newer_template_takes_its_own_parameters() -> None:
    submission = Submission("walkforward", SENT, {"later": "1"})
    assert check_against(template(later={"value": "0"}), submission)["later"] == "1"


def test_again_is_for_the_controller_that_took_the_first() -> None:
    old = submitted("wf-1", "Failed", run_id="run")
    old["metadata"]["labels"] |= {
        "workflows.argoproj.io/controller-instanceid": "blue",
        "workflows.argoproj.io/phase": "Failed",
    }
    labels = again(old, "run")["metadata"]["labels"]
    assert labels["workflows.argoproj.io/controller-instanceid"] == "blue"
    assert "workflows.argoproj.io/phase" not in labels


def test_again_is_the_same_run_with_its_parameters_and_labels_in_a_new_workflow() -> None:
    body = again(submitted("wf-1", "Failed", run_id="run", folds="3"), "run")
    assert body["metadata"] == {
        "generateName": "walkforward-",
        "namespace": "trading",
        "labels": {
            "app.kubernetes.io/name": "alpha-rl",
            "team": "desk",
            "workflows.argoproj.io/workflow-template": "walkforward",
            "alpha-rl/run-id": "run",
        },
    }
    assert body["spec"] == {
        "workflowTemplateRef": {"name": "walkforward"},
        "arguments": {"parameters": [{"name": "folds", "value": "3"}, {"name": "run-id", "value": "run"}]},
    }
