"""A pod may be lost at any time: training resumes by itself and ends with the bytes of an undisturbed run.

One run bears it all, one fault after the other, each while the attempt trains that followed the last one. The
tests stand in that order; what each of them asserts is its own fault alone. Servers that restart are in
`test_following.py`, with a run of the same bytes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.harness import LONG, Namespace, waited_for
from trainer.errors import ExitCode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
RUN_ID = "disturbed"
STARTED_S = 240  # a backoff of up to 20 s, a pod, and a little way


@pytest.fixture(scope="module")
def disturbed(namespace: Namespace, undisturbed: Callable[[], str]) -> Namespace:
    """The namespace once the run is submitted that the faults hit."""
    namespace.submit(*LONG, "--run-id", RUN_ID)
    return namespace


@contextmanager
def resumed(namespace: Namespace) -> Iterator[str]:
    """Gives the pod that trains, and asserts that its end is followed by a start from a checkpoint."""
    before = len(namespace.starts(RUN_ID, 0)) if (namespace.runs / RUN_ID).exists() else 0
    step = 20 if before <= 1 else namespace.starts(RUN_ID, 0)[-1]["resumed_from_step"] + 20
    pod = namespace.training_pod(namespace.newest(RUN_ID), RUN_ID, 0, step=step, seconds=STARTED_S)
    before = len(namespace.starts(RUN_ID, 0))
    yield pod
    waited_for("further start", STARTED_S, lambda: len(namespace.starts(RUN_ID, 0)) > before)
    starts = namespace.starts(RUN_ID, 0)
    assert len(starts) == before + 1, starts
    assert starts[-1]["resumed_from_step"] >= step, starts


def test_a_killed_trainer_resumes(disturbed: Namespace) -> None:
    """SIGKILL: out of memory, say."""
    with resumed(disturbed) as pod:
        disturbed.cluster.tool("kill-pod", disturbed.name, pod)


def test_a_deleted_pod_saves_and_resumes_where_it_was(disturbed: Namespace) -> None:
    """SIGTERM and grace: a preemption."""
    with resumed(disturbed) as pod:
        disturbed.cluster.kubectl("-n", disturbed.name, "delete", "pod", pod, "--wait=false")
    saved = disturbed.attempts(RUN_ID, 0)[-2].rpartition("checkpoint saved: ")[2]
    step = disturbed.starts(RUN_ID, 0)[-1]["resumed_from_step"]
    assert f"checkpoint-{step}.bin " in saved, "the next attempt went on from an earlier checkpoint"


def test_stop_saves_while_the_controller_restarts_and_retry_resumes(
    disturbed: Namespace, undisturbed: Callable[[], str]
) -> None:
    workflow = disturbed.newest(RUN_ID)
    with resumed(disturbed):
        disturbed.cluster.tool("stop", "workflow-controller")
        try:
            done = disturbed.command("stop", workflow)
            assert done.returncode == 0, done.stderr
        finally:
            disturbed.cluster.tool("start", "workflow-controller")
        body = disturbed.ended(workflow, 200)
        assert body["status"]["phase"] == "Failed"
        codes = [
            node["outputs"]["exitCode"]
            for node in body["status"]["nodes"].values()
            if node.get("templateName") == "train" and node["type"] == "Pod"
        ]
        assert str(int(ExitCode.INTERRUPTED)) in codes
        undisturbed()  # has trained: the faults that follow hit every pod
        done = disturbed.command("retry", workflow, "-o", "name")
        assert done.returncode == 0, done.stderr
        assert disturbed.newest(RUN_ID) == done.stdout.strip() != workflow


def test_an_evicted_pod_of_a_drained_node_resumes(disturbed: Namespace) -> None:
    """The node evicts its pods and takes none for a while."""
    with resumed(disturbed) as pod:
        disturbed.cluster.tool("drain-node")
        try:
            waited_for("eviction", 150, lambda: not _runs(disturbed, pod))
        finally:
            disturbed.cluster.tool("undrain-node")


def test_a_pod_of_a_lost_node_resumes(disturbed: Namespace) -> None:
    """The kubelet falls silent while the container works on; someone deletes the pod by force."""
    with resumed(disturbed) as pod:
        disturbed.cluster.tool("stop", "kubelet")
        try:
            waited_for("NotReady node", 60, lambda: _node_status(disturbed) != "True")
            force = ("--force", "--grace-period=0", "--wait=false")
            disturbed.cluster.kubectl("-n", disturbed.name, "delete", "pod", pod, *force)
            time.sleep(5)  # the old container holds the lock on the fold and goes on
        finally:
            disturbed.cluster.tool("start", "kubelet")


def test_the_disturbed_run_ends_with_the_undisturbed_bytes(
    disturbed: Namespace, undisturbed: Callable[[], str]
) -> None:
    waited_for("end of training", 500, lambda: disturbed.has_trained(RUN_ID, 0))
    assert disturbed.marker(RUN_ID, "train", 0)["checkpoint_sha256"] == undisturbed()
    body = disturbed.ended(disturbed.newest(RUN_ID), 300)
    assert (disturbed.runs / RUN_ID / "summary.json").exists(), body["status"].get("message")
    assert disturbed.marker(RUN_ID, "evaluate", 0)["checkpoint_sha256"] == undisturbed()


def _runs(namespace: Namespace, pod: str) -> bool:
    return "Running" in namespace.cluster.kubectl(
        "-n", namespace.name, "get", "pod", pod, "-o", "jsonpath={.status.phase}", "--ignore-not-found"
    )


def _node_status(namespace: Namespace) -> str:
    ready = '{.items[0].status.conditions[?(@.type=="Ready")].status}'
    return namespace.cluster.kubectl("get", "nodes", "-o", f"jsonpath={ready}")
