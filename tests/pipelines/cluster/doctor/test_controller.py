"""The controller and its settings, with what can be seen of them from a namespace."""

import pytest

from pipelines.cluster.doctor.controller import controller, settings, span
from tests.pipelines.cluster.doctor.fakes import (
    NAMESPACE,
    OWN,
    WORKFLOWS,
    FakeReader,
    ago,
    controller_pod,
    healthy,
    look,
    only,
    texts,
)

CONFIG = f"{OWN}/configmaps/workflow-controller-configmap"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/workflow-controller"


def unseen() -> FakeReader:
    """A cluster whose controller runs where this user may not look."""
    reader = healthy()
    reader.denied = {"pods"}
    return reader


def with_workflow(reader: FakeReader, name: str, age: float, phase: str = "") -> FakeReader:
    labels = {"workflows.argoproj.io/phase": phase} if phase else {}
    reader.objects[f"{WORKFLOWS}/{name}"] = {
        "metadata": {"name": name, "creationTimestamp": ago(age), "labels": labels},
    }
    return reader


def test_a_ready_controller_of_a_tried_version_is_ok() -> None:
    assert texts(look(controller, healthy()), "ok") == [
        "workflow controller argo/workflow-controller-1 is ready -> ",
        "Argo 4.0.5 (tried: 3.6 to 4.1) -> ",
    ]


def test_a_controller_with_the_labels_of_argos_chart_is_found() -> None:
    reader = healthy()
    pod = controller_pod()
    pod["metadata"]["labels"] = {"app.kubernetes.io/component": "workflow-controller"}
    reader.objects["/api/v1/pods"] = {"items": [pod]}
    assert "is ready" in texts(look(controller, reader), "ok")[0]
    pod["metadata"]["labels"] = {"app": "web"}
    assert "can be seen" in only(look(controller, reader), "warning")


@pytest.mark.parametrize(
    ("image", "level", "text"),
    [
        ("x/workflow-controller:v3.5.13", "error", "Argo 3.5.13 is too old"),
        ("x/workflow-controller:v3.6.0", "ok", "Argo 3.6.0"),
        ("registry:5000/workflow-controller:v4.1.2", "ok", "Argo 4.1.2"),
        ("x/workflow-controller:v4.2.0-rc1", "warning", "Argo 4.2.0-rc1 is newer"),
        ("x/workflow-controller:v10.0.0", "warning", "Argo 10.0.0 is newer"),
        ("x/workflow-controller:latest", "warning", "cannot be read"),
        ("x/workflow-controller@sha256:abc", "warning", "cannot be read"),
        ("registry:5000/workflow-controller", "warning", "cannot be read"),
    ],
)
def test_the_version_is_that_of_the_image(image: str, level: str, text: str) -> None:
    reader = healthy()
    reader.objects["/api/v1/pods"] = {"items": [controller_pod(image)]}
    assert text in texts(look(controller, reader), level)[-1]


def test_a_controller_that_is_not_ready_is_an_error() -> None:
    reader = healthy()
    pod = controller_pod()
    pod["status"]["conditions"][0]["status"] = "False"
    reader.objects["/api/v1/pods"] = {"items": [pod]}
    assert "is not ready -> kubectl describe pod" in only(look(controller, reader), "error")


@pytest.mark.parametrize("option", [["--managed-namespace=other"], ["--managed-namespace", "other"]])
def test_a_controller_of_another_namespace_is_an_error(option: list[str]) -> None:
    reader = healthy()
    reader.objects["/api/v1/pods"] = {"items": [controller_pod("x:v4.0.5", *option)]}
    assert "watches namespace other only, not argo" in only(look(controller, reader), "error")


def test_a_namespaced_controller_watches_its_own() -> None:
    reader = healthy()
    reader.objects["/api/v1/pods"] = {"items": [controller_pod("x:v4.0.5", "--namespaced")]}
    assert texts(look(controller, reader), "error") == []


def test_a_fresh_lease_shows_an_unseen_controller_alive() -> None:
    reader = unseen()
    reader.objects[LEASE] = {"metadata": {"name": "workflow-controller"}, "spec": {"renewTime": ago(3)}}
    assert "renewed its lease" in only(look(controller, reader), "ok")


def test_an_old_lease_shows_nothing() -> None:
    reader = unseen()
    reader.objects[LEASE] = {"metadata": {"name": "workflow-controller"}, "spec": {"renewTime": ago(900)}}
    assert "no workflow controller can be seen" in only(look(controller, reader), "warning")


def test_a_workflow_that_nobody_takes_is_an_error_even_when_no_controller_can_be_seen() -> None:
    reader = with_workflow(unseen(), "lonely", 300)
    assert "workflow lonely was made 5 min ago and no controller has taken it" in only(
        look(controller, reader), "error"
    )


def test_a_workflow_just_created_is_no_evidence() -> None:
    reader = with_workflow(unseen(), "new", 3)
    assert "no workflow controller can be seen" in only(look(controller, reader), "warning")


def test_a_workflow_taken_before_is_told() -> None:
    reader = with_workflow(unseen(), "old", 7200, "Succeeded")
    assert "the last workflow it took: old, Succeeded, made 2 h ago" in only(
        look(controller, reader), "warning"
    )


def test_a_workflow_taken_just_now_shows_a_live_controller() -> None:
    reader = with_workflow(unseen(), "young", 100, "Running")
    assert "a workflow controller took young, Running" in only(look(controller, reader), "ok")


def test_workflows_are_asked_for_without_their_status_which_may_be_large() -> None:
    reader = healthy()
    look(controller, reader)
    assert (WORKFLOWS, True) in reader.asked


def test_an_old_untaken_workflow_does_not_count_when_a_newer_one_was_taken() -> None:
    reader = with_workflow(with_workflow(unseen(), "suspended", 9000), "done", 100, "Running")
    assert texts(look(controller, reader), "error") == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5 s"), (119, "119 s"), (121, "2 min"), (7199, "119 min"), (7201, "2 h"), (200_000, "2 days")],
)
def test_spans_are_told_in_whole_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_settings_without_instance_are_ok() -> None:
    assert "without an instance label" in only(look(settings, healthy()), "ok")


@pytest.mark.parametrize("data", [{"instanceID": "blue"}, {"config": "instanceID: blue\nparallelism: 3\n"}])
def test_an_instance_id_is_a_warning_in_both_of_argos_forms(data: dict[str, str]) -> None:
    reader = healthy()
    reader.objects[CONFIG]["data"] = data
    assert "controller-instanceid=blue" in only(look(settings, reader), "warning")
    assert "controller-instanceid=blue" in only(look(settings, reader, instance_id="blue"), "ok")
    assert "controller-instanceid=blue" in only(look(settings, reader, instance_id="red"), "warning")


def test_an_instance_that_the_controller_does_not_have_is_a_warning() -> None:
    said = only(look(settings, healthy(), instance_id="blue"), "warning")
    assert "takes only workflows without an instance label" in said


def test_settings_that_cannot_be_seen_are_a_warning() -> None:
    reader = healthy()
    reader.denied = {CONFIG}
    assert "cannot be seen from here" in only(look(settings, reader), "warning")


def test_a_workflow_taken_without_instance_label_answers_for_unseen_settings() -> None:
    reader = with_workflow(healthy(), "old", 7200, "Failed")
    reader.denied = {CONFIG}
    assert "took old, which has no instance label" in only(look(settings, reader), "ok")
    body = reader.objects[f"{WORKFLOWS}/old"]
    body["metadata"]["labels"]["workflows.argoproj.io/controller-instanceid"] = "blue"
    assert "which has the instance label blue" in only(look(settings, reader, instance_id="blue"), "ok")
    assert "cannot be seen from here" in only(look(settings, reader), "warning")


def test_settings_that_are_no_yaml_count_as_empty() -> None:
    reader = healthy()
    reader.objects[CONFIG]["data"] = {"config": "a: [b"}
    assert only(look(settings, reader), "ok")
