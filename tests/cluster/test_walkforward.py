"""The whole plan on a real cluster: verdict, bad data, the same id twice, many folds."""

import json
import time

import pytest

from tests.cluster.harness import DEMO, QUICK, Namespace, Twice
from trainer.errors import ExitCode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def workflows(namespace: Namespace) -> set[str]:
    """Names of all that exist."""
    found = namespace.cluster.get("-n", namespace.name, "workflows")["items"]
    return {item["metadata"]["name"] for item in found}


def test_a_dry_run_prints_at_once_what_kubernetes_accepts(namespace: Namespace) -> None:
    began = time.monotonic()
    done = namespace.command("submit", *QUICK, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 10  # alone 0.6 s; the bar of 2.5 s is for a machine at rest
    before = workflows(namespace)
    namespace.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=done.stdout)
    assert workflows(namespace) == before


def test_a_server_dry_run_is_admitted_and_not_stored(namespace: Namespace) -> None:
    before = workflows(namespace)
    done = namespace.command("submit", *QUICK, "--server-dry-run", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metadata"]["uid"]
    assert workflows(namespace) == before


@pytest.fixture(scope="module")
def demo(namespace: Namespace) -> dict[str, object]:
    """The demo with three folds, followed to its end as a person would."""
    done = namespace.command(
        *("submit", "--git-branch", "dev", *DEMO, "--folds", "3", "--run-id", "demo", "--watch"),
        timeout_s=850,
    )
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def test_three_folds_of_the_planted_market_pass_and_watch_exits_with_the_verdict(
    namespace: Namespace, demo: dict[str, object]
) -> None:
    assert demo["code"] == ExitCode.DONE, demo["err"]
    summary = json.loads((namespace.runs / "demo" / "summary.json").read_text())
    assert summary["verdict"]["outcome"] == "pass"
    assert [fold["fold"] for fold in summary["folds"]] == [0, 1, 2]


def test_the_verdict_is_read_without_the_claim(namespace: Namespace, demo: dict[str, object]) -> None:
    assert demo["code"] == 0
    done = namespace.command("report", "demo", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((namespace.runs / "demo" / "summary.json").read_text())


def test_the_exit_handler_notes_the_end(namespace: Namespace, demo: dict[str, object]) -> None:
    assert demo["code"] == 0
    ended = json.loads((namespace.runs / "demo" / "ended.json").read_text())
    assert (ended["status"], ended["failures"]) == ("Succeeded", [])


def test_the_same_id_again_answers_at_once_from_the_markers(
    namespace: Namespace, demo: dict[str, object]
) -> None:
    before = namespace.marker("demo", "train", 0)
    name = namespace.submit(*DEMO, "--folds", "3", "--run-id", "demo")
    body = namespace.ended(name, 300)
    assert body["status"]["phase"] == "Succeeded"
    assert namespace.marker("demo", "train", 0) == before
    assert len(namespace.attempts("demo", 0)) == 1, "it trained again"


def test_another_configuration_under_the_same_id_is_refused(
    namespace: Namespace, demo: dict[str, object]
) -> None:
    name = namespace.submit(*DEMO, "--folds", "3", "--seed", "5", "--run-id", "demo")
    body = namespace.ended(name, 300)
    assert body["status"]["phase"] == "Failed"
    prepare = [node for node in body["status"]["nodes"].values() if node.get("templateName") == "prepare"]
    assert [node["outputs"]["exitCode"] for node in prepare if node["type"] == "Pod"] == ["78"]
    summary = json.loads((namespace.runs / "demo" / "summary.json").read_text())
    assert summary["verdict"]["outcome"] == "pass", "the finished run was touched"


def test_bad_data_is_the_message_a_person_sees_and_every_fold_is_missing(namespace: Namespace) -> None:
    bad = namespace.disk / "bad.mbp-10.dbn"
    bad.write_bytes(b"DBN\x03not a recording")
    name = namespace.submit("--mbp10-data-dir", "/feature-cache/bad.mbp-10.dbn", "--run-id", "bad")
    body = namespace.ended(name, 300)
    assert body["status"]["phase"] == "Failed"
    pods = {node["templateName"]: node for node in body["status"]["nodes"].values() if node["type"] == "Pod"}
    assert pods["prepare"]["outputs"]["exitCode"] == "2"
    assert "/feature-cache/bad.mbp-10.dbn" in pods["prepare"]["message"]
    assert "every fold is missing" in pods["gate"]["message"]
    assert "train" not in pods
    status = namespace.command("status", name)
    assert "/feature-cache/bad.mbp-10.dbn" in status.stdout


def test_two_submits_of_one_id_run_one_after_the_other(namespace: Namespace, twice: Twice) -> None:
    assert len(twice.names) == 2
    assert len(namespace.attempts("twice", 0)) == 1, "both trained"
    codes = {namespace.gate_code(name) for name in twice.names}
    assert codes == {twice.second.process.returncode}, twice.second.err
    assert codes < {ExitCode.DONE, ExitCode.REJECTED, ExitCode.INCONCLUSIVE}


def test_twenty_folds_fit_one_workflow_object(
    namespace: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (*DEMO, "--config", "/feature-cache/many.yaml", "--folds", "20", "--run-id", "twenty")
    words = (*words, "--n-steps", "2", "--checkpoint-every", "2")
    body = namespace.ended(namespace.submit(*words), 850)
    size = len(json.dumps(body).encode())
    with capsys.disabled():
        print(f"\nworkflow of 20 folds: {size:,} bytes")  # noqa: T201 (a figure that people ask for)
    assert size < 1_000_000
    folds = sorted(int(path.name.removeprefix("fold")) for path in (namespace.runs / "twenty").glob("fold*"))
    assert folds == list(range(20))
    summary = json.loads((namespace.runs / "twenty" / "summary.json").read_text())
    assert len([fold for fold in summary["folds"] if fold is not None]) == 20
