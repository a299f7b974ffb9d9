"""Pod Security levels against the template."""

from typing import Any

import pytest

from pipelines.cluster.doctor.pod_security import pod_security
from tests.pipelines.cluster.doctor.fakes import OWN, TEMPLATE, FakeReader, healthy, look, only

CONFIG = f"{OWN}/configmaps/workflow-controller-configmap"
ENFORCE = "pod-security.kubernetes.io/enforce"


def labelled(level: str | None) -> FakeReader:
    reader = healthy()
    reader.objects["/api/v1/namespaces/argo"]["metadata"]["labels"] = {ENFORCE: level} if level else {}
    return reader


def stage(reader: FakeReader, name: str) -> Any:
    return next(each for each in reader.objects[TEMPLATE]["spec"]["templates"] if each["name"] == name)


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_an_enforced_level_that_the_template_meets_is_ok(level: str) -> None:
    assert f"Pod Security {level} is enforced" in only(look(pod_security, labelled(level)), "ok")


@pytest.mark.parametrize("level", [None, "privileged"])
def test_no_enforced_level_is_a_warning(level: str | None) -> None:
    text = only(look(pod_security, labelled(level)), "warning")
    assert "the template meets restricted" in text
    assert f"kubectl label namespace argo {ENFORCE}=restricted" in text


def unsafe(reader: FakeReader, change: str) -> None:
    spec, train = reader.objects[TEMPLATE]["spec"], stage(reader, "train")
    security = train["container"]["securityContext"]
    match change:
        case "root":
            del security["runAsNonRoot"], spec["securityContext"]["runAsNonRoot"]
        case "user 0":
            security["runAsUser"] = 0
        case "capabilities":
            security["capabilities"]["drop"] = ["NET_RAW"]
        case "escalation":
            del security["allowPrivilegeEscalation"]
        case "privileged":
            security["privileged"] = True
        case "seccomp":
            del security["seccompProfile"], spec["securityContext"]["seccompProfile"]
        case "host path":
            spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
        case "patch":
            spec["podSpecPatch"] = "{}"
        case "broken patch":
            spec["podSpecPatch"] = "{a: [b"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("root", "train may run as root"),
        ("user 0", "train runs as user 0"),
        ("capabilities", "train keeps capabilities or may gain privileges"),
        ("escalation", "train keeps capabilities or may gain privileges"),
        ("seccomp", "train has no seccomp profile"),
        ("host path", "volume host is a hostPath"),
        ("patch", "neither the template nor the controller restricts Argo's container init"),
        ("broken patch", "neither the template nor the controller restricts Argo's container wait"),
    ],
)
def test_what_restricted_refuses_is_an_error_that_names_it(change: str, text: str) -> None:
    reader = healthy()
    unsafe(reader, change)
    assert text in only(look(pod_security, reader), "error")
    relaxed = labelled(None)
    unsafe(relaxed, change)
    text_there = only(look(pod_security, relaxed), "warning")
    assert "would not meet restricted: " in text_there
    assert text in text_there


def test_a_controller_that_restricts_argos_containers_is_enough() -> None:
    reader = healthy()
    unsafe(reader, "patch")
    security = "{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
    reader.objects[CONFIG]["data"] = {"executor": f"securityContext: {security}"}
    assert only(look(pod_security, reader), "ok")


@pytest.mark.parametrize(
    ("change", "text"), [("host path", "volume host is a hostPath"), ("privileged", "train is privileged")]
)
def test_baseline_refuses_less(change: str, text: str) -> None:
    reader = labelled("baseline")
    unsafe(reader, change)
    assert text in only(look(pod_security, reader), "error")
    harmless = labelled("baseline")
    unsafe(harmless, "seccomp")
    assert only(look(pod_security, harmless), "ok")


def test_an_absent_namespace_is_said_elsewhere() -> None:
    reader = healthy()
    del reader.objects["/api/v1/namespaces/argo"]
    assert look(pod_security, reader) == []


def test_a_volume_that_only_baseline_lets_in_is_named() -> None:
    reader = healthy()
    reader.objects[TEMPLATE]["spec"]["volumes"].append({"name": "share", "nfs": {"server": "x", "path": "/"}})
    assert "volume share is a nfs" in only(look(pod_security, reader), "error")
    reader.objects["/api/v1/namespaces/argo"]["metadata"]["labels"][ENFORCE] = "baseline"
    assert only(look(pod_security, reader), "ok")
