"""A pool of two announced GPUs: the third fold waits for one, and stages without a GPU stay off the pool.

`status` says how much of the GPUs' time was used, and how much of it was lost with a pod that was killed.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import yaml

from pipelines.render import render
from pipelines.settings import ChartValues
from tests.cluster.harness import SMALL, VALUES, Namespace, waited_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
RUN_ID = "gpus"
STEPS, CHECKPOINT_EVERY = 300, 100
WORDS = (*SMALL, "--folds", "3", "--n-steps", str(STEPS), "--checkpoint-every", str(CHECKPOINT_EVERY),
         "--gpu-pool", "test", "--run-id", RUN_ID)  # fmt: skip
TAINT = "nvidia.com/gpu=present:NoSchedule"


def on_cpu(template: str) -> str:
    """The GPU template with its trainer on the CPU: the announced GPUs have no device behind them."""
    body = yaml.safe_load(template)
    train = next(one for one in body["spec"]["templates"] if one["name"] == "train")
    words = train["container"]["args"]
    assert words[words.index("--device") + 1] == "cuda"
    words[words.index("--device") + 1] = "cpu"
    return yaml.safe_dump(body)


@pytest.fixture(scope="module")
def pool(namespace: Namespace) -> Iterator[Namespace]:
    """Two GPUs on the node labelled `pool=test`; the semaphore lets three train, so the scheduler decides."""
    cluster = namespace.cluster
    cluster.tool("gpus", "2")
    # One node is all there is: the taint alone keeps the pool here.
    values = {**VALUES, "namespace": namespace.name, "gpus": 1, "gpu_pool_label": "pool"}
    values["keep_gpu_pool_free"] = False
    namespace.apply(on_cpu(render(ChartValues.model_validate(values))))
    semaphores = ("-n", namespace.name, "patch", "configmap", "walkforward-semaphores", "--type=merge", "-p")
    cluster.kubectl(*semaphores, '{"data": {"gpu-pool": "3"}}')
    yield namespace
    cluster.kubectl("taint", "node", "node-1", f"{TAINT}-", check=False)
    cluster.kubectl(*semaphores, '{"data": {"gpu-pool": "2"}}')
    cluster.tool("gpus", "0")
    namespace.install()


def phases(namespace: Namespace, workflow: str, stage: str) -> list[str]:
    """Pod phases of a stage, sorted."""
    return sorted(pod["status"]["phase"] for pod in namespace.pods(workflow, stage))


def unschedulable(namespace: Namespace, workflow: str, stage: str) -> list[str]:
    """Why the scheduler has no place for pods of a stage, one text a waiting pod."""
    conditions = [c for pod in namespace.pods(workflow, stage) for c in pod["status"].get("conditions") or []]
    return [str(c["message"]) for c in conditions if c.get("reason") == "Unschedulable"]


def logged_step(namespace: Namespace, fold: int) -> int:
    """Last step that the fold's newest attempt has logged on the claim; 0 for none."""
    return max(
        map(int, re.findall(r"^step (\d+)/", namespace.attempts(RUN_ID, fold)[-1], re.MULTILINE)), default=0
    )


def killed_behind_a_checkpoint(namespace: Namespace, workflow: str) -> None:
    """Kills fold 0's trainer once it has trained a part of the way to its second checkpoint."""
    pod = namespace.training_pod(workflow, RUN_ID, 0, step=CHECKPOINT_EVERY)
    waited_for(
        "steps behind it", 60, lambda: logged_step(namespace, 0) >= 1.25 * CHECKPOINT_EVERY, pause_s=0.1
    )
    namespace.cluster.tool("kill-pod", namespace.name, pod)


def seconds_of_main(pod: dict[str, Any]) -> float:
    """How long the pod's main container ran, as Kubernetes has it."""
    statuses = {each["name"]: each for each in pod["status"]["containerStatuses"]}
    ended = statuses["main"]["state"]["terminated"]
    began, end = (datetime.fromisoformat(ended[key]) for key in ("startedAt", "finishedAt"))
    return (end - began).total_seconds()


def test_the_third_fold_waits_for_a_gpu_and_evaluate_and_gate_stay_off_the_pool(pool: Namespace) -> None:
    workflow = pool.submit(*WORDS)
    two_train = ["Pending", "Running", "Running"]
    waited_for("third fold that waits", 240, lambda: phases(pool, workflow, "train") == two_train)
    waiting = waited_for("scheduler's reason", 30, lambda: unschedulable(pool, workflow, "train"))
    assert "Insufficient nvidia.com/gpu" in waiting[0]
    # Argo takes the scheduler's reason over a moment later.
    said = "Insufficient nvidia.com/gpu"
    waited_for("reason in status", 60, lambda: said in pool.command("status", workflow).stdout, pause_s=2)

    killed_behind_a_checkpoint(pool, workflow)

    pool.cluster.kubectl("taint", "node", "node-1", TAINT)
    kept_off = waited_for("waiting evaluation", 240, lambda: unschedulable(pool, workflow, "evaluate"))
    assert "untolerated taint" in kept_off[0], "the evaluation would go to a GPU node"
    waited_for(
        "training of the third fold, which tolerates the taint",
        240,
        lambda: len(found := phases(pool, workflow, "train")) == 4 and "Pending" not in found,
    )
    pool.cluster.kubectl("taint", "node", "node-1", f"{TAINT}-")

    body = pool.ended(workflow, 400)
    assert (pool.runs / RUN_ID / "summary.json").exists(), body["status"]
    for pod in [pod for stage in ("prepare", "evaluate", "gate") for pod in pool.pods(workflow, stage)]:
        main = next(container for container in pod["spec"]["containers"] if container["name"] == "main")
        assert "nvidia.com/gpu" not in str(main["resources"])


def test_status_tells_the_gpu_time_that_the_containers_ran_and_what_of_it_was_lost(pool: Namespace) -> None:
    workflow = pool.newest(RUN_ID)
    pods = pool.pods(workflow, "train")
    seconds = {pod["metadata"]["name"]: seconds_of_main(pod) for pod in pods}
    done = pool.command("status", workflow, "--json")
    assert done.returncode == 0, done.stderr
    gpu = json.loads(done.stdout)["gpu"]
    # Each end of a container is known to the second.
    assert gpu["used_s"] == pytest.approx(sum(seconds.values()), abs=2 * len(pods))

    first, second = pool.starts(RUN_ID, 0)
    reached = max(map(int, re.findall(r"^step (\d+)/", pool.attempts(RUN_ID, 0)[0], re.MULTILINE)))
    assert CHECKPOINT_EVERY <= second["resumed_from_step"] < reached < STEPS
    lost = (reached - second["resumed_from_step"]) / reached
    assert gpu["wasted_s"] == pytest.approx(lost * seconds[first["host"]], abs=2)
    assert 0 < gpu["wasted_s"] < seconds[first["host"]]
