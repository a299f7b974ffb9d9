"""The namespace, its Pod Security, quotas and network policies."""

from typing import Any

import pytest

from pipelines.cluster.api import Body
from pipelines.cluster.doctor.namespace import network, pod_security, present, quotas
from tests.pipelines.cluster.doctor.fakes import OWN, TEMPLATE, FakeReader, healthy, look, only, texts

ENFORCE = "pod-security.kubernetes.io/enforce"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/argo/networkpolicies"


def test_a_namespace_that_is_there_is_ok() -> None:
    assert only(look(present, healthy()), "ok")


def test_an_absent_namespace_is_an_error_said_once() -> None:
    reader = healthy()
    del reader.objects["/api/v1/namespaces/argo"]
    assert "no namespace argo" in only(look(present, reader), "error")
    assert look(pod_security, reader) == []


def test_a_namespace_being_deleted_is_an_error() -> None:
    reader = healthy()
    reader.objects["/api/v1/namespaces/argo"]["status"]["phase"] = "Terminating"
    assert "being deleted" in only(look(present, reader), "error")


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
        ("patch", "Argo's container init is not restricted by the template"),
        ("broken patch", "Argo's container wait is not restricted by the template"),
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


def quota(**hard: str) -> FakeReader:
    reader = healthy()
    named = {key.replace("__", "."): value for key, value in hard.items()}
    reader.objects[f"{OWN}/resourcequotas/team"] = {"metadata": {"name": "team"}, "spec": {"hard": named}}
    return reader


def test_no_quota_says_nothing() -> None:
    assert look(quotas, healthy()) == []


@pytest.mark.parametrize("key", ["limits__cpu", "requests__memory", "cpu"])
def test_a_quota_on_what_argos_containers_do_not_set_is_an_error(key: str) -> None:
    assert f"quota team wants {key.replace('__', '.')} set" in only(
        look(quotas, quota(**{key: "10"})), "error"
    )


def test_a_limit_range_with_defaults_heals_it() -> None:
    reader = quota(limits__cpu="10", requests__cpu="10", memory="1Ti")
    limit = {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}}
    reader.objects[f"{OWN}/limitranges/x"] = {"metadata": {"name": "x"}, "spec": {"limits": [limit]}}
    assert only(look(quotas, reader), "ok")
    limit["type"] = "Pod"
    assert only(look(quotas, reader), "error")


def test_a_quota_of_no_gpu_is_an_error() -> None:
    reader = quota(**{"requests__nvidia__com/gpu": "0"})
    assert "allows 0 nvidia.com/gpu" in texts(look(quotas, reader), "error")[0]


def policy(name: str, selector: Body, *rules: Body, types: tuple[str, ...] = ("Egress",)) -> Body:
    spec = {"podSelector": selector, "policyTypes": list(types), "egress": list(rules)}
    return {"metadata": {"name": name}, "spec": spec}


def with_policies(*bodies: Body) -> FakeReader:
    reader = healthy()
    for body in bodies:
        reader.objects[f"{POLICIES}/{body['metadata']['name']}"] = body
    return reader


def test_no_policy_is_ok() -> None:
    assert "no network policy closes" in only(look(network, healthy()), "ok")


def test_a_policy_that_closes_everything_is_an_error_for_every_stage() -> None:
    errors = texts(look(network, with_policies(policy("closed", {}))), "error")
    assert len(errors) == 5
    assert "network policy closed keeps train from the Kubernetes API" in " ".join(errors)


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"ports": [{"port": 443}]},
        {"ports": [{"port": 6443, "protocol": "TCP"}]},
        {"ports": [{"protocol": "TCP"}]},
        {"ports": [{"port": 1, "endPort": 7000}]},
        {"ports": [{"port": "https"}]},
    ],
)
def test_a_rule_that_may_lead_to_the_api_is_ok(rule: Body) -> None:
    assert "1 network policies leave" in only(look(network, with_policies(policy("some", {}, rule))), "ok")


@pytest.mark.parametrize(
    "rule", [{"ports": [{"port": 53, "protocol": "UDP"}]}, {"ports": [{"port": 443, "protocol": "UDP"}]}]
)
def test_a_rule_for_other_ports_does_not_open_the_api(rule: Body) -> None:
    assert texts(look(network, with_policies(policy("dns", {}, rule))), "error")


def test_a_second_policy_may_open_it_again() -> None:
    bodies = (policy("closed", {}), policy("open", {}, {"ports": [{"port": 443}]}))
    assert only(look(network, with_policies(*bodies)), "ok")


def test_policies_for_other_pods_or_for_ingress_alone_do_not_matter() -> None:
    others = policy("web", {"matchLabels": {"app": "web"}})
    ingress = policy("in", {}, types=("Ingress",))
    assert only(look(network, with_policies(others, ingress)), "ok")


def test_a_policy_for_one_stage_is_an_error_for_that_stage_alone() -> None:
    body = policy(
        "gpu", {"matchExpressions": [{"key": "alpha-rl/stage", "operator": "In", "values": ["train"]}]}
    )
    assert "keeps train from" in only(look(network, with_policies(body)), "error")


def test_a_policy_for_all_pods_of_workflows_is_seen() -> None:
    body = policy(
        "argo", {"matchExpressions": [{"key": "workflows.argoproj.io/workflow", "operator": "Exists"}]}
    )
    assert len(texts(look(network, with_policies(body)), "error")) == 5
