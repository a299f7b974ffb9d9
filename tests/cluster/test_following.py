"""`logs -f` and `status` on a real cluster: every line once, while pods die and servers restart."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.harness import Namespace, waited_for
from tests.conftest import REPOSITORY
from trainer.errors import ExitCode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
LONG = (
    *("--preset", "demo", "--market", "planted", "--folds", "1"),
    *("--n-steps", "200", "--checkpoint-every", "20"),
)


@contextmanager
def running(namespace: Namespace, *words: str, out: Path, err: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`walkforward ...` beside the test, its streams in files."""
    env = {**namespace.cluster.env, "ARGO_NAMESPACE": namespace.name}
    with out.open("wb") as stdout, err.open("wb") as stderr:
        child = subprocess.Popen(
            [sys.executable, "-m", "pipelines", *words], env=env, cwd=REPOSITORY, stdout=stdout, stderr=stderr
        )
        try:
            yield child
        finally:
            child.kill()
            child.wait()


def restart_api_server(namespace: Namespace) -> None:
    namespace.cluster.tool("restart", "kube-apiserver")
    waited_for(
        "API server", 60, lambda: "ok" in namespace.cluster.kubectl("get", "--raw", "/readyz", check=False)
    )


def restart_kubelet(namespace: Namespace) -> None:
    namespace.cluster.tool("restart", "kubelet")
    time.sleep(3)


def test_every_line_once_across_a_killed_pod_a_kubelet_and_an_api_server(
    namespace: Namespace, tmp_path: Path
) -> None:
    """The claim's own logs are the oracle: the trainer writes each line there and to stdout."""
    name = namespace.submit(*LONG, "--run-id", "lines")
    out, err = tmp_path / "out", tmp_path / "err"
    watch_out, watch_err = tmp_path / "watch-out", tmp_path / "watch-err"
    with (
        running(
            namespace, "logs", name, "-f", "--stage", "train", "--attempt", "all", out=out, err=err
        ) as logs,
        running(namespace, "status", name, "--watch", out=watch_out, err=watch_err) as watch,
    ):
        namespace.training_pod(name, "lines", 0, step=20)
        restart_api_server(namespace)
        pod = namespace.training_pod(name, "lines", 0, step=60)
        namespace.cluster.tool("kill-pod", namespace.name, pod)
        namespace.training_pod(name, "lines", 0, step=100)
        restart_kubelet(namespace)
        namespace.ended(name)
        assert logs.wait(60) == 0, err.read_text()
        verdict = watch.wait(60)
    printed = out.read_text().splitlines()
    attempts = namespace.attempts("lines", 0)
    assert len(attempts) == 2
    for number, text in enumerate(attempts, start=1):
        own = [line.partition(" | ")[2] for line in printed if line.startswith(f"fold0 train/{number} |")]
        assert [line for line in own if line in set(text.splitlines())] == text.splitlines()
    assert verdict in (ExitCode.DONE, ExitCode.REJECTED, ExitCode.INCONCLUSIVE), watch_err.read_text()
    assert watch_out.read_text().startswith("verdict: ")
    assert "fold0 train | attempt 1 failed (exit 137)" in watch_err.read_text()


def test_status_tells_attempts_steps_and_causes(namespace: Namespace) -> None:
    done = namespace.command("status", "lines", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    train = next(stage for stage in found["stages"] if stage["label"] == "fold0 train")
    assert (train["state"], train["done"], train["total"]) == ("done", 200, 200)
    assert [attempt["exit_code"] for attempt in train["attempts"]] == [137, 0]
    assert found["folds_done"] == 1
    listed = json.loads(namespace.command("status", "--json").stdout)
    assert found["name"] in [item["name"] for item in listed]


def test_a_deleted_pods_log_is_said_to_be_on_the_claim(namespace: Namespace) -> None:
    name = json.loads(namespace.command("status", "lines", "--json").stdout)["name"]
    pods = namespace.pods(name, "train")
    first = min(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])["metadata"]["name"]
    namespace.cluster.kubectl("-n", namespace.name, "delete", "pod", first)
    done = namespace.command("logs", name, "--stage", "train", "--attempt", "all")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fold0 train/2 |")
    assert done.stderr.startswith("fold0 train/1: ")
    assert "on the claim: /feature-cache/alpha-rl-runs/lines/fold0/logs/" in done.stderr
