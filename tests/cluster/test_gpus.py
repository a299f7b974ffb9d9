"""A pool of two announced GPUs: the third fold waits for one, and stages without a GPU stay off the pool."""

from collections.abc import Iterator

import pytest
import yaml

from pipelines.render import render
from pipelines.settings import ChartValues
from tests.cluster.harness import SMALL, VALUES, Namespace, waited_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
WORDS = (*SMALL, "--folds", "3", "--n-steps", "500", "--checkpoint-every", "100", "--gpu-pool", "test")
TAINT = "nvidia.com/gpu=present:NoSchedule"


def on_cpu(template: str) -> str:
    """The GPU template with its trainer on the CPU: the announced GPUs have no device behind them."""
    body = yaml.safe_load(template)
    train = next(one for one in body["spec"]["templates"] if one["name"] == "train")
    words = train["container"]["args"]
    assert words[words.index("--device") + 1] == "cuda"
    words[words.index("--device") + 1] = "cpu"
    return yaml.safe_dump(body)


@pytest.fixture
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


def test_the_third_fold_waits_for_a_gpu_and_evaluate_and_gate_stay_off_the_pool(pool: Namespace) -> None:
    workflow = pool.submit(*WORDS, "--run-id", "gpus")
    two_train = ["Pending", "Running", "Running"]
    waited_for("third fold that waits", 240, lambda: phases(pool, workflow, "train") == two_train)
    waiting = waited_for("scheduler's reason", 30, lambda: unschedulable(pool, workflow, "train"))
    assert "Insufficient nvidia.com/gpu" in waiting[0]
    # Argo takes the scheduler's reason over a moment later.
    said = "Insufficient nvidia.com/gpu"
    waited_for("reason in status", 60, lambda: said in pool.command("status", workflow).stdout, pause_s=2)

    pool.cluster.kubectl("taint", "node", "node-1", TAINT)
    kept_off = waited_for("waiting evaluation", 240, lambda: unschedulable(pool, workflow, "evaluate"))
    assert "untolerated taint" in kept_off[0], "the evaluation would go to a GPU node"
    waited_for(
        "training of the third fold, which tolerates the taint",
        240,
        lambda: len(found := phases(pool, workflow, "train")) == 3 and "Pending" not in found,
    )
    pool.cluster.kubectl("taint", "node", "node-1", f"{TAINT}-")

    body = pool.ended(workflow, 400)
    assert (pool.runs / "gpus" / "summary.json").exists(), body["status"]
    for pod in [pod for stage in ("prepare", "evaluate", "gate") for pod in pool.pods(workflow, stage)]:
        main = next(container for container in pod["spec"]["containers"] if container["name"] == "main")
        assert "nvidia.com/gpu" not in str(main["resources"])
