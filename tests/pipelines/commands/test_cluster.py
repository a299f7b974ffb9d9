"""stop, retry and report as they are typed, against a loopback API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from tests.pipelines.cluster.loopback import Answer, Loopback, Request, serving
from tests.pipelines.cluster.made_workflows import NAME, finished
from tests.pipelines.cluster.memory_api import TEMPLATE


def judged(code: int) -> dict[str, Any]:
    body = finished(code, summary='{"verdict": "pass"}')
    body["spec"]["workflowTemplateRef"] = {"name": "walkforward"}
    return body


def api_server(body: dict[str, Any]) -> Any:
    def answer(request: Request) -> Answer:
        if "workflowtemplates" in request.path:
            return Answer(TEMPLATE)
        if request.method == "POST":
            return Answer(request.body | {"metadata": request.body["metadata"] | {"name": "walkforward-new"}})
        return Answer(body if request.path.endswith(NAME) else {"items": [body]})

    return answer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """An Argo-free API server with one finished run, named by the environment as an Argo server is not."""
    with serving(api_server(judged(0))) as running:
        monkeypatch.delenv("ARGO_SERVER", raising=False)
        yield running


@pytest.fixture
def options(server: Loopback, tmp_path: Path) -> list[str]:
    file = tmp_path / "kubeconfig"
    body = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": ""}}],
        "clusters": [{"name": "dev", "cluster": {"server": server.url}}],
    }
    file.write_text(json.dumps(body))
    return ["--kubeconfig", str(file), "-n", "argo"]


def test_report_prints_json_and_writes_files(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", NAME, "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out) == {"verdict": "pass"}
    file = tmp_path / "summary.json"
    assert main(["report", NAME, "-o", str(file), *options]) == 0
    assert (json.loads(file.read_text()), capsys.readouterr().out) == ({"verdict": "pass"}, "")


def test_report_of_a_directory_asks_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("summary.json", "report.txt"):
        (tmp_path / name).write_text(f"the {name}\n")
    assert main(["report", str(tmp_path), "-s", "127.0.0.1:1"]) == 0
    assert capsys.readouterr().out == "the report.txt\n"


def test_retry_submits_again(
    server: Loopback, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retry", NAME, "-o", "name", *options]) == 0
    assert capsys.readouterr().out == "walkforward-new\n"


def test_retry_of_a_live_run_is_exit_code_75(
    server: Loopback, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    body = judged(0)
    body["status"]["phase"] = "Running"
    server.answer = api_server(body)
    assert main(["retry", NAME, *options]) == 75
    assert "is running; follow it" in capsys.readouterr().err


def test_stop_asks_the_server(
    server: Loopback, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    body = judged(0)
    body["status"]["phase"] = "Running"
    server.answer = api_server(body)
    assert main(["stop", NAME, *options]) == 0
    assert server.requests[-1].body == {"spec": {"shutdown": "Stop"}}
    assert capsys.readouterr().out.startswith(f"{NAME} is stopping")


@pytest.mark.parametrize("command", ["stop", "retry", "report"])
def test_a_run_that_is_not_there_is_exit_code_2(
    command: str, server: Loopback, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: Request) -> Answer:
        absent = Answer({"message": 'workflows "gone" not found'}, 404)
        return absent if request.path.endswith("gone") else Answer({"items": []})

    server.answer = answer
    assert main([command, "gone", *options]) == 2
    assert "no workflow and no run gone in namespace argo" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["submit"], ["stop"], ["retry"], ["report"]])
def test_help_shows_examples_and_the_argo_commands_flags(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"walkforward {words[0]} " in shown
    for flag in (
        "-n, --namespace",
        "--kubeconfig",
        "--context",
        "-s, --argo-server",
        "-k, --insecure-skip-verify",
    ):
        assert flag in shown
    assert "token" not in shown.lower()
