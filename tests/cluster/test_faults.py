"""A pod may be lost at any time: training resumes by itself and ends with the bytes of an undisturbed run."""

import time
from collections.abc import Callable
from functools import cache

import pytest

from tests.cluster.harness import SMALL, Namespace, waited_for
from trainer.errors import ExitCode

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
LONG = (*SMALL, "--folds", "1", "--checkpoint-every", "20")
STEPS = 300
# A node counts as lost only after 16 s: the training must not have ended by then.
MORE_STEPS = 1000
Fault = Callable[[Namespace, str], None]


def killed(namespace: Namespace, pod: str) -> None:
    """SIGKILL to the trainer: out of memory, say."""
    namespace.cluster.tool("kill-pod", namespace.name, pod)


def deleted(namespace: Namespace, pod: str) -> None:
    """SIGTERM and grace: a preemption."""
    namespace.cluster.kubectl("-n", namespace.name, "delete", "pod", pod, "--wait=false")


def drained(namespace: Namespace, pod: str) -> None:
    """The node evicts its pods and takes none for a while."""
    namespace.cluster.tool("drain-node")
    try:
        waited_for("eviction", 150, lambda: not _runs(namespace, pod))
    finally:
        namespace.cluster.tool("undrain-node")


def lost_node(namespace: Namespace, pod: str) -> None:
    """The kubelet falls silent while the container works on; someone deletes the pod by force."""
    namespace.cluster.tool("stop", "kubelet")
    try:
        waited_for("NotReady node", 60, lambda: _node_status(namespace) != "True")
        namespace.cluster.kubectl(
            "-n", namespace.name, "delete", "pod", pod, "--force", "--grace-period=0", "--wait=false"
        )
        time.sleep(5)  # the old container holds the lock on the fold and goes on
    finally:
        namespace.cluster.tool("start", "kubelet")


def restarted_controllers(namespace: Namespace, pod: str) -> None:
    """Argo's controller and the API server restart; the pod does not notice."""
    namespace.cluster.tool("restart", "workflow-controller")
    namespace.cluster.restart_api_server()


# What happens, steps of the training, whether a further attempt must go on from a checkpoint.
FAULTS: dict[str, tuple[Fault, int, bool]] = {
    "killed": (killed, STEPS, True),
    "deleted": (deleted, STEPS, True),
    "drained": (drained, STEPS, True),
    "lost-node": (lost_node, MORE_STEPS, True),
    "restarted-controllers": (restarted_controllers, STEPS, False),
}


def _runs(namespace: Namespace, pod: str) -> bool:
    return "Running" in namespace.cluster.kubectl(
        "-n", namespace.name, "get", "pod", pod, "-o", "jsonpath={.status.phase}", "--ignore-not-found"
    )


def _node_status(namespace: Namespace) -> str:
    ready = '{.items[0].status.conditions[?(@.type=="Ready")].status}'
    return namespace.cluster.kubectl("get", "nodes", "-o", f"jsonpath={ready}")


@pytest.fixture(scope="module")
def undisturbed(namespace: Namespace) -> Callable[[int], str]:
    """Digest of the final checkpoint of a run of so many steps that nothing disturbs."""

    @cache
    def digest(steps: int) -> str:
        run_id = f"undisturbed-{steps}"
        namespace.submit(*LONG, "--n-steps", str(steps), "--run-id", run_id)
        waited_for("end of training", 400, lambda: namespace.has_trained(run_id, 0))
        assert len(namespace.attempts(run_id, 0)) == 1
        return str(namespace.marker(run_id, "train", 0)["checkpoint_sha256"])

    return digest


@pytest.mark.parametrize("name", list(FAULTS))
def test_training_resumes_by_itself_with_the_undisturbed_bytes(
    namespace: Namespace, undisturbed: Callable[[int], str], name: str
) -> None:
    fault, steps, resumes = FAULTS[name]
    expected = undisturbed(steps)
    workflow = namespace.submit(*LONG, "--n-steps", str(steps), "--run-id", name)
    fault(namespace, namespace.training_pod(workflow, name, 0, step=60))
    # Judging goes on while the next run is disturbed: it must bear that too.
    waited_for("end of training", 500, lambda: namespace.has_trained(name, 0))
    assert namespace.marker(name, "train", 0)["checkpoint_sha256"] == expected
    resumed = [start["resumed_from_step"] for start in namespace.starts(name, 0)]
    assert (max(resumed) > 0) == resumes, f"starts went on from {resumed}"


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_disturbed_run_is_judged_to_its_end(
    namespace: Namespace, undisturbed: Callable[[int], str], name: str
) -> None:
    body = namespace.ended(namespace.newest(name), 500)
    assert (namespace.runs / name / "summary.json").exists(), body["status"].get("message")
    assert namespace.marker(name, "evaluate", 0)["checkpoint_sha256"] == undisturbed(FAULTS[name][1])


def test_stop_saves_and_retry_goes_on_to_the_same_bytes(
    namespace: Namespace, undisturbed: Callable[[int], str]
) -> None:
    workflow = namespace.submit(*LONG, "--n-steps", str(STEPS), "--run-id", "stopped")
    namespace.training_pod(workflow, "stopped", 0, step=60)
    done = namespace.command("stop", workflow)
    assert done.returncode == 0, done.stderr
    body = namespace.ended(workflow, 200)
    assert body["status"]["phase"] == "Failed"
    codes = {
        node["outputs"]["exitCode"]
        for node in body["status"]["nodes"].values()
        if node.get("templateName") == "train" and node["type"] == "Pod"
    }
    assert codes == {str(int(ExitCode.INTERRUPTED))}
    done = namespace.command("retry", workflow, "-o", "name")
    assert done.returncode == 0, done.stderr
    again = done.stdout.strip()
    waited_for("end of training", 400, lambda: namespace.has_trained("stopped", 0))
    assert namespace.newest("stopped") == again
    assert namespace.starts("stopped", 0)[-1]["resumed_from_step"] >= 60
    assert namespace.marker("stopped", "train", 0)["checkpoint_sha256"] == undisturbed(STEPS)
