"""Kubeconfig files as people have them: lists, tokens, certificates, plugins, and broken ones."""

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cluster import kubeconfig
from pipelines.cluster.api import UnreachableError
from pipelines.cluster.connection import ConnectionOptions, connect, resolve
from pipelines.cluster.kubeconfig import load
from tests.pipelines.cluster.loopback import Answer, Loopback, serving
from trainer.errors import InputError

OK = Answer({"items": []})


def config(
    server: str = "http://127.0.0.1:1", user: dict[str, Any] | None = None, name: str = "dev", **context: str
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": user or {}}],
    }


def written(path: Path, body: Any) -> Path:
    path.write_text(body if isinstance(body, str) else yaml.safe_dump(body))
    return path


def options(*files: Path, context: str | None = None, **env: str) -> Any:
    return resolve(
        ConnectionOptions(context=context), {"KUBECONFIG": os.pathsep.join(map(str, files)), **env}
    )


def authorization(server: Loopback, path: Path) -> str:
    connect(ConnectionOptions(kubeconfig=path)).workflows()
    return server.requests[-1].headers.get("authorization", "")


def test_namespace_and_address_are_the_contexts(tmp_path: Path) -> None:
    api = connect(ConnectionOptions(kubeconfig=written(tmp_path / "c", config(namespace="trading"))))
    assert (api.namespace, api.address) == ("trading", "http://127.0.0.1:1")


def test_the_flag_beats_the_contexts_namespace(tmp_path: Path) -> None:
    file = written(tmp_path / "c", config(namespace="trading"))
    assert connect(ConnectionOptions(kubeconfig=file, namespace="mine")).namespace == "mine"


def test_a_context_without_namespace_means_default(tmp_path: Path) -> None:
    assert connect(ConnectionOptions(kubeconfig=written(tmp_path / "c", config()))).namespace == "default"


def test_a_user_in_the_servers_address_is_not_shown(tmp_path: Path) -> None:
    file = written(tmp_path / "c", config(server="http://me:pw@127.0.0.1:1"))
    assert connect(ConnectionOptions(kubeconfig=file)).address == "http://127.0.0.1:1"


def test_of_several_files_the_contexts_are_joined(tmp_path: Path) -> None:
    one = written(tmp_path / "one", config(namespace="first"))
    two = written(tmp_path / "two", config(name="prod", namespace="second"))
    assert load(options(one, two, context="prod")).namespace == "second"
    assert load(options(one, tmp_path / "absent", context="dev")).namespace == "first"


def test_an_unknown_context_lists_the_known(tmp_path: Path) -> None:
    file = written(tmp_path / "c", config())
    with pytest.raises(InputError, match=r"no context prod; use one of dev"):
        load(options(file, context="prod"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("just words", "not a kubeconfig"),
        ("", "not a kubeconfig"),
        ({"current-context": "x"}, "Expected"),
        ({**config(), "current-context": "gone"}, "Expected object with name gone"),
        ({**config(), "clusters": []}, "Expected object with name dev"),
        ({**config(), "contexts": "no list"}, "cannot be used|Expected"),
    ],
)
def test_a_broken_kubeconfig_is_one_line_that_names_it(text: Any, message: str, tmp_path: Path) -> None:
    file = written(tmp_path / "broken", text)
    with pytest.raises(InputError, match=message) as said:
        load(options(file))
    assert str(file) in str(said.value)
    assert "\n" not in str(said.value)


def test_a_certificate_that_is_absent_is_named(tmp_path: Path) -> None:
    body = config(server="https://127.0.0.1:1")
    body["clusters"][0]["cluster"]["certificate-authority"] = "absent.crt"
    with pytest.raises(InputError, match=r"File does not exist: .*absent\.crt"):
        load(options(written(tmp_path / "c", body)))


def test_a_certificate_that_is_none_is_one_line(tmp_path: Path) -> None:
    body = config(server="https://127.0.0.1:1")
    data = base64.b64encode(b"no certificate").decode()
    body["clusters"][0]["cluster"]["certificate-authority-data"] = data
    with pytest.raises(InputError, match=r"context dev\): a certificate or key of it cannot be used"):
        connect(ConnectionOptions(kubeconfig=written(tmp_path / "c", body)))


def test_a_token_is_sent(tmp_path: Path) -> None:
    with serving(OK) as server:
        file = written(tmp_path / "c", config(server.url, {"token": "abc"}))
        assert authorization(server, file) == "Bearer abc"


def plugin(tmp_path: Path, said: str, code: int = 0) -> dict[str, Any]:
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\necho '{said}'\necho 'log in first' >&2\nexit {code}\n")
    script.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(script), "interactiveMode": "Never"}}


def credential(token: str) -> str:
    version = "client.authentication.k8s.io/v1"
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}})


def test_a_credential_plugin_is_run(tmp_path: Path) -> None:
    with serving(OK) as server:
        file = written(tmp_path / "c", config(server.url, plugin(tmp_path, credential("fresh"))))
        assert authorization(server, file) == "Bearer fresh"


def test_a_plugin_that_fails_is_one_line_and_not_a_request_without_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "c", config(user=plugin(tmp_path, "", 1)))
    with pytest.raises(InputError, match=r"its credential plugin failed: .*run the plugin's log-in again"):
        load(options(file))
    assert capsys.readouterr().err == ""


def jwt(expires_in: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + expires_in}).encode()).decode()
    return f"e30.{claims.rstrip('=')}.secretsignature"


def test_an_expired_token_is_said_to_be_expired_and_is_not_shown(tmp_path: Path) -> None:
    refusal = Answer({"kind": "Status", "code": 401, "message": "Unauthorized"}, 401)
    with serving(refusal) as server:
        file = written(tmp_path / "c", config(server.url, {"token": jwt(-7300)}))
        with pytest.raises(
            InputError, match=r"the token expired 2 hours ago; renew the credentials of .*context dev"
        ) as said:
            connect(ConnectionOptions(kubeconfig=file)).workflows()
        assert "secretsignature" not in str(said.value)


def test_argo_token_is_sent_to_an_argo_server_and_the_context_gives_the_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "KUBECONFIG", str(written(tmp_path / "c", config(namespace="trading", user={"token": "k"})))
    )
    with serving(OK) as server:
        asked = ConnectionOptions(argo_server=server.host, insecure=True)
        for token, sent in (("v2:abc", "Bearer v2:abc"), ("Bearer abc", "Bearer abc"), ("", "Bearer k")):
            monkeypatch.setenv("ARGO_TOKEN", token)
            api = connect(asked)
            api.workflows()
            assert server.requests[-1].headers["authorization"] == sent
            assert server.requests[-1].path == "/api/v1/workflows/trading"


def test_a_proxy_of_the_environment_is_used_for_an_argo_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/absent")
    with serving(OK) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "elsewhere.example")
        api = connect(ConnectionOptions(argo_server="argo.invalid:2746", insecure=True, namespace="n"))
        api.workflows()
        assert proxy.requests[-1].headers["host"] == "argo.invalid:2746"
        monkeypatch.setenv("no_proxy", "argo.invalid")
        api = connect(ConnectionOptions(argo_server="argo.invalid:2746", insecure=True, namespace="n"))
        with pytest.raises(UnreachableError, match="the host name is unknown"):
            api.workflows()


def test_in_a_pod_the_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    for name, text in (("token", "pod-token"), ("namespace", "own"), ("ca.crt", "-")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBECONFIG", "/absent")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(kubeconfig, "ACCOUNT", tmp_path)
    loaded = load(resolve(ConnectionOptions()))
    assert (loaded.namespace, loaded.source) == ("own", "this pod's service account")
    assert loaded.configuration.host == "https://10.0.0.1:443"
