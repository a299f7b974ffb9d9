"""`logs -f` and `status` on a real cluster: every line once, while pods die and servers restart."""

import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.harness import SMALL, Namespace
from tests.conftest import REPOSITORY
from trainer.errors import ExitCode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
STEPS = 1000  # the servers restart while it trains
LONG = (*SMALL, "--folds", "1", "--n-steps", str(STEPS), "--checkpoint-every", "20")


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
        namespace.cluster.restart_api_server()
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


class CuttingProxy:
    """Passes connections on to the API server, and cuts each off after a while."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server, self.num_cuts = server, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed: the test is over
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.server) as upstream:
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()
            time.sleep(random.uniform(0.3, 4))
            self.num_cuts += 1
            for end in (client, upstream):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


# Bursts of lines, many of one moment and some equal, from both streams; the first attempt is killed.
WRITER = """
import os, sys, time
n = 0
for burst in range(30):
    for _ in range(100):
        sys.stdout.write(f"line {n}\\n"); n += 1
        if n % 7 == 0: sys.stderr.write("same\\n")
    sys.stdout.flush(); time.sleep(0.4)
if "{{retries}}" == "0": os._exit(137)
"""
NUM_LINES, NUM_SAME = 3000, 3000 // 7


def writer(template: dict[str, Any]) -> dict[str, Any]:
    """A Workflow of one stage `train` that writes; settings of the pod as in the installed template."""
    spec = template["spec"]
    train = next(item for item in spec["templates"] if item["name"] == "prepare")
    container = {
        **{key: train["container"][key] for key in ("imagePullPolicy", "securityContext")},
        "image": train["container"]["image"].replace("{{workflow.parameters.git-branch}}", "dev"),
        "command": ["python3", "-u", "-c", WRITER],
    }
    retries = {"limit": 2, "retryPolicy": "Always", "backoff": {"duration": "2s"}}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "writer", "labels": {"app.kubernetes.io/name": "alpha-rl"}},
        "spec": {
            **{
                key: spec[key]
                for key in (
                    "serviceAccountName",
                    "securityContext",
                    "podSpecPatch",
                    "automountServiceAccountToken",
                )
                if key in spec
            },
            "entrypoint": "train",
            "volumes": [volume for volume in spec["volumes"] if volume["name"] == "tmp"],
            "templates": [{"name": "train", "retryStrategy": retries, "container": container}],
        },
    }


def test_every_line_once_through_connections_that_are_cut_all_the_time(
    namespace: Namespace, tmp_path: Path
) -> None:
    config = yaml.safe_load(Path(namespace.cluster.env["KUBECONFIG"]).read_text())
    server = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
    host, _, port = server.rpartition(":")
    proxy = CuttingProxy((host, int(port)))
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    cutting = tmp_path / "kubeconfig"
    cutting.write_text(yaml.safe_dump(config))
    cutting.chmod(0o600)
    template = namespace.cluster.get("-n", namespace.name, "workflowtemplate", "walkforward")
    namespace.apply(writer(template))
    out, err = tmp_path / "out", tmp_path / "err"
    words = ("logs", "writer", "-f", "--kubeconfig", str(cutting))
    with proxy.listener, running(namespace, *words, out=out, err=err) as logs:
        assert logs.wait(400) == 0, err.read_text()
    lines = out.read_text().splitlines()
    for number in (1, 2):
        own = [
            line.removeprefix(f"train/{number} | ") for line in lines if line.startswith(f"train/{number} |")
        ]
        assert [text for text in own if text.startswith("line ")] == [f"line {i}" for i in range(NUM_LINES)]
        assert own.count("same") == NUM_SAME
    assert proxy.num_cuts > 5


def test_status_tells_attempts_steps_and_causes(namespace: Namespace) -> None:
    done = namespace.command("status", "lines", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    train = next(stage for stage in found["stages"] if stage["label"] == "fold0 train")
    assert (train["state"], train["done"], train["total"]) == ("done", STEPS, STEPS)
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
