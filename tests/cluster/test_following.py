"""`submit --watch`, `logs -f` and `status --watch` on a real cluster while pods die and servers restart."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness import LONG, STEPS, Namespace, Running, waited_for
from tests.cluster.proxies import BetweenRequestsProxy, CuttingProxy, api_server, kubeconfig_through
from trainer.errors import ExitCode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
RUN_ID = "lines"
# The API server's answer of this size is the template: nothing else that submit asks for is so large.
TEMPLATE_BYTES = 10_000


@dataclass(frozen=True)
class Followed:
    """A run that was followed while its servers restarted; the commands have ended.

    logs: `logs -f` through the Kubernetes API and through an Argo server, by way.
    """

    name: str
    submit: Running
    status: Running
    logs: dict[str, Running]


@pytest.fixture(scope="module")
def followed(
    namespace: Namespace,
    undisturbed: Callable[[], str],
    argo_server: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Followed]:
    """Submits through a connection that breaks as the API server restarts; then the faults, one by one."""
    undisturbed()  # has trained: what follows hits every pod
    files, cluster = tmp_path_factory.mktemp("followed"), namespace.cluster
    kubeconfig = cluster.env["KUBECONFIG"]
    proxy = BetweenRequestsProxy(api_server(kubeconfig), TEMPLATE_BYTES, cluster.restart_api_server)
    through = ("--kubeconfig", str(kubeconfig_through(proxy, kubeconfig, files / "kubeconfig")))
    with proxy, ExitStack() as stack:

        def run(label: str, *words: str, **env: str) -> Running:
            return stack.enter_context(namespace.running(files / label, *words, **env))

        asked = (*LONG, "--run-id", RUN_ID, "--git-branch", "dev", "--watch", *through)
        submit = run("submit", "submit", *asked)
        assert proxy.happened.wait(60), "the API server was not restarted between two requests"
        waited_for("submitted run", 120, lambda: namespace.named(RUN_ID))
        name = namespace.newest(RUN_ID)
        words = ("logs", name, "-f", "--stage", "train", "--attempt", "all")
        logs = {"kubernetes": run("logs", *words), "argo-server": run("server-logs", *words, **argo_server)}
        status = run("status", "status", name, "--watch", **argo_server)

        namespace.training_pod(name, RUN_ID, 0, step=20)
        cluster.restart_api_server()
        pod = namespace.training_pod(name, RUN_ID, 0, step=namespace.newest_checkpoint(RUN_ID, 0) + 20)
        cluster.tool("kill-pod", namespace.name, pod)
        waited_for("second attempt", 120, lambda: len(namespace.starts(RUN_ID, 0)) == 2)
        for server in ("argo-server", "kubelet", "workflow-controller"):
            newest = namespace.newest_checkpoint(RUN_ID, 0)
            namespace.training_pod(name, RUN_ID, 0, step=newest + 20)
            cluster.tool("restart", server)
        namespace.ended(name)
        for each in (submit, status, *logs.values()):
            each.process.wait(90)
        yield Followed(name, submit, status, logs)


def test_a_run_is_submitted_once_and_its_verdict_is_the_exit_code_though_the_api_server_restarts(
    namespace: Namespace, followed: Followed
) -> None:
    assert namespace.named(RUN_ID) == [followed.name]
    code = namespace.gate_code(followed.name)
    assert code in (ExitCode.DONE, ExitCode.REJECTED, ExitCode.INCONCLUSIVE)
    for each in (followed.submit, followed.status):
        assert each.process.returncode == code, each.err
        assert each.out.splitlines()[-1].startswith("verdict: ")
        assert "fold0 train | attempt 1 failed (exit 137)" in each.err


@pytest.mark.parametrize("way", ["kubernetes", "argo-server"])
def test_every_line_once_across_a_killed_pod_and_restarted_servers(
    namespace: Namespace, followed: Followed, way: str
) -> None:
    """The claim's own logs are the oracle: the trainer writes each line there and to stdout."""
    logs = followed.logs[way]
    assert logs.process.returncode == 0, logs.err
    printed = logs.out.splitlines()
    attempts = namespace.attempts(RUN_ID, 0)
    assert len(attempts) == 2
    for number, text in enumerate(attempts, start=1):
        own = [line.partition(" | ")[2] for line in printed if line.startswith(f"fold0 train/{number} |")]
        assert [line for line in own if line in set(text.splitlines())] == text.splitlines()


def test_a_killed_pod_and_restarted_servers_change_no_byte(
    namespace: Namespace, undisturbed: Callable[[], str], followed: Followed
) -> None:
    starts = [start["resumed_from_step"] for start in namespace.starts(RUN_ID, 0)]
    assert len(starts) == 2, "a restarted server is no reason to train again"
    assert starts[1] >= 40
    assert namespace.marker(RUN_ID, "train", 0)["checkpoint_sha256"] == undisturbed()


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
    kubeconfig = namespace.cluster.env["KUBECONFIG"]
    proxy = CuttingProxy(api_server(kubeconfig))
    cutting = kubeconfig_through(proxy, kubeconfig, tmp_path / "kubeconfig")
    template = namespace.cluster.get("-n", namespace.name, "workflowtemplate", "walkforward")
    namespace.apply(writer(template))
    words = ("logs", "writer", "-f", "--kubeconfig", str(cutting))
    with proxy, namespace.running(tmp_path / "logs", *words) as logs:
        assert logs.process.wait(400) == 0, logs.err
    lines = logs.out.splitlines()
    for number in (1, 2):
        own = [
            line.removeprefix(f"train/{number} | ") for line in lines if line.startswith(f"train/{number} |")
        ]
        assert [text for text in own if text.startswith("line ")] == [f"line {i}" for i in range(NUM_LINES)]
        assert own.count("same") == NUM_SAME
    assert proxy.num_cuts > 5


def test_status_tells_attempts_steps_and_causes(namespace: Namespace, followed: Followed) -> None:
    done = namespace.command("status", RUN_ID, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    train = next(stage for stage in found["stages"] if stage["label"] == "fold0 train")
    assert (train["state"], train["done"], train["total"]) == ("done", STEPS, STEPS)
    assert [attempt["exit_code"] for attempt in train["attempts"]] == [137, 0]
    assert found["folds_done"] == 1
    listed = json.loads(namespace.command("status", "--json").stdout)
    assert followed.name in [item["name"] for item in listed]


def test_a_deleted_pods_log_is_said_to_be_on_the_claim(namespace: Namespace, followed: Followed) -> None:
    name = followed.name
    pods = namespace.pods(name, "train")
    first = min(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])["metadata"]["name"]
    namespace.cluster.kubectl("-n", namespace.name, "delete", "pod", first)
    done = namespace.command("logs", name, "--stage", "train", "--attempt", "all")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fold0 train/2 |")
    assert done.stderr.startswith("fold0 train/1: ")
    assert "on the claim: /feature-cache/alpha-rl-runs/lines/fold0/logs/" in done.stderr
