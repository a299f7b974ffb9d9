"""`walkforward submit` as it is typed: flags, exit codes, a client dry run that is quick and asks nobody."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cappa
import pytest
import yaml

from pipelines.cli import main
from pipelines.commands.submit import RUN, Submit
from pipelines.golden import REPOSITORY
from pipelines.parameters import RunParameters, parameter_name
from tests.pipelines.cluster.loopback import Answer, Loopback, Request, serving
from tests.pipelines.cluster.memory_api import TEMPLATE

INSTANCE = "workflows.argoproj.io/controller-instanceid"
# Heavy or useless for a client dry run.
NOT_LOADED = {"torch", "numpy", "pandas", "hera", "kubernetes", "requests", "urllib3", "boto3"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster, whatever this machine is set up for."""
    for name in [name for name in os.environ if name.startswith("ARGO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))


def sent(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    """Parameters that a dry run prints."""
    assert main(["submit", "--dry-run", *words]) == 0
    body = yaml.safe_load(capsys.readouterr().out)
    return {item["name"]: item["value"] for item in body["spec"]["arguments"]["parameters"]}


def flags_of_the_run() -> set[str]:
    command: Any = cappa.collect(Submit)
    return {arg.field_name for arg in command.all_arguments if getattr(arg.group, "name", "") == RUN.name}


def test_every_parameter_of_a_run_has_a_flag() -> None:
    assert flags_of_the_run() - {"parameter"} == set(RunParameters.model_fields)


def test_every_flag_is_the_parameter_of_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    given = {
        "git-branch": "v2",
        "folds": "4",
        "fold-idx": "1",
        "n-steps": "10",
        "n-backtests": "8",
        "per-capacity": "16",
        "checkpoint-every": "5",
        "seed": "3",
        "preset": "seed",
        "market": "planted",
        "mbp10-data-dir": "/d",
        "trades-data-dir": "/t",
        "config": "/c",
        "instrument": "ES",
        "gpu-pool": "pool",
        "mirror": "s3://results/runs",
        "run-id": "run",
    }
    assert {parameter_name(name) for name in RunParameters.model_fields} == set(given)
    by_flag = [word for name, value in given.items() for word in (f"--{name}", value)]
    by_pair = [word for name, value in given.items() for word in ("-p", f"{name}={value}")]
    assert sent(capsys, *by_flag) == given == sent(capsys, *by_pair)


def test_the_same_line_again_is_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    one = sent(capsys, "--folds", "3", "--market", "planted")["run-id"]
    assert sent(capsys, "--market", "planted", "-p", "folds=3")["run-id"] == one
    assert sent(capsys, "--market", "planted", "--folds", "4")["run-id"] != one


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dry-run", "--watch"], "options: these options exclude each other"),
        (["--dry-run", "--server-dry-run"], "options: these options exclude each other"),
        (["--folds", "0"], "parameters: folds: Input should be greater than or equal to 1"),
        (["--name", "Not_A_Name"], "--name: 'Not_A_Name' cannot name a workflow"),
        (["-l", "x"], "--labels: 'x' is no label"),
        ([], "absent: no kubeconfig there, and this is no pod; give --kubeconfig FILE or set KUBECONFIG"),
        (["-s", "nowhere"], "--argo-server: not the address of an Argo server; write host:port"),
    ],
)
def test_what_cannot_be_submitted_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", *words]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert message in streams.err
    assert streams.err.count("\n") == 1


def test_a_dry_run_is_quick_and_loads_neither_hera_nor_a_client() -> None:
    code = (
        "import sys; from pipelines.cli import main; code = main(sys.argv[1:]);"
        "print(*(name.split('.')[0] for name in sys.modules), file=sys.stderr); sys.exit(code)"
    )
    words = [sys.executable, "-c", code, "submit", "--folds", "3", "--dry-run"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert yaml.safe_load(done.stdout)["kind"] == "Workflow"
    assert NOT_LOADED & set(done.stderr.split()) == set()
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.5  # seconds of CPU


def kubernetes(request: Request) -> Answer:
    """An API server with our template and no workflow yet."""
    if "workflowtemplates" in request.path:
        return Answer(TEMPLATE)
    if request.method == "POST":
        return Answer(request.body | {"metadata": request.body["metadata"] | {"name": "walkforward-x7k2p"}})
    return Answer({"items": []})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """That API server, in the kubeconfig."""
    with serving(kubernetes) as running:
        file = tmp_path / "kubeconfig"
        named = {"name": "dev", "context": {"cluster": "dev", "user": "dev", "namespace": "trading"}}
        body = {
            "current-context": "dev",
            "contexts": [named],
            "clusters": [{"name": "dev", "cluster": {"server": running.url}}],
            "users": [{"name": "dev", "user": {"token": "abc"}}],
        }
        file.write_text(json.dumps(body))
        monkeypatch.setenv("KUBECONFIG", str(file))
        yield running


def posted(server: Loopback) -> list[Request]:
    return [request for request in server.requests if request.method == "POST"]


def test_a_submit_creates_the_workflow_and_prints_what_follows(
    server: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "--folds", "3", "--labels", "team=desk"]) == 0
    (request,) = posted(server)
    assert request.path == "/apis/argoproj.io/v1alpha1/namespaces/trading/workflows"
    assert request.body["metadata"]["labels"]["team"] == "desk"
    assert capsys.readouterr().out.startswith("walkforward-x7k2p submitted to namespace trading: run main-")


def test_a_controllers_instance_is_the_workflows_label_and_the_lists(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARGO_INSTANCEID", "blue")
    assert main(["submit"]) == 0
    assert posted(server)[0].body["metadata"]["labels"][INSTANCE] == "blue"
    lists = [
        request.query["labelSelector"] for request in server.requests if "labelSelector" in request.query
    ]
    assert lists
    assert all(f"{INSTANCE}=blue" in selector for selector in lists)


def test_a_dry_run_names_the_instance_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--dry-run", "--instanceid", "blue", "-o", "json"]) == 0
    labels = json.loads(capsys.readouterr().out)["metadata"]["labels"]
    assert labels[INSTANCE] == "blue"
    assert labels["workflows.argoproj.io/workflow-template"] == "walkforward"


def test_the_server_is_told_of_a_dry_run(server: Loopback, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "--server-dry-run", "-o", "json"]) == 0
    assert posted(server)[0].query["dryRun"] == "All"
    assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "walkforward-x7k2p"


@pytest.mark.parametrize("code", [0, 3, 4, 70])
def test_watch_ends_with_the_verdict(
    code: int, server: Loopback, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    followed = []

    def follow(api: Any, name: str, stdout: Any, stderr: Any, *, flags: str, answered: bool) -> int:
        assert answered, "the server took the workflow: its being away now is waited for"
        followed.append(name)
        return code

    monkeypatch.setattr("pipelines.cluster.watching.follow", follow)
    assert main(["submit", "--watch"]) == code
    assert followed == ["walkforward-x7k2p"]


def test_a_server_that_is_not_ready_is_exit_code_75(
    server: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda request: Answer("starting", 503)
    assert main(["submit"]) == 75
    assert capsys.readouterr().err == (
        f"walkforward: {server.url}: not ready (503): starting; try again in a moment\n"
    )


def test_a_token_is_nowhere_in_what_is_printed(server: Loopback, capsys: pytest.CaptureFixture[str]) -> None:
    server.answer = lambda request: Answer({"message": "Unauthorized"}, 401)
    assert main(["submit", "--debug"]) == 2
    assert "abc" not in capsys.readouterr().err
