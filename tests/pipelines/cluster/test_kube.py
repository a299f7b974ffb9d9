"""The Kubernetes API: what is asked of it, and what its watches and logs become."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from pipelines.cluster.api import AbsentError, DeniedError, UnreachableError
from pipelines.cluster.failures import Origin
from pipelines.cluster.kube import KubeApi
from pipelines.cluster.transport import Transport
from tests.pipelines.cluster.loopback import Answer, Loopback, Request, events, serving, until_error
from trainer.errors import InputError

BASE = "/apis/argoproj.io/v1alpha1/namespaces/trading/workflows"
STATUS = {"kind": "Status", "status": "Failure"}


def body(name: str, version: int = 1, created: str = "2026-11-30T03:00:00Z") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), "creationTimestamp": created}}


def listed(*items: dict[str, Any]) -> Answer:
    return Answer({"metadata": {"resourceVersion": "77"}, "items": list(items)})


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving(Answer({})) as running:
        yield running


@pytest.fixture
def api(server: Loopback) -> KubeApi:
    origin = Origin(server.url, "test")
    return KubeApi(Transport(urllib3.PoolManager(), server.url, origin, lambda: ""), "trading")


def test_a_workflow_is_created_and_comes_back_as_stored(server: Loopback, api: KubeApi) -> None:
    server.answer = lambda request: Answer(request.body | {"stored": True}, 201)
    sent = {"metadata": {"generateName": "walkforward-"}}
    assert api.create_workflow(sent) == sent | {"stored": True}
    request = server.requests[-1]
    assert (request.method, request.path, request.body) == ("POST", BASE, sent)
    assert "dryRun" not in request.query


def test_a_controllers_instance_limits_every_list(server: Loopback) -> None:
    server.answer = lambda request: listed()
    origin = Origin(server.url, "test")
    transport = Transport(urllib3.PoolManager(), server.url, origin, lambda: "")
    own = "workflows.argoproj.io/controller-instanceid=blue"
    for selector, asked in (("", own), ("a=b", f"a=b,{own}")):
        KubeApi(transport, "trading", "blue").workflows(selector)
        assert server.requests[-1].query["labelSelector"] == asked
    KubeApi(transport, "trading").workflows()
    assert "labelSelector" not in server.requests[-1].query


def test_a_dry_run_stores_nothing(server: Loopback, api: KubeApi) -> None:
    api.create_workflow({}, dry_run=True)
    assert server.requests[-1].query["dryRun"] == "All"


def test_an_object_is_applied_without_being_stored_and_unknown_fields_are_refused(
    server: Loopback, api: KubeApi
) -> None:
    sent = {"kind": "WorkflowTemplate", "metadata": {"name": "walkforward"}}
    api.admit(sent)
    request = server.requests[-1]
    assert (request.method, request.body) == ("PATCH", sent)
    assert request.path == "/apis/argoproj.io/v1alpha1/namespaces/trading/workflowtemplates/walkforward"
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert (request.query["dryRun"], request.query["fieldValidation"]) == ("All", "Strict")


def test_an_object_without_a_name_is_created_without_being_stored(server: Loopback, api: KubeApi) -> None:
    api.admit({"kind": "Workflow", "metadata": {"generateName": "walkforward-", "namespace": "other"}})
    request = server.requests[-1]
    assert (request.method, request.path) == ("POST", BASE.replace("trading", "other"))
    assert request.query["dryRun"] == "All"
    api.admit({"kind": "ClusterWorkflowTemplate", "metadata": {"name": "x"}})
    assert server.requests[-1].path == "/apis/argoproj.io/v1alpha1/clusterworkflowtemplates/x"


def test_stop_asks_for_an_orderly_end_and_nothing_else(server: Loopback, api: KubeApi) -> None:
    api.stop_workflow("wf-1")
    request = server.requests[-1]
    assert (request.method, request.path) == ("PATCH", f"{BASE}/wf-1")
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.body == {"spec": {"shutdown": "Stop"}}


def test_workflows_come_newest_first_and_by_label(server: Loopback, api: KubeApi) -> None:
    old, new = body("b", created="2026-11-30T03:00:00Z"), body("a", created="2026-11-30T04:00:00Z")
    server.answer = lambda request: listed(old, new)
    assert api.workflows("alpha-rl/run-id=x") == [new, old]
    assert server.requests[-1].query == {"labelSelector": "alpha-rl/run-id=x"}


def test_an_absent_template_says_how_to_install_it(server: Loopback, api: KubeApi) -> None:
    server.answer = lambda request: Answer(STATUS | {"message": 'x "walkforward" not found'}, 404)
    with pytest.raises(AbsentError, match=r"install it: walkforward render -n trading \| kubectl apply -f -"):
        api.template("walkforward")


def watched(server: Loopback, api: KubeApi, stream: Answer) -> list[dict[str, Any]]:
    def answer(request: Request) -> Answer:
        return stream if request.query.get("watch") else listed(body("wf-1"))

    server.answer = answer
    return list(api.watch_workflow("wf-1"))


def test_a_watch_begins_with_the_present_and_goes_on_from_it(server: Loopback, api: KubeApi) -> None:
    stream = Answer(events(("MODIFIED", body("wf-1", 80)), ("MODIFIED", body("wf-1", 81))))
    assert watched(server, api, stream) == [body("wf-1"), body("wf-1", 80), body("wf-1", 81)]
    query = server.requests[-1].query
    assert query["resourceVersion"] == "77"
    assert query["fieldSelector"] == "metadata.name=wf-1"
    assert 0 < int(query["timeoutSeconds"]) <= 300


def test_a_watch_ends_when_the_workflow_is_deleted(server: Loopback, api: KubeApi) -> None:
    stream = Answer(events(("DELETED", body("wf-1")), ("ADDED", body("wf-1", 99))))
    assert watched(server, api, stream) == [body("wf-1")]


def test_a_version_that_is_too_old_ends_the_watch_and_nothing_more(server: Loopback, api: KubeApi) -> None:
    gone = STATUS | {"code": 410, "reason": "Expired", "message": "too old resource version"}
    assert watched(server, api, Answer(events(("ERROR", gone)))) == [body("wf-1")]


def test_any_other_error_in_a_watch_is_one(server: Loopback, api: KubeApi) -> None:
    failing = STATUS | {"code": 500, "message": "etcdserver: no leader"}
    with pytest.raises(UnreachableError, match="no leader"):
        watched(server, api, Answer(events(("ERROR", failing))))


def test_a_watch_that_breaks_is_unreachable_after_what_came(server: Loopback, api: KubeApi) -> None:
    server.answer = lambda request: (
        Answer(events(("MODIFIED", body("wf-1", 80))), end="cut")
        if request.query.get("watch")
        else listed(body("wf-1"))
    )
    came, error = until_error(api.watch_workflow("wf-1"))
    assert isinstance(error, UnreachableError)
    assert came == [body("wf-1"), body("wf-1", 80)]


def test_a_silent_watch_ends_so_that_the_caller_looks_again(
    server: Loopback, api: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.cluster.kube.WATCH_S", 0.1)
    monkeypatch.setattr("pipelines.cluster.kube.MARGIN_S", 0.1)
    assert watched(server, api, Answer([b"\n"], end="silent")) == [body("wf-1")]


def test_a_watch_of_nothing_is_an_absent_workflow(server: Loopback, api: KubeApi) -> None:
    def answer(request: Request) -> Answer:
        found = request.path == BASE
        return listed() if found else Answer(STATUS | {"message": 'workflows "wf-1" not found'}, 404)

    server.answer = answer
    with pytest.raises(AbsentError, match="no workflow wf-1 in namespace trading"):
        next(api.watch_workflow("wf-1"))


def test_a_log_is_read_with_times_and_followed_from_one(server: Loopback, api: KubeApi) -> None:
    server.answer = lambda request: Answer([b"t1 one\nt2 two\n"])
    lines = api.pod_log("wf-1", "wf-1-train-9", since_time="2026-11-30T03:00:00Z", follow=True)
    assert list(lines) == ["t1 one", "t2 two"]
    request = server.requests[-1]
    assert request.path == "/api/v1/namespaces/trading/pods/wf-1-train-9/log"
    assert request.query == {
        "container": "main",
        "timestamps": "true",
        "sinceTime": "2026-11-30T03:00:00Z",
        "follow": "true",
    }


def test_the_last_line_of_a_finished_log_needs_no_newline(server: Loopback, api: KubeApi) -> None:
    server.answer = lambda request: Answer([b"t1 one\nt2 last"])
    assert list(api.pod_log("wf-1", "p")) == ["t1 one", "t2 last"]
    assert list(api.pod_log("wf-1", "p", follow=True)) == ["t1 one"]


def test_a_container_that_has_not_started_says_so(server: Loopback, api: KubeApi) -> None:
    waiting = 'container "main" in pod "p" is waiting to start: PodInitializing'
    server.answer = lambda request: Answer(STATUS | {"message": waiting}, 400)
    with pytest.raises(InputError, match="waiting to start: PodInitializing"):
        next(api.pod_log("wf-1", "p"))


def test_a_denied_verb_is_named(server: Loopback, api: KubeApi) -> None:
    message = (
        'pods "p" is forbidden: User "u" cannot get resource "pods/log" in API group "" in the namespace'
    )
    server.answer = lambda request: Answer(json.dumps(STATUS | {"message": message}), 403)
    with pytest.raises(DeniedError, match="not allowed to get pods/log in namespace trading"):
        next(api.pod_log("wf-1", "p"))
