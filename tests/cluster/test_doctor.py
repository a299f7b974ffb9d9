"""`walkforward doctor` on a real cluster: all well, then one thing broken at a time, and with few rights."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cluster.connection import ConnectionOptions
from pipelines.cluster.doctor.cluster import Asked
from pipelines.cluster.doctor.examine import examine
from pipelines.render import render
from pipelines.settings import ChartValues
from tests.cluster.harness import VALUES, Cluster, Namespace

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
NAME = "wf-doctor"
TAG = "dev"
OTHER_NODE = "wf-doctor-node"


@pytest.fixture(scope="module")
def own(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """A namespace with everything a run needs."""
    made = Namespace(cluster, NAME, tmp_path_factory.mktemp("doctor"))
    made.start()
    yield made
    made.remove()


def found(namespace: Namespace, kubeconfig: str | None = None, **asked: Any) -> dict[str, list[str]]:
    """`error claims` -> lines of that level and check."""
    options = ConnectionOptions(
        namespace=namespace.name, kubeconfig=Path(kubeconfig or namespace.cluster.env["KUBECONFIG"])
    )
    lines: dict[str, list[str]] = {}
    parameters = {"git-branch": TAG, **asked.pop("parameters", {})}
    for each in examine(options, Asked(parameters=parameters, **asked), raising=True):
        key = f"{each.result.level} {each.check}"
        lines.setdefault(key, []).append(f"{each.result.what} -> {each.result.do}")
    return lines


def errors(lines: dict[str, list[str]]) -> dict[str, list[str]]:
    return {key.removeprefix("error "): value for key, value in lines.items() if key.startswith("error")}


@contextmanager
def applied(namespace: Namespace, *bodies: dict[str, Any]) -> Iterator[None]:
    """Objects that are there for the length of a test."""
    namespace.apply(*bodies)
    try:
        yield
    finally:
        text = "\n---\n".join(yaml.safe_dump(body) for body in bodies)
        namespace.cluster.kubectl("-n", namespace.name, "delete", "--wait", "-f", "-", stdin=text)


def test_a_good_namespace_has_no_error_and_the_command_says_so(own: Namespace) -> None:
    assert errors(found(own)) == {}
    done = own.command("doctor", "-p", f"git-branch={TAG}", "--json")
    assert done.returncode == 0, done.stdout
    body = json.loads(done.stdout)
    assert body["errors"] == 0
    assert {"claims", "pools", "semaphore", "current", "schema"} <= {
        each["check"] for each in body["findings"]
    }


def test_the_template_is_whole_in_the_real_schema_and_what_this_code_renders(own: Namespace) -> None:
    lines = found(own)
    assert "full schema, which knows every field" in lines["ok schema"][0]
    assert "what this code renders from its own values" in lines["ok current"][0]
    assert lines["ok service-account"][0].endswith("none of 8 dangerous verbs -> ")


def test_a_changed_template_is_a_warning_that_names_the_place(own: Namespace) -> None:
    values = ChartValues.model_validate({**VALUES, "namespace": own.name})
    own.apply(render(values).replace("limit: 10", "limit: 2"))
    try:
        assert "spec.templates.train.retryStrategy.limit is 2" in found(own)["warning current"][0]
    finally:
        own.install()


def test_no_template_claim_account_or_semaphore_are_four_errors(own: Namespace) -> None:
    empty = Namespace(own.cluster, f"{NAME}-empty", own.disk)
    own.cluster.kubectl("create", "namespace", empty.name)
    try:
        lines = errors(found(empty))
    finally:
        own.cluster.kubectl("delete", "namespace", empty.name, "--wait=false")
    assert {"installed", "claims", "service-account", "semaphore"} <= set(lines)
    assert f"helm install walkforward charts/walkforward -n {empty.name}" in lines["installed"][0]


def test_a_namespace_that_is_not_there_is_an_error(own: Namespace) -> None:
    absent = Namespace(own.cluster, "wf-doctor-nowhere", own.disk)
    assert "there is no namespace wf-doctor-nowhere" in errors(found(absent))["namespace"][0]


def test_read_write_once_with_parallel_folds_is_refused_on_two_nodes_and_doubted_on_one(
    own: Namespace, tmp_path: Path
) -> None:
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{NAME}-once"},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"{NAME}-once",
            "hostPath": {"path": str(tmp_path)},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "once"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": f"{NAME}-once",
            "resources": {"requests": size},
        },
    }
    with applied(own, claim, volume):
        own.cluster.kubectl("-n", own.name, "wait", "pvc/once", "--for=jsonpath={.status.phase}=Bound")
        own.install(cache_claim="once")
        try:
            assert "works while every pod runs on one node (now node-1)" in found(own)["warning claims"][0]
            with second_node(own.cluster):
                assert "pods of 3 folds may run on 2 nodes" in errors(found(own))["claims"][0]
                assert "claims" not in errors(found(own, parameters={"folds": "1"}))
                assert own.command("doctor", "-p", f"git-branch={TAG}").returncode == 2
        finally:
            own.install()


@contextmanager
def second_node(cluster: Cluster) -> Iterator[None]:
    """A node without a kubelet: large, never ready, and cordoned, so that nothing is ever placed on it."""
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": OTHER_NODE},
        "spec": {"unschedulable": True},
    }
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))
    try:
        room = {"cpu": "64", "memory": "256Gi", "pods": "100"}
        status = json.dumps({"status": {"allocatable": room, "capacity": room}})
        cluster.kubectl("patch", "node", OTHER_NODE, "--subresource=status", "--type=merge", "-p", status)
        yield
    finally:
        cluster.kubectl("delete", "node", OTHER_NODE)


def test_a_pool_that_no_node_is_in_is_an_error(own: Namespace) -> None:
    own.install(gpus=1, gpu_pool_label="wf-doctor-pool")
    try:
        text = errors(found(own))["pools"][0]
    finally:
        own.install()
    assert "no node has the label wf-doctor-pool=ci-training-h100: train would stay Pending" in text


def test_a_pool_without_gpus_is_an_error_that_says_so(own: Namespace) -> None:
    own.install(gpus=1, gpu_pool_label="kubernetes.io/hostname", keep_gpu_pool_free=False)
    try:
        text = errors(found(own, parameters={"gpu-pool": "node-1"}))["pools"][0]
    finally:
        own.install()
    gpus = own.cluster.get("node", "node-1")["status"]["allocatable"].get("nvidia.com/gpu", "0")
    if gpus == "0":
        assert "node-1 announces 0 nvidia.com/gpu, train asks for 1" in text


def test_a_quota_without_defaults_and_a_closed_network_are_errors(own: Namespace) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": {"limits.cpu": "100"}},
    }
    closed = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "closed"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
    }
    with applied(own, quota, closed):
        lines = errors(found(own))
    assert "quota team refuses pods whose containers do not set limits.cpu" in lines["quota"][0]
    assert "network policy closed keeps train from the Kubernetes API" in " ".join(lines["network-policy"])


def test_an_image_that_is_on_no_node_and_may_not_be_pulled_is_an_error(own: Namespace) -> None:
    text = errors(found(own, parameters={"git-branch": "never-built"}))["image"][0]
    assert "image localhost/alpha-rl:never-built is not on node-1 and may not be pulled (Never)" in text


def test_an_account_of_too_many_rights_is_a_warning(own: Namespace) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "too-much"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "walkforward", "namespace": own.name}],
    }
    with applied(own, binding):
        assert "may also get secrets, create pods" in found(own)["warning service-account"][0]


@pytest.fixture
def poor(own: Namespace, tmp_path: Path) -> Iterator[str]:
    """Kubeconfig of a user who may submit, and look at nothing else."""
    verbs = ["create", "get", "list", "watch", "patch"]
    rules = [
        {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": verbs},
        {"apiGroups": ["argoproj.io"], "resources": ["workflowtemplates"], "verbs": ["get"]},
    ]
    api = "rbac.authorization.k8s.io"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "poor"}}
    role = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": "poor"}, "rules": rules}
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "poor"},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "poor"},
        "subjects": [{"kind": "ServiceAccount", "name": "poor", "namespace": own.name}],
    }
    with applied(own, account, role, binding):
        token = own.cluster.kubectl("-n", own.name, "create", "token", "poor").strip()
        config = yaml.safe_load(Path(own.cluster.env["KUBECONFIG"]).read_text())
        config["users"][0]["user"] = {"token": token}
        file = tmp_path / "poor"
        file.touch(0o600)
        file.write_text(yaml.safe_dump(config))
        yield str(file)


def test_a_user_of_few_rights_gets_warnings_for_what_cannot_be_seen_and_one_error(
    own: Namespace, poor: str
) -> None:
    lines = found(own, kubeconfig=poor)
    assert set(errors(lines)) == {"user-verbs"}
    (text,) = errors(lines)["user-verbs"]
    assert text.startswith("you may not get pods/log (needed by logs, status) ->")
    blind = {key.removeprefix("warning ") for key, value in lines.items() if "cannot look" in value[0]}
    assert {"claims", "pools", "semaphore", "service-account", "namespace"} <= blind
    assert "what this code renders" in lines["ok current"][0]


def test_no_credential_is_printed(own: Namespace, poor: str) -> None:
    done = own.command("doctor", "--kubeconfig", poor, "--debug")
    assert done.returncode == 2
    token = yaml.safe_load(Path(poor).read_text())["users"][0]["user"]["token"]
    payload = token.split(".")[1]
    assert base64.urlsafe_b64decode(payload + "==")
    assert payload not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
