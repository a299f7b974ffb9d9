"""The namespace, what the pods refer to, quotas and network policies."""

import copy
from typing import Any

import pytest

from pipelines.cluster.api import Body
from pipelines.cluster.doctor.namespace import network, present, quotas, references
from tests.pipelines.cluster.doctor.fakes import OWN, TEMPLATE, FakeReader, healthy, look, only, texts

CONFIG = f"{OWN}/configmaps/workflow-controller-configmap"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/argo/networkpolicies"


def test_a_namespace_that_is_there_is_ok() -> None:
    assert only(look(present, healthy()), "ok")


def test_an_absent_namespace_is_an_error_said_once() -> None:
    reader = healthy()
    del reader.objects["/api/v1/namespaces/argo"]
    assert "no namespace argo" in only(look(present, reader), "error")


def test_a_namespace_being_deleted_is_an_error() -> None:
    reader = healthy()
    reader.objects["/api/v1/namespaces/argo"]["status"]["phase"] = "Terminating"
    assert "being deleted" in only(look(present, reader), "error")


def stage(reader: FakeReader, name: str) -> Any:
    return next(each for each in reader.objects[TEMPLATE]["spec"]["templates"] if each["name"] == name)


def quota(**hard: str) -> FakeReader:
    reader = healthy()
    named = {key.replace("__", "."): value for key, value in hard.items()}
    reader.objects[f"{OWN}/resourcequotas/team"] = {"metadata": {"name": "team"}, "spec": {"hard": named}}
    return reader


def test_no_quota_says_nothing() -> None:
    assert look(quotas, healthy()) == []


@pytest.mark.parametrize(
    ("key", "who"),
    [
        ("limits.cpu", "prepare, train, evaluate, gate, finish, Argo's own containers"),
        ("requests.memory", "Argo's own containers"),
        ("cpu", "Argo's own containers"),
    ],
)
def test_a_quota_on_what_a_container_does_not_set_is_an_error_that_names_it(key: str, who: str) -> None:
    full = key if "." in key else f"requests.{key}"
    text = only(look(quotas, quota(**{key.replace(".", "__"): "10"})), "error")
    assert f"quota team refuses pods whose containers do not set {full} (not set by {who})" in text


def test_resources_that_the_controller_gives_to_argos_containers_count() -> None:
    reader = quota(requests__cpu="10", requests__memory="1Ti")
    reader.objects[CONFIG]["data"] = {"executor": "resources: {limits: {cpu: 100m, memory: 64Mi}}"}
    assert only(look(quotas, reader), "ok")


def test_a_quota_of_other_things_is_ok() -> None:
    assert only(look(quotas, quota(pods="100", services="3")), "ok")


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


REFERRING = {
    "env": ("container", "env", {"name": "K", "valueFrom": {"secretKeyRef": {"name": "bucket", "key": "k"}}}),
    "envFrom": ("container", "envFrom", {"secretRef": {"name": "bucket"}}),
    "volume": ("", "volumes", {"name": "v", "secret": {"secretName": "bucket"}}),
    "config": ("container", "envFrom", {"configMapRef": {"name": "bucket"}}),
}


def referring(how: str, **more: Any) -> FakeReader:
    reader = healthy()
    place, key, body = copy.deepcopy(REFERRING[how])
    next(value for value in (body.get("valueFrom") or body).values() if isinstance(value, dict)).update(more)
    target = stage(reader, "train")
    target = target[place] if place else target
    target.setdefault(key, []).append(body)
    return reader


def test_a_template_that_names_no_secret_says_nothing() -> None:
    assert look(references, healthy()) == []


@pytest.mark.parametrize("how", REFERRING)
def test_a_named_secret_or_config_map_must_be_there_and_its_content_is_not_read(how: str) -> None:
    reader = referring(how)
    resource = "configmaps" if how == "config" else "secrets"
    text = only(look(references, reader), "error")
    assert "bucket of the stages is not in namespace argo" in text
    assert f"kubectl create {'configmap' if how == 'config' else 'secret generic'} bucket -n argo" in text
    reader.objects[f"{OWN}/{resource}/bucket"] = {"metadata": {"name": "bucket"}}
    assert "bucket is there" in only(look(references, reader), "ok")
    assert all(only_name for path, only_name in reader.asked if path.endswith("/bucket"))


def test_an_optional_secret_may_be_absent() -> None:
    assert look(references, referring("envFrom", optional=True)) == []


def policy(name: str, selector: Body, *rules: Body, types: tuple[str, ...] = ("Egress",)) -> Body:
    spec = {"podSelector": selector, "policyTypes": list(types), "egress": list(rules)}
    return {"metadata": {"name": name}, "spec": spec}


def with_policies(*bodies: Body) -> FakeReader:
    reader = healthy()
    for body in bodies:
        reader.objects[f"{POLICIES}/{body['metadata']['name']}"] = body
    return reader


def test_no_policy_is_ok() -> None:
    assert "no network policy keeps" in only(look(network, healthy()), "ok")


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
    assert "network policies: 1, none keeps" in only(
        look(network, with_policies(policy("some", {}, rule))), "ok"
    )


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
