"""Flag over environment over kubeconfig over the pod's account; what cannot be used is one line."""

from pathlib import Path
from typing import Any

import cappa
import pytest

from pipelines.cli import Walkforward
from pipelines.cluster.connection import ConnectionOptions, Server, repeated, resolve, transport_to
from trainer.errors import InputError

ENVIRONMENT = {
    "ARGO_SERVER": "argo.example:2746",
    "ARGO_NAMESPACE": "from-env",
    "ARGO_SECURE": "false",
    "ARGO_INSECURE_SKIP_VERIFY": "true",
    "ARGO_BASE_HREF": "/argo/",
    "ARGO_TOKEN": "Bearer secret",
    "KUBECONFIG": "/a:/b",
}


def test_without_anything_the_kubernetes_api_of_the_usual_kubeconfig_is_asked() -> None:
    target = resolve(ConnectionOptions(), {})
    assert (target.server, target.kubeconfig, target.namespace, target.token) == (None, (), "", "")


def test_the_environment_is_the_argo_commands() -> None:
    target = resolve(ConnectionOptions(), ENVIRONMENT)
    assert target.server == Server("argo.example:2746", "/argo/", secure=False, verify=False)
    assert target.server.url == "http://argo.example:2746/argo"
    assert (target.namespace, target.namespace_from) == ("from-env", "ARGO_NAMESPACE")
    assert target.kubeconfig == ("/a", "/b")
    assert target.token == "Bearer secret"


def test_a_flag_beats_the_environment() -> None:
    options = ConnectionOptions(
        namespace="flag",
        kubeconfig=Path("/c"),
        context="dev",
        argo_server="other:1",
        argo_base_href="/b",
        secure=True,
    )
    target = resolve(options, ENVIRONMENT)
    assert target.server == Server("other:1", "/b", secure=True, verify=False)
    assert (target.namespace, target.namespace_from) == ("flag", "--namespace")
    assert (target.kubeconfig, target.given, target.context) == (("/c",), True, "dev")


def test_an_argo_server_speaks_tls_and_is_checked_unless_told_otherwise() -> None:
    server = resolve(ConnectionOptions(argo_server="x:1"), {}).server
    assert server == Server("x:1", "", secure=True, verify=True)


def test_the_controllers_instance_is_the_flags_else_the_environments() -> None:
    env = {"ARGO_INSTANCEID": "green"}
    assert resolve(ConnectionOptions(), {}).instance_id == ""
    assert resolve(ConnectionOptions(), env).instance_id == "green"
    assert resolve(ConnectionOptions(instance_id="blue"), env).instance_id == "blue"


@pytest.mark.parametrize(
    ("options", "env", "message"),
    [
        (ConnectionOptions(instance_id="a b"), {}, "--instanceid: 'a b' cannot be an instance id"),
        (ConnectionOptions(), {"ARGO_INSTANCEID": "-x"}, "ARGO_INSTANCEID: '-x' cannot be an instance id"),
        # As argo's own command: an Argo server has one controller, and its instance.
        (
            ConnectionOptions(argo_server="x:1", instance_id="blue"),
            {},
            "--instanceid: does not go together with an Argo server",
        ),
    ],
)
def test_an_instance_that_cannot_be_meant_is_refused(
    options: ConnectionOptions, env: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as said:
        resolve(options, env)
    assert message in str(said.value)


def test_plain_http_and_tls_at_once_are_refused() -> None:
    with pytest.raises(InputError, match="--secure and --insecure are both given; give one of them"):
        resolve(ConnectionOptions(argo_server="x:1", secure=True, insecure=True), {})


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], ConnectionOptions()),
        (
            ["-n", "a", "-s", "x:1", "-k"],
            ConnectionOptions("a", None, None, "x:1", insecure_skip_verify=True),
        ),
        (["--insecure"], ConnectionOptions(insecure=True)),
        (["--secure"], ConnectionOptions(secure=True)),
        (["-e", "--argo-base-href", "/x"], ConnectionOptions(argo_base_href="/x", secure=True)),
        (["--instanceid", "blue"], ConnectionOptions(instance_id="blue")),
        (["--kubeconfig", "/c", "--context", "dev"], ConnectionOptions(kubeconfig=Path("/c"), context="dev")),
    ],
)
def test_the_flags_as_they_are_typed(words: list[str], options: ConnectionOptions) -> None:
    parsed: Any = cappa.parse(Walkforward, argv=["stop", "run", *words], completion=False)
    assert parsed.command.connection == options


def test_a_target_does_not_print_its_token() -> None:
    assert "secret" not in repr(resolve(ConnectionOptions(), ENVIRONMENT))


@pytest.mark.parametrize(
    "text", ["argo", "https://argo:2746", "argo:http", ":2746", "user:pw@argo:2746", "argo:2746/x"]
)
def test_an_argo_server_is_host_and_port(text: str) -> None:
    with pytest.raises(
        InputError, match="ARGO_SERVER: not the address of an Argo server; write host:port"
    ) as said:
        resolve(ConnectionOptions(), {"ARGO_SERVER": text})
    assert "pw" not in str(said.value)


def test_a_switch_in_the_environment_is_true_or_false() -> None:
    with pytest.raises(InputError, match="ARGO_SECURE: 'maybe' is neither true nor false"):
        resolve(ConnectionOptions(argo_server="x:1"), {"ARGO_SECURE": "maybe"})


def test_a_kubeconfig_that_the_flag_names_must_exist(tmp_path: Path) -> None:
    options = ConnectionOptions(kubeconfig=tmp_path / "absent")
    with pytest.raises(InputError, match="absent: no such file; give --kubeconfig an existing file"):
        transport_to(resolve(options, {}))


def test_files_of_kubeconfig_that_do_not_exist_are_passed_over(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kubeconfig there, and this is no pod"):
        transport_to(resolve(ConnectionOptions(), {"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"}))


def test_given_flags_can_be_typed_again() -> None:
    assert repeated(ConnectionOptions(namespace="n")) == ""
    options = ConnectionOptions(
        kubeconfig=Path("/my files/c"), context="dev", argo_server="x:1", insecure=True
    )
    assert repeated(options) == " --kubeconfig '/my files/c' --context dev --argo-server x:1 --insecure"
    assert repeated(ConnectionOptions(insecure_skip_verify=True)) == " --insecure-skip-verify"
