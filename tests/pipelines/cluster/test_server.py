"""An Argo server's HTTP API: what is asked of it, and what its event streams become."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from pipelines.cluster.api import AbsentError, DeniedError, UnreachableError
from pipelines.cluster.failures import Origin
from pipelines.cluster.server import ServerApi
from pipelines.cluster.transport import Transport
from tests.pipelines.cluster.loopback import Answer, Loopback, Request, serving, until_error
from trainer.errors import InputError

BASE = "/api/v1/workflows/trading"


def body(name: str = "wf-1", version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def results(*items: dict[str, Any], end: str = "whole") -> Answer:
    return Answer([b"data: " + json.dumps({"result": item}).encode() + b"\n\n" for item in items], end=end)


def failing(code: int, message: str, key: str = "grpc_code") -> Answer:
    return Answer([json.dumps({"error": {key: code, "message": message}}).encode() + b"\n"])


@pytest.fixture
def server() -> Iterator[Loopback]:
    with serving(Answer({})) as running:
        yield running


@pytest.fixture
def api(server: Loopback) -> ServerApi:
    origin = Origin(server.url, "ARGO_TOKEN", argo_server=True)
    return ServerApi(Transport(urllib3.PoolManager(), server.url, origin, lambda: ""), "trading")


def test_a_workflow_is_created_and_comes_back_as_stored(server: Loopback, api: ServerApi) -> None:
    server.answer = lambda request: Answer(request.body["workflow"] | {"stored": True})
    sent = {"metadata": {"generateName": "walkforward-"}}
    assert api.create_workflow(sent) == sent | {"stored": True}
    request = server.requests[-1]
    assert (request.method, request.path) == ("POST", BASE)
    assert request.body == {"namespace": "trading", "workflow": sent}


def test_a_dry_run_stores_nothing(server: Loopback, api: ServerApi) -> None:
    api.create_workflow({}, dry_run=True)
    assert server.requests[-1].body["serverDryRun"] is True


def test_stop_asks_for_an_orderly_end(server: Loopback, api: ServerApi) -> None:
    api.stop_workflow("wf-1")
    assert (server.requests[-1].method, server.requests[-1].path) == ("PUT", f"{BASE}/wf-1/stop")


def test_workflows_are_listed_by_label_and_none_is_an_empty_list(server: Loopback, api: ServerApi) -> None:
    server.answer = lambda request: Answer({"items": None})
    assert api.workflows("a=b") == []
    assert server.requests[-1].query == {"listOptions.labelSelector": "a=b"}


def test_a_template_is_read(server: Loopback, api: ServerApi) -> None:
    api.template("walkforward")
    assert server.requests[-1].path == "/api/v1/workflow-templates/trading/walkforward"


@pytest.mark.parametrize(
    ("kind", "path", "key"),
    [
        ("Workflow", "workflows/trading", "workflow"),
        ("WorkflowTemplate", "workflow-templates/trading", "template"),
        ("ClusterWorkflowTemplate", "cluster-workflow-templates", "template"),
        ("CronWorkflow", "cron-workflows/trading", "cronWorkflow"),
    ],
)
def test_an_object_is_linted_by_the_server(
    kind: str, path: str, key: str, server: Loopback, api: ServerApi
) -> None:
    sent = {"kind": kind, "metadata": {"name": "x"}}
    api.admit(sent)
    request = server.requests[-1]
    assert (request.method, request.path) == ("POST", f"/api/v1/{path}/lint")
    assert request.body == {"namespace": "trading", key: sent}


def test_what_the_server_finds_is_the_error(server: Loopback, api: ServerApi) -> None:
    server.answer = lambda request: Answer({"code": 3, "message": "templates.fold: no leaf"}, 400)
    with pytest.raises(InputError, match=r"templates\.fold: no leaf"):
        api.admit({"kind": "WorkflowTemplate", "metadata": {"name": "x", "namespace": "other"}})
    assert server.requests[-1].path == "/api/v1/workflow-templates/other/lint"


def watching(stream: Answer) -> Any:
    def answer(request: Request) -> Answer:
        return stream if request.path.startswith("/api/v1/workflow-events/") else Answer(body(version=77))

    return answer


def test_a_watch_begins_with_the_present_and_goes_on_from_it(server: Loopback, api: ServerApi) -> None:
    server.answer = watching(results({"type": "MODIFIED", "object": body(version=80)}))
    assert list(api.watch_workflow("wf-1")) == [body(version=77), body(version=80)]
    query = server.requests[-1].query
    assert query == {"listOptions.fieldSelector": "metadata.name=wf-1", "listOptions.resourceVersion": "77"}


def test_a_watch_ends_when_the_workflow_is_deleted(server: Loopback, api: ServerApi) -> None:
    server.answer = watching(
        results({"type": "DELETED", "object": body()}, {"type": "ADDED", "object": body()})
    )
    assert list(api.watch_workflow("wf-1")) == [body(version=77)]


@pytest.mark.parametrize(("code", "message"), [(8, "EOF"), (2, "too old resource version: 77 (99)")])
def test_a_watch_that_the_server_ends_is_just_asked_for_again(
    code: int, message: str, server: Loopback, api: ServerApi
) -> None:
    server.answer = watching(failing(code, message))
    assert list(api.watch_workflow("wf-1")) == [body(version=77)]


def refused(status: int, message: str) -> Answer:
    """As an Argo server 4.0 answers where a stream fails before it begins."""
    error = {"grpc_code": 3, "http_code": status, "message": message, "http_status": "some"}
    return Answer([f"data: {json.dumps({'error': error})}\n\n".encode()], status=status)


def test_a_watch_of_a_version_that_is_too_old_is_asked_for_again(server: Loopback, api: ServerApi) -> None:
    server.answer = watching(refused(400, "too old resource version: 11073 (11096)"))
    assert list(api.watch_workflow("wf-1")) == [body(version=77)]


@pytest.mark.parametrize(("status", "kind"), [(400, InputError), (500, UnreachableError)])
def test_a_stream_that_is_refused_is_a_line_with_the_servers_reason(
    status: int, kind: type[InputError], server: Loopback, api: ServerApi
) -> None:
    server.answer = watching(refused(status, "dial tcp 10.0.0.1:443: connection refused"))
    with pytest.raises(kind, match=r"(^|: )dial tcp 10\.0\.0\.1:443: connection refused; ") as said:
        list(api.watch_workflow("wf-1"))
    assert type(said.value) is kind


@pytest.mark.parametrize("key", ["grpc_code", "code"])
def test_an_error_in_a_stream_is_the_line_of_its_kind(key: str, server: Loopback, api: ServerApi) -> None:
    denied = 'workflows.argoproj.io is forbidden: User "u" cannot watch resource "workflows"'
    server.answer = watching(failing(7, denied, key))
    with pytest.raises(
        DeniedError, match=r"not allowed to watch workflows\.argoproj\.io in namespace trading"
    ):
        list(api.watch_workflow("wf-1"))


def test_a_silent_watch_ends_so_that_the_caller_looks_again(
    server: Loopback, api: ServerApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.cluster.server.WATCH_S", 0.1)
    server.answer = watching(Answer([b": ping\n\n"], end="silent"))
    assert list(api.watch_workflow("wf-1")) == [body(version=77)]


def test_a_log_is_asked_for_by_workflow_and_pod_and_never_followed(server: Loopback, api: ServerApi) -> None:
    server.answer = lambda request: results({"content": "t1 one", "podName": "p"}, {"content": "t2 two"})
    lines = api.pod_log("wf-1", "p", since_time="2026-11-30T03:00:00.25Z", follow=True)
    assert list(lines) == ["t1 one", "t2 two"]
    request = server.requests[-1]
    assert request.path == f"{BASE}/wf-1/log"
    assert request.query == {
        "podName": "p",
        "logOptions.container": "main",
        "logOptions.timestamps": "true",
        "logOptions.sinceTime.seconds": "1796007600",
    }


def test_an_empty_log_may_be_of_an_absent_pod(server: Loopback, api: ServerApi) -> None:
    server.answer = lambda request: Answer([])
    with pytest.raises(AbsentError, match="log of pod p: no line of it is there; its pod has not started"):
        list(api.pod_log("wf-1", "p"))
    assert list(api.pod_log("wf-1", "p", since_time="2026-11-30T03:00:00Z")) == []


def test_a_log_of_a_workflow_that_is_gone(server: Loopback, api: ServerApi) -> None:
    server.answer = lambda request: Answer({"code": 5, "message": 'workflows "wf-1" not found'}, 404)
    with pytest.raises(
        AbsentError, match="its workflow was deleted; the log of each attempt is on the claim"
    ):
        next(api.pod_log("wf-1", "p"))


def test_a_log_that_breaks_is_unreachable_after_the_lines_that_came(server: Loopback, api: ServerApi) -> None:
    server.answer = lambda request: results({"content": "t1 one"}, end="cut")
    came, error = until_error(api.pod_log("wf-1", "p", follow=True))
    assert isinstance(error, UnreachableError)
    assert came == ["t1 one"]


def test_a_time_that_is_none_is_not_sent(api: ServerApi) -> None:
    with pytest.raises(InputError, match="'yesterday' is not a time"):
        next(api.pod_log("wf-1", "p", since_time="yesterday"))
