"""A namespace of a real cluster for tests: files on the node, the template, commands, and faults.

The cluster is a one-node Kubernetes with Argo that a tool outside this repository starts; its verbs are in
the README beside it. Everything here goes through that tool, kubectl or our own command.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.manifests import objects
from tests.conftest import REPOSITORY

TOOL = Path(
    os.environ.get("ALPHA_RL_CLUSTER", REPOSITORY.parent / "shared" / "tools" / "cluster" / "cluster")
)
SITE_PACKAGES = next(Path(path) for path in sys.path if path.endswith("site-packages"))
STATE = Path(os.environ.get("CLUSTER_STATE", "/run/argo-test-cluster"))
USER_ID = 10_001
# A market a quarter as long, judged with less care: what is tested is who runs what when.
SMALL_CONFIG = """
synthetic: {rows_per_session: 16384}
evaluate: {bootstrap_resamples: 200, random_traders: 4, tile_decisions: 50}
"""
# A session a window: more folds than that market has.
MANY_CONFIG = """
synthetic: {rows_per_session: 8192, sessions: 21}
evaluate: {bootstrap_resamples: 200, random_traders: 4, tile_decisions: 25}
"""
DEMO = ("--preset", "demo", "--market", "planted")
SMALL = (*DEMO, "--config", "/feature-cache/small.yaml")
QUICK = (*SMALL, "--folds", "1", "--n-steps", "20", "--checkpoint-every", "10")
# A node counts as lost only after 16 s: the training must not have ended by then.
STEPS = 1100
LONG = (*SMALL, "--folds", "1", "--n-steps", str(STEPS), "--checkpoint-every", "20")
# Requests of a node of two cores: two folds train while two are judged, and whatever else begins waits.
# More at a time would only slow each other down.
VALUES: dict[str, Any] = {
    "image": "localhost/alpha-rl",
    "image_pull_policy": "Never",
    "data_claim": None,
    "gpus": 0,
    "gpu_pool_label": "",
    "lost_node_toleration_s": 5,
    "pod_gc_delay": "1h",
    "shm_size": "256Mi",
    "tmp_size": "1Gi",
    "cpu_resources": {"cpu": "500m", "memory": "3Gi"},
    "small_resources": {"cpu": "50m", "memory": "1Gi"},
    "gpu_resources": {"cpu": "300m", "memory": "3Gi"},
}


def waited_for(what: str, seconds: float, condition: Callable[[], Any], pause_s: float = 0.5) -> Any:
    """The condition's first true value; AssertionError that says what never came."""
    give_up = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < give_up, f"no {what} within {seconds:.0f} s"
        time.sleep(pause_s)
    return found


@dataclass(frozen=True)
class Cluster:
    """A running cluster: the environment that reaches it."""

    env: dict[str, str]

    def tool(self, *words: str) -> str:
        """Runs a verb of the cluster tool; its stdout."""
        done = subprocess.run(
            [str(TOOL), *words], env=self.env, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"cluster {' '.join(words)}: {done.stderr}"
        return done.stdout

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """kubectl's stdout; AssertionError with its stderr unless `check` is off."""
        done = subprocess.run(
            ["kubectl", *words], env=self.env, input=stdin, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def restart_api_server(self) -> None:
        """Restarts it and waits until it serves again."""
        self.tool("restart", "kube-apiserver")
        waited_for("API server", 60, lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False))

    def get(self, *words: str) -> Any:
        """An object or list as kubectl has it."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))


@dataclass(frozen=True)
class Running:
    """A command that runs beside the test; what it wrote so far."""

    process: "subprocess.Popen[bytes]"
    files: Path

    @property
    def out(self) -> str:
        return (self.files / "out").read_text()

    @property
    def err(self) -> str:
        return (self.files / "err").read_text()


@dataclass(frozen=True)
class Twice:
    """One run submitted twice: the workflows' names, and the second `submit --watch`."""

    names: list[str]
    second: Running


@dataclass(frozen=True)
class Namespace:
    """Where one test module works: its claim's files lie in `disk` on this machine."""

    cluster: Cluster
    name: str
    disk: Path

    @property
    def runs(self) -> Path:
        """Run directories, as the pods write them."""
        return self.disk / "alpha-rl-runs"

    def apply(self, *bodies: dict[str, Any] | str) -> None:
        """Server-side apply of objects or YAML text."""
        text = "\n---\n".join(body if isinstance(body, str) else yaml.safe_dump(body) for body in bodies)
        self.cluster.kubectl("-n", self.name, "apply", "--server-side", "-f", "-", stdin=text)

    def command(self, *words: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """`walkforward ...` as a person types it, in this namespace."""
        env = {**self.cluster.env, "ARGO_NAMESPACE": self.name}
        return subprocess.run(
            [sys.executable, "-m", "pipelines", *words], env=env, cwd=REPOSITORY, capture_output=True,
            text=True, timeout=timeout_s, check=False,
        )  # fmt: skip

    @contextmanager
    def running(self, files: Path, *words: str, **env: str) -> "Iterator[Running]":
        """`walkforward ...` beside the test, killed in the end; its streams in files of that name."""
        files.mkdir()
        with (files / "out").open("wb") as stdout, (files / "err").open("wb") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-m", "pipelines", *words], cwd=REPOSITORY, stdout=stdout, stderr=stderr,
                env={**self.cluster.env, "ARGO_NAMESPACE": self.name, **env},
            )  # fmt: skip
            try:
                yield Running(child, files)
            finally:
                child.kill()
                child.wait()

    def submit(self, *words: str) -> str:
        """Submits a run with the image of this code; the workflow's name."""
        done = self.command("submit", "-o", "name", "--git-branch", "dev", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def workflow(self, name: str) -> dict[str, Any]:
        """The Workflow as stored."""
        return self.cluster.get("-n", self.name, "workflow", name)  # type: ignore[no-any-return]

    def gate_code(self, name: str) -> int:
        """How the gate's container ended."""
        nodes = self.workflow(name)["status"]["nodes"].values()
        gates = [node for node in nodes if node.get("templateName") == "gate" and node["type"] == "Pod"]
        return int(gates[-1]["outputs"]["exitCode"])

    def ended(self, name: str, seconds: float = 600) -> dict[str, Any]:
        """The Workflow once it has ended."""
        return waited_for(f"end of {name}", seconds, lambda: self._if_ended(name), pause_s=1)  # type: ignore[no-any-return]

    def _if_ended(self, name: str) -> dict[str, Any] | None:
        body = self.workflow(name)
        return body if body.get("status", {}).get("finishedAt") else None

    def pods(self, workflow: str, stage: str) -> list[dict[str, Any]]:
        """Pods of a stage that exist now."""
        labels = f"workflows.argoproj.io/workflow={workflow},alpha-rl/stage={stage}"
        return self.cluster.get("-n", self.name, "pods", "-l", labels)["items"]  # type: ignore[no-any-return]

    def training_pod(self, workflow: str, run_id: str, fold: int, step: int, seconds: float = 180) -> str:
        """Name of the fold's running training pod once a checkpoint of at least `step` is on the claim."""
        return str(
            waited_for(
                f"pod that trains fold {fold} of {workflow} behind step {step}",
                seconds,
                lambda: self.newest_checkpoint(run_id, fold) >= step and self._training(workflow, fold),
                pause_s=0.1,
            )
        )

    def _training(self, workflow: str, fold: int) -> str:
        for pod in self.pods(workflow, "train"):
            words = next(c for c in pod["spec"]["containers"] if c["name"] == "main")["args"]
            if pod["status"]["phase"] == "Running" and words[words.index("--fold-idx") + 1] == str(fold):
                return str(pod["metadata"]["name"])
        return ""

    def newest_checkpoint(self, run_id: str, fold: int) -> int:
        """Step of the newest checkpoint of a fold; -1 for none."""
        found = (self.runs / run_id / f"fold{fold}").glob("checkpoint-*.bin")
        return max((int(path.stem.removeprefix("checkpoint-")) for path in found), default=-1)

    def has_trained(self, run_id: str, fold: int) -> bool:
        """Whether the fold's training has left its marker."""
        return (self.runs / run_id / f"fold{fold}" / "train.DONE.json").exists()

    def named(self, run_id: str) -> list[str]:
        """Names of a run's workflows, oldest first."""
        found = self.cluster.get("-n", self.name, "workflows", "-l", f"alpha-rl/run-id={run_id}")["items"]
        in_order = sorted(found, key=lambda body: str(body["metadata"]["creationTimestamp"]))
        return [str(body["metadata"]["name"]) for body in in_order]

    def newest(self, run_id: str) -> str:
        """Name of the newest workflow of a run."""
        return self.named(run_id)[-1]

    def marker(self, run_id: str, stage: str, fold: int | None = None) -> dict[str, Any]:
        """A completion marker."""
        directory = self.runs / run_id / ("" if fold is None else f"fold{fold}")
        return json.loads((directory / f"{stage}.DONE.json").read_text())  # type: ignore[no-any-return]

    def attempts(self, run_id: str, fold: int) -> list[str]:
        """Logs of the fold's training attempts, in order."""
        logs = sorted((self.runs / run_id / f"fold{fold}" / "logs").glob("attempt-*.log"), key=_number)
        return [path.read_text() for path in logs]

    def starts(self, run_id: str, fold: int) -> list[dict[str, Any]]:
        """Every start of the fold's training: attempt, resumed_from_step, host."""
        lines = (self.runs / run_id / f"fold{fold}" / "attempts.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def start(self) -> None:
        """Makes the namespace, its claim on this machine's disk, the account and the template."""
        self.remove(wait=True)
        self.disk.mkdir(parents=True, exist_ok=True)
        os.chown(self.disk, USER_ID, USER_ID)
        (self.disk / "small.yaml").write_text(SMALL_CONFIG)
        (self.disk / "many.yaml").write_text(MANY_CONFIG)
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects(self.name, self.disk)))
        self.install()

    def install(self, **changes: Any) -> None:
        """The template with other chart values."""
        from pipelines.render import render
        from pipelines.settings import ChartValues

        self.apply(render(ChartValues.model_validate({**VALUES, "namespace": self.name, **changes})))

    def remove(self, *, wait: bool = False) -> None:
        """Deletes the namespace and its volume, or asks for it; the files stay."""
        for kind in ("namespace", "pv"):
            asked = ("delete", kind, self.name, "--ignore-not-found", f"--wait={str(wait).lower()}")
            self.cluster.kubectl(*asked, "--timeout=90s")


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("attempt-"))
