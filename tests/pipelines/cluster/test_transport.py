"""Requests over a real socket: streams that end, break or fall silent, TLS, and servers that are none."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3

from pipelines.cluster.api import UnreachableError
from pipelines.cluster.connection import ConnectionOptions, resolve, transport_to
from pipelines.cluster.failures import Call, Origin
from pipelines.cluster.transport import QuietError, Transport
from tests.pipelines.cluster.loopback import Answer, Request, serving, until_error
from trainer.errors import ExitCode, InputError

CALL = Call("GET", ("x",), "get", "things", "n")


def to(url: str) -> Transport:
    return Transport(urllib3.PoolManager(), url, Origin(url, "test"), lambda: "")


def lines(answer: Answer, **how: object) -> list[str]:
    with serving(answer) as server:
        return list(to(server.url).lines(CALL, accept="*/*", **how))  # type: ignore[arg-type]


def test_lines_come_whole_however_they_are_cut() -> None:
    assert lines(Answer([b"on", b"e\ntw", b"o\n", b"drei " + b"\xc3", b"\xa4\n"])) == [
        "one",
        "two",
        "drei ä",
    ]


def test_what_follows_the_last_newline_is_half_a_line_unless_asked_for() -> None:
    assert lines(Answer([b"one\nhal"])) == ["one"]
    assert lines(Answer([b"one\nlast"]), cut_tail=False) == ["one", "last"]


def test_a_line_comes_before_the_stream_ends() -> None:
    with serving(Answer([b"one\n"], end="silent")) as server:
        assert next(to(server.url).lines(CALL, accept="*/*")) == "one"


def test_a_broken_stream_is_unreachable_after_the_lines_that_came() -> None:
    with serving(Answer([b"one\ntwo\nhal"], end="cut")) as server:
        came, error = until_error(to(server.url).lines(CALL, accept="*/*"))
    assert came == ["one", "two"]
    assert type(error) is UnreachableError
    assert error.exit_code == ExitCode.INTERRUPTED


def test_a_silent_stream_is_given_up_and_told_apart_from_a_broken_one() -> None:
    with serving(Answer([b"one\n"], end="silent")) as server:
        came, error = until_error(to(server.url).lines(CALL, accept="*/*", quiet_s=0.1))
    assert came == ["one"]
    assert type(error) is QuietError


def test_many_requests_at_a_time_are_no_matter(caplog: pytest.LogCaptureFixture) -> None:
    together = threading.Barrier(8, timeout=20)

    def answer(request: Request) -> Answer:
        together.wait()
        return Answer({"ok": 1})

    with serving(answer) as server, ThreadPoolExecutor(8) as pool:
        transport = argo(server.host, secure=False)
        answers = list(pool.map(lambda _: transport.ask(CALL), range(8)))
    assert answers == [{"ok": 1}] * 8
    assert caplog.messages == []


def test_the_next_request_does_not_read_the_rest_of_a_stream() -> None:
    answers = iter([Answer([b"one\n", b"two\n"], end="silent"), Answer({"fresh": True})])
    with serving(lambda request: next(answers)) as server:
        transport = to(server.url)
        stream: Iterator[str] = transport.lines(CALL, accept="*/*")
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert transport.ask(CALL) == {"fresh": True}


def test_an_answer_that_is_no_json_says_so() -> None:
    with serving(Answer("<html>")) as server, pytest.raises(InputError, match="the answer is not JSON"):
        to(server.url).ask(CALL)


def test_a_redirect_is_not_followed() -> None:
    with serving(Answer("", 302, headers={"Location": "/login"})) as server:
        with pytest.raises(InputError, match="answers with a redirect"):
            to(server.url).ask(CALL)
        assert len(server.requests) == 1


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(
        UnreachableError, match=f"^{url}: cannot connect: connection refused; check the address"
    ):
        to(url).ask(CALL)


def test_a_host_that_is_unknown() -> None:
    with pytest.raises(UnreachableError, match="cannot connect: the host name is unknown"):
        to("http://no-such-host.invalid:1").ask(CALL)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate with its key in one file."""
    folder = tmp_path_factory.mktemp("tls")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=argo"
    command = ["openssl", *words.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", "key", "-out", "crt"], cwd=folder, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key").read_text() + (folder / "crt").read_text())
    return both


def argo(host: str, *, secure: bool = True, skip: bool = False) -> Transport:
    options = ConnectionOptions(argo_server=host, insecure=not secure, insecure_skip_verify=skip)
    return transport_to(resolve(options, {"ARGO_TOKEN": "secret", "ARGO_NAMESPACE": "n"}))[0]


def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    with serving(Answer({}), certificate) as server:
        with pytest.raises(
            InputError, match=r"its certificate is not trusted: self.signed certificate; trust its"
        ) as e:
            argo(server.host).ask(CALL)
        assert not isinstance(e.value, UnreachableError)
        assert server.requests == []


def test_the_check_can_be_skipped_or_the_authority_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Answer({"ok": 1}), certificate) as server:
        assert argo(server.host, skip=True).ask(CALL) == {"ok": 1}
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert argo(server.host).ask(CALL) == {"ok": 1}
        assert server.requests[-1].headers["authorization"] == "Bearer secret"


def test_tls_to_a_server_without(certificate: Path) -> None:
    with serving(Answer({})) as server, pytest.raises(InputError, match="does not speak TLS; use --insecure"):
        argo(server.host).ask(CALL)


def test_no_tls_to_a_server_with(certificate: Path) -> None:
    with serving(Answer({}), certificate) as server, pytest.raises(InputError) as said:
        argo(server.host, secure=False).ask(CALL)
    assert server.url.removeprefix("https") in str(said.value)
