"""Both ways to a real cluster say the same: the Kubernetes API and an Argo server."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cluster.api import RUN_ID_LABEL, AbsentError, DeniedError, WorkflowApi
from pipelines.cluster.connection import ConnectionOptions, connect
from pipelines.cluster.find import find_workflow, has_ended, phase_of
from pipelines.cluster.submission import Submission, workflow_body
from pipelines.cluster.submit import Shown, submit
from tests.cluster.harness import Cluster, Namespace, waited_for
from tests.cluster.proxies import LostAnswerProxy
from trainer.errors import InputError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]
NAME = "wf-api"
RBAC = "rbac.authorization.k8s.io"
EXECUTOR = "localhost/argoexec:1"  # has no shell; prints a line and ends
PAUSE = "localhost/pause:1"  # ends when it is told to


def template(name: str, container: dict[str, Any]) -> dict[str, Any]:
    """A WorkflowTemplate of one container with a parameter of two choices."""
    choice = {"name": "market", "value": "planted", "enum": ["planted", "martingale"]}
    parameters = [choice, {"name": "run-id", "value": ""}, {"name": "git-branch", "value": "main"}]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "WorkflowTemplate",
        "metadata": {"name": name, "namespace": NAME},
        "spec": {
            "entrypoint": "main",
            "arguments": {"parameters": parameters},
            "templates": [{"name": "main", "container": {"imagePullPolicy": "Never", **container}}],
        },
    }


def accounts() -> list[dict[str, Any]]:
    """A person who may do what our commands do, the pods' account, and a guest who may nothing."""
    rights = {
        "person": {
            ("argoproj.io", "workflows"): "create get list watch patch",
            ("argoproj.io", "workflowtemplates"): "get",
            ("", "pods"): "get list watch",
            ("", "pods/log"): "get",
        },
        "default": {("argoproj.io", "workflowtaskresults"): "create patch"},
        "guest": {},
    }
    made = []
    for name, rules in rights.items():
        meta = {"name": name, "namespace": NAME}
        made += [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "Role",
                "metadata": meta,
                "rules": [
                    {"apiGroups": [group], "resources": [resource], "verbs": verbs.split()}
                    for (group, resource), verbs in rules.items()
                ],
            },
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name}],
            },
        ]
    return made


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[Cluster]:
    """A namespace with two templates, one that prints and one that waits."""
    cluster.kubectl("delete", "namespace", NAME, "--ignore-not-found", "--timeout=60s")
    cluster.kubectl("create", "namespace", NAME)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(accounts()))
    bodies = [
        template("prints", {"image": EXECUTOR, "command": ["argoexec"], "args": ["version"]}),
        template("waits", {"image": PAUSE, "command": ["/pause"]}),
    ]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(bodies))
    yield cluster
    cluster.kubectl("delete", "namespace", NAME, "--ignore-not-found", "--wait=false")


def connected(
    way: str,
    account: str,
    place: Cluster,
    argo_server: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> WorkflowApi:
    """The connection of an account, by the Kubernetes API or by the Argo server."""
    secret = token(place, account)
    if way == "argo-server":
        monkeypatch.setenv("ARGO_TOKEN", secret)
        return connect(
            ConnectionOptions(namespace=NAME, argo_server=argo_server["ARGO_SERVER"], insecure=True)
        )
    body = yaml.safe_load(Path(place.env["KUBECONFIG"]).read_text())
    body["users"] = [{"name": user["name"], "user": {"token": secret}} for user in body["users"]]
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(body))
    return connect(ConnectionOptions(namespace=NAME, kubeconfig=file))


@pytest.fixture(params=["kubernetes", "argo-server"])
def api(
    request: pytest.FixtureRequest,
    place: Cluster,
    argo_server: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> WorkflowApi:
    """The connection of a person with just the rights that our commands need."""
    return connected(request.param, "person", place, argo_server, tmp_path, monkeypatch)


def token(place: Cluster, account: str) -> str:
    return place.kubectl("-n", NAME, "create", "token", account).strip()


def created(api: WorkflowApi, name: str, run_id: str, **given: str) -> str:
    body = api.create_workflow(workflow_body(Submission(name, {"run-id": run_id, **given}), NAME))
    return str(body["metadata"]["name"])


def ended(api: WorkflowApi, name: str) -> dict[str, Any]:
    """The workflow's end, as a watch that is asked again and again shows it."""

    def last() -> dict[str, Any] | None:
        return next((body for body in api.watch_workflow(name) if has_ended(body)), None)

    found: dict[str, Any] = waited_for(f"end of {name}", 240, last)
    return found


def pod_of(body: dict[str, Any]) -> str:
    from pipelines.cluster.nodes import pod_name

    node = next(node for node in body["status"]["nodes"].values() if node["type"] == "Pod")
    return pod_name(body["metadata"]["name"], node["name"], node["templateName"])


def test_a_workflow_runs_is_watched_to_its_end_found_and_its_log_read(api: WorkflowApi) -> None:
    name = created(api, "prints", "printed")
    body = ended(api, name)
    assert phase_of(body) == "Succeeded", body["status"].get("message")
    assert find_workflow(api, "printed")["metadata"]["name"] == name
    assert name == next(item["metadata"]["name"] for item in api.workflows(f"{RUN_ID_LABEL}=printed"))
    lines = list(api.pod_log(name, pod_of(body)))
    assert any("argoexec" in line for line in lines)
    stamp = lines[0].partition(" ")[0]
    assert list(api.pod_log(name, pod_of(body), since_time=stamp)) == lines, "the first second is asked for"


def test_a_running_workflow_is_stopped(api: WorkflowApi) -> None:
    name = created(api, "waits", "waited")
    running: Callable[[], bool] = lambda: any(  # noqa: E731
        node.get("phase") == "Running" and node["type"] == "Pod"
        for node in (api.workflow(name).get("status", {}).get("nodes") or {}).values()
    )
    waited_for("running pod", 120, running)
    api.stop_workflow(name)
    # The container ends well when it is asked to, and so does the workflow.
    assert ended(api, name)["spec"]["shutdown"] == "Stop"


def test_a_dry_run_is_checked_by_the_server_and_not_stored(api: WorkflowApi) -> None:
    body = workflow_body(Submission("prints", {"run-id": "dry"}), NAME)
    api.create_workflow(body, dry_run=True)
    assert api.workflows(f"{RUN_ID_LABEL}=dry") == []


def test_what_is_not_there_is_said_to_be_absent(api: WorkflowApi) -> None:
    with pytest.raises(AbsentError, match=f"no workflow gone in namespace {NAME}"):
        api.workflow("gone")
    with pytest.raises(AbsentError, match=f"no WorkflowTemplate gone in namespace {NAME}; check --template"):
        api.template("gone")
    with pytest.raises(AbsentError, match="no workflow and no run gone"):
        find_workflow(api, "gone")
    with pytest.raises(AbsentError):
        next(api.watch_workflow("gone"))
    with pytest.raises(AbsentError):
        list(api.pod_log("gone", "gone-main-1"))


def test_a_name_that_is_taken_is_one_line(api: WorkflowApi) -> None:
    body = workflow_body(Submission("prints", {}, name="taken"), NAME)
    if not any(item["metadata"]["name"] == "taken" for item in api.workflows()):
        api.create_workflow(body)
    with pytest.raises(InputError, match="workflow taken exists already; choose another name"):
        api.create_workflow(body)


def test_a_value_that_the_template_refuses_creates_nothing(api: WorkflowApi, tmp_path: Path) -> None:
    with (
        (tmp_path / "out").open("w") as out,
        pytest.raises(InputError, match="use one of planted, martingale"),
    ):
        submit(api, Submission("prints", {"market": "files", "run-id": "refused"}), Shown(out, out))
    assert api.workflows(f"{RUN_ID_LABEL}=refused") == []


@pytest.fixture(params=["kubernetes", "argo-server"])
def guest(
    request: pytest.FixtureRequest,
    place: Cluster,
    argo_server: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> WorkflowApi:
    """The connection of an account without any right."""
    return connected(request.param, "guest", place, argo_server, tmp_path, monkeypatch)


def test_a_denied_verb_is_named(guest: WorkflowApi) -> None:
    with pytest.raises(
        DeniedError, match=rf"not allowed to list workflows\.argoproj\.io in namespace {NAME}"
    ):
        guest.workflows()
    with pytest.raises(DeniedError, match=r"not allowed to create workflows\.argoproj\.io"):
        guest.create_workflow(workflow_body(Submission("prints", {}), NAME))
    with pytest.raises(DeniedError, match=r"not allowed to (patch|get) workflows\.argoproj\.io"):
        guest.stop_workflow("taken")


def test_a_token_that_nobody_issued_is_refused_and_not_shown(
    place: Cluster, argo_server: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 1}').decode().rstrip("=")
    monkeypatch.setenv("ARGO_TOKEN", f"e30.{claims}.secretsignature")
    api = connect(ConnectionOptions(namespace=NAME, argo_server=argo_server["ARGO_SERVER"], insecure=True))
    with pytest.raises(DeniedError) as said:
        api.workflows()
    assert "renew the credentials of ARGO_TOKEN" in str(said.value)
    assert "secretsignature" not in str(said.value)


def test_a_submit_whose_answer_is_lost_is_carried_out_once(
    place: Cluster, argo_server: dict[str, str], tmp_path: Path
) -> None:
    """The Argo server made the workflow, and the connection broke before it could say so."""
    host, _, port = argo_server["ARGO_SERVER"].rpartition(":")
    here = Namespace(place, NAME, tmp_path)
    words = ("submit", "--template", "prints", "--run-id", "lost-answer", "--market", "planted", "-o", "name")
    with LostAnswerProxy((host, int(port)), f"POST /api/v1/workflows/{NAME} ".encode()) as proxy:
        env = {**argo_server, "ARGO_SERVER": f"127.0.0.1:{proxy.port}"}
        with here.running(tmp_path / "submit", *words, **env) as submit:
            assert submit.process.wait(60) == 0, submit.err
    assert proxy.num_cuts == 1
    assert here.named("lost-answer") == [submit.out.strip()]
