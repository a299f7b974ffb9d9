"""Server, clock and kubeconfig, over a real socket where something is asked."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cluster.connection import ConnectionOptions
from pipelines.cluster.doctor.cluster import Asked
from pipelines.cluster.doctor.connection import Connection, file_mode, kubernetes_version, skew
from pipelines.cluster.doctor.examine import Finding, examine
from pipelines.cluster.doctor.reader import ApiReader, ArgoServerReader, HiddenError
from pipelines.cluster.doctor.result import Level
from tests.pipelines.cluster.doctor.fakes import FakeReader, healthy, only

SECRET = "t0ken-never-shown"


class Handler(BaseHTTPRequestHandler):
    """Serves a FakeReader's objects as the Kubernetes API would."""

    server: Any

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.seen.append((path, query, self.headers.get("Accept", "")))
        if self.headers.get("Authorization") != f"Bearer {SECRET}":
            self._answer(401, {"message": "Unauthorized"})
            return
        if path in self.server.denied:
            message = f'User "x" cannot list resource "{path.rpartition("/")[2]}"'
            self._answer(403, {"message": message, "reason": "Forbidden"})
            return
        try:
            self._answer(200, self.server.reader.get(path))
        except Exception:
            self._answer(404, {"message": "not found", "details": {"name": path.rpartition("/")[2]}})

    def do_POST(self) -> None:
        self.server.posted.append(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(201, self.server.reader.review(self.path, body))

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response_only(status)
        self.send_header("Date", formatdate(usegmt=True))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    """Takes as many connections at once as the checks open."""

    request_queue_size = 128


@contextmanager
def serving(reader: FakeReader) -> Iterator[Any]:
    server: Any = Server(("127.0.0.1", 0), Handler)
    server.reader, server.seen, server.posted, server.denied = reader, [], [], set()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Any]:
    with serving(healthy()) as found:
        yield found


def kubeconfig(tmp_path: Path, port: int, token: str = SECRET) -> ConnectionOptions:
    file = tmp_path / "config"
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "argo"}}],
    }
    file.write_text(yaml.safe_dump(body))
    file.chmod(0o600)
    return ConnectionOptions(kubeconfig=file)


def examined(options: ConnectionOptions) -> list[Finding]:
    return list(examine(options, Asked(), raising=True))


def test_all_of_it_over_a_socket_is_well_and_writes_nothing(server: Any, tmp_path: Path) -> None:
    found = examined(kubeconfig(tmp_path, server.server_port))
    bad = [each for each in found if each.result.level is not Level.OK and each.check != "hera-command"]
    assert bad == []
    connection = [each.result.what for each in found if each.group == "connection"]
    assert connection[0].endswith("(context test)")
    assert connection[1] == "namespace argo (of the context)"
    assert connection[2].startswith("Kubernetes v1.34.0 at http://127.0.0.1:")
    assert set(server.posted) <= {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/namespaces/argo/localsubjectaccessreviews",
    }
    assert SECRET not in str(found)


def test_a_denied_list_names_verb_and_resource(server: Any, tmp_path: Path) -> None:
    server.denied = {"/api/v1/nodes"}
    found = examined(kubeconfig(tmp_path, server.server_port))
    (pools,) = [each.result for each in found if each.check == "pools"]
    assert pools.what == "pools: cannot look: not allowed to list nodes"
    assert Level.ERROR not in {each.result.level for each in found}


def test_credentials_that_the_server_does_not_know_end_it_with_one_error(server: Any, tmp_path: Path) -> None:
    found = examined(kubeconfig(tmp_path, server.server_port, token="old"))
    (error,) = [each.result for each in found if each.result.level is Level.ERROR]
    assert "the server does not accept the credentials" in error.what
    assert found[-1].group == "connection"


def test_a_server_that_is_not_there_ends_it_with_one_error(tmp_path: Path) -> None:
    with serving(healthy()) as gone:
        port = gone.server_port
    found = examined(kubeconfig(tmp_path, port))
    (error,) = [each.result for each in found if each.result.level is Level.ERROR]
    assert "cannot connect: connection refused" in error.what
    assert error.do
    assert found[-1].check == "server"


def test_a_server_that_never_answers_ends_it_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.cluster.doctor.reader.ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        found = examined(kubeconfig(tmp_path, silent.getsockname()[1]))
        assert time.monotonic() - started < 5.0
    (error,) = [each.result for each in found if each.result.level is Level.ERROR]
    assert "no answer in time" in error.what


def test_the_usual_kubeconfig_is_looked_at_too(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kubeconfig(tmp_path, server.server_port).kubeconfig
    assert file is not None
    (tmp_path / ".kube").mkdir()
    file.rename(tmp_path / ".kube" / "config").chmod(0o644)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    told = [result.what for result in Connection(ConnectionOptions()).credentials()]
    assert told[-1] == f"{tmp_path}/.kube/config can be read by other users of this machine"


def test_a_kubeconfig_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    found = examined(ConnectionOptions(kubeconfig=tmp_path / "none"))
    assert found[-1].result.level is Level.ERROR
    assert "no such file" in found[-1].result.what


def test_the_namespace_says_where_it_comes_from(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = kubeconfig(tmp_path, server.server_port)
    monkeypatch.setenv("ARGO_NAMESPACE", "research")
    told = [result.what for result in Connection(options).credentials()]
    assert told[1] == "namespace research (ARGO_NAMESPACE)"


def test_only_the_metadata_of_a_secret_is_asked_for(server: Any, tmp_path: Path) -> None:
    reader = Connection(kubeconfig(tmp_path, server.server_port)).reader
    assert isinstance(reader, ApiReader)
    server.reader.objects["/api/v1/namespaces/argo/secrets/s"] = {"metadata": {"name": "s"}}
    reader.get("/api/v1/namespaces/argo/secrets/s", metadata_only=True)
    assert "as=PartialObjectMetadata;" in server.seen[-1][2]
    reader.get("/api/v1/namespaces/argo/secrets", metadata_only=True)
    assert "as=PartialObjectMetadataList;" in server.seen[-1][2]
    reader.get("/api/v1/nodes", {"limit": "500"})
    assert server.seen[-1][1] == "limit=500"


@pytest.fixture
def argo_server(server: Any, monkeypatch: pytest.MonkeyPatch) -> ConnectionOptions:
    template = server.reader.objects[
        "/apis/argoproj.io/v1alpha1/namespaces/argo/workflowtemplates/walkforward"
    ]
    server.reader.objects |= {
        "/api/v1/version": {"version": "v4.0.5"},
        "/api/v1/info": {},
        "/api/v1/workflow-templates/argo/walkforward": template,
        "/api/v1/workflows/argo": {"items": []},
    }
    monkeypatch.setenv("ARGO_TOKEN", SECRET)
    return ConnectionOptions(argo_server=f"127.0.0.1:{server.server_port}", insecure=True, namespace="argo")


def test_an_argo_server_shows_the_template_and_one_line_says_what_is_hidden(
    argo_server: ConnectionOptions,
) -> None:
    found = examined(argo_server)
    by_check = {each.check: each.result for each in found}
    assert by_check["server"].what.startswith("Argo server v4.0.5 at http://127.0.0.1")
    assert by_check["current"].level in (Level.OK, Level.WARNING)
    assert by_check["installed"].level is Level.OK
    assert "claims" in by_check["argo-server"].what
    assert Level.ERROR not in {each.result.level for each in found}


def test_an_argo_server_of_another_namespace_is_an_error(server: Any, argo_server: ConnectionOptions) -> None:
    server.reader.objects["/api/v1/info"] = {"managedNamespace": "other"}
    errors = [each.result.what for each in examined(argo_server) if each.result.level is Level.ERROR]
    assert errors == ["the Argo server shows namespace other only"]


def test_an_argo_server_is_never_asked_for_other_objects(server: Any, argo_server: ConnectionOptions) -> None:
    reader = Connection(argo_server).reader
    assert isinstance(reader, ArgoServerReader)
    with pytest.raises(HiddenError):
        reader.get("/api/v1/nodes")
    with pytest.raises(HiddenError):
        reader.review("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {})
    assert server.seen == []


@pytest.mark.parametrize(
    ("version", "level"),
    [("v1.27.9", "warning"), ("v1.28.0", "ok"), ("v1.34.0+k3s1", "ok"), ("v2.0", "ok"), ("", "ok")],
)
def test_an_old_kubernetes_is_a_warning(version: str, level: str) -> None:
    assert kubernetes_version(version, "x").level.value == level


@pytest.mark.parametrize(
    ("ahead_s", "level", "text"),
    [
        (0, "ok", "agree within 1 s"),
        (20, "ok", "within 20 s"),
        (90, "warning", "90 s ahead of"),
        (-90, "warning", "behind"),
    ],
)
def test_clocks_that_differ_are_a_warning(ahead_s: int, level: str, text: str) -> None:
    now = 1_800_000_000.0
    assert text in only(skew(formatdate(now + ahead_s, usegmt=True), now), level)


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_a_server_without_a_clock_is_a_warning(date: str) -> None:
    assert "tells no time" in only(skew(date, 0.0), "warning")


def test_a_kubeconfig_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "config"
    assert list(file_mode(file)) == []
    file.touch(0o600)
    assert list(file_mode(file)) == []
    file.chmod(0o644)
    assert f"chmod 600 {file}" in only(file_mode(file), "warning")
