"""Nodes for the pods, and the semaphore in front of the GPU pool."""

from typing import Any

import pytest

from pipelines.cluster.doctor.pool import pools, semaphores, stays_off
from tests.pipelines.cluster.doctor.fakes import (
    OWN,
    POOL,
    TEMPLATE,
    FakeReader,
    gpu_node,
    healthy,
    look,
    node,
    only,
    texts,
)

GPU_NODE = "/api/v1/nodes/gpu-1"
SEMAPHORES = f"{OWN}/configmaps/walkforward-semaphores"


def test_a_good_pool_tells_nodes_and_gpus_and_the_other_stages_have_a_node() -> None:
    assert texts(look(pools, healthy()), "ok") == [
        "prepare, evaluate, gate, finish (any node off the GPU pool): 1 node -> ",
        "train (pool k8s.scaleway.com/pool-name=ci-training-h100): 1 node with 4 GPUs -> ",
    ]


def broken(**change: Any) -> FakeReader:
    reader = healthy()
    body = reader.objects[GPU_NODE]
    for path, value in change.items():
        target = body
        *parents, last = path.split("__")
        for parent in parents:
            target = target[parent]
        target[last] = value
    return reader


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"spec__unschedulable": True}, "gpu-1 is cordoned"),
        ({"status__conditions": []}, "gpu-1 is not ready"),
        (
            {"status__allocatable": {"cpu": "16", "memory": "64Gi"}},
            "gpu-1 announces 0 nvidia.com/gpu, train asks for 1",
        ),
        (
            {"status__allocatable": {"cpu": "16", "memory": "16Gi", "nvidia.com/gpu": "4"}},
            "gpu-1 has 16 GiB memory, train asks for 24 GiB",
        ),
        (
            {"status__allocatable": {"cpu": "2", "memory": "64Gi", "nvidia.com/gpu": "4"}},
            "gpu-1 has 2 CPUs, train asks for 4",
        ),
        (
            {"spec__taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]},
            "gpu-1 has the taint team=b:NoSchedule, which is not tolerated",
        ),
    ],
)
def test_a_pool_whose_only_node_cannot_take_the_pod_is_an_error_with_the_reason(
    change: dict[str, Any], text: str
) -> None:
    (found,) = texts(look(pools, broken(**change)), "error")
    assert text in found


def test_a_preferred_taint_hinders_nothing() -> None:
    reader = broken(spec__taints=[{"key": "team", "effect": "PreferNoSchedule"}])
    assert texts(look(pools, reader), "error") == []


def test_one_bad_node_among_good_ones_is_a_warning() -> None:
    reader = healthy()
    reader.objects["/api/v1/nodes/gpu-2"] = gpu_node("gpu-2")
    reader.objects["/api/v1/nodes/gpu-2"]["spec"]["unschedulable"] = True
    assert "gpu-2 is cordoned" in only(look(pools, reader), "warning")


def test_a_pool_that_is_not_there_names_those_that_are() -> None:
    text = only(look(pools, healthy(), parameters={"gpu-pool": "ci-training-h200"}), "error")
    assert (
        "no node has the label k8s.scaleway.com/pool-name=ci-training-h200: train would stay Pending" in text
    )
    assert "use a pool that is there: ci-training-h100" in text


def test_no_node_with_such_a_label_at_all_points_at_the_label() -> None:
    reader = healthy()
    del reader.objects[GPU_NODE]
    assert "set gpuPoolLabel of the chart" in only(look(pools, reader), "error")


@pytest.mark.parametrize(
    "evidence", ["/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status", "/apis/karpenter.sh"]
)
def test_an_empty_pool_with_an_autoscaler_is_a_warning(evidence: str) -> None:
    reader = healthy()
    del reader.objects[GPU_NODE]
    reader.objects[evidence] = {"data": {}}
    assert "unless an autoscaler adds one" in only(look(pools, reader), "warning")


def test_a_cluster_without_nodes_is_one_error() -> None:
    reader = healthy()
    del reader.objects[GPU_NODE], reader.objects["/api/v1/nodes/cpu-1"]
    assert "the cluster has no node" in only(look(pools, reader), "error")


def anywhere(reader: FakeReader) -> FakeReader:
    """The installed template as `keepGpuPoolFree: false` renders it."""
    for template in reader.objects[TEMPLATE]["spec"]["templates"]:
        template.pop("affinity", None)
    return reader


def test_cpu_stages_without_a_node_are_an_error() -> None:
    reader = healthy()
    del reader.objects["/api/v1/nodes/cpu-1"]
    (text,) = texts(look(pools, reader), "error")
    assert "no node is off the GPU pool: prepare, evaluate, gate, finish would stay Pending" in text
    assert "keepGpuPoolFree" in text
    (text,) = texts(look(pools, anywhere(reader)), "error")
    assert "no node can take prepare, evaluate, gate, finish (any node)" in text
    assert "nvidia.com/gpu=present:NoSchedule, which is not tolerated" in text


def test_a_node_of_another_gpu_pool_may_take_cpu_stages() -> None:
    """Only the run's own pool is avoided: the parameter counts, not the template's default."""
    reader = healthy()
    del reader.objects["/api/v1/nodes/cpu-1"]
    reader.objects[GPU_NODE]["spec"]["taints"] = []
    found = texts(look(pools, reader, parameters={"gpu-pool": "other"}), "ok")
    assert found == ["prepare, evaluate, gate, finish (any node off the GPU pool): 1 node -> "]


def test_gpu_nodes_without_a_taint_may_be_taken_by_cpu_stages() -> None:
    reader = anywhere(broken(spec__taints=[]))
    text = only(look(stays_off, reader), "warning")
    assert "may land on GPU nodes, which nothing keeps free: gpu-1" in text
    assert "kubectl taint nodes gpu-1" in text


def test_a_pool_that_the_template_keeps_free_needs_no_taint() -> None:
    assert look(stays_off, broken(spec__taints=[])) == []


def test_tainted_gpu_nodes_are_kept_and_a_cluster_of_one_node_cannot() -> None:
    assert look(stays_off, anywhere(healthy())) == []
    alone = anywhere(broken(spec__taints=[]))
    del alone.objects["/api/v1/nodes/cpu-1"]
    assert look(stays_off, alone) == []


def semaphore(value: str | None) -> FakeReader:
    reader = healthy()
    reader.objects[SEMAPHORES]["data"] = {} if value is None else {"gpu-pool": value}
    return reader


def test_a_semaphore_of_the_pools_size_is_ok() -> None:
    assert "walkforward-semaphores/gpu-pool: 4 training pods at a time" in only(
        look(semaphores, healthy()), "ok"
    )


def test_an_absent_semaphore_is_an_error_with_the_command_that_makes_it() -> None:
    reader = healthy()
    del reader.objects[SEMAPHORES]
    assert "kubectl create configmap walkforward-semaphores -n argo --from-literal=gpu-pool=1" in only(
        look(semaphores, reader), "error"
    )


def test_an_absent_key_is_an_error() -> None:
    assert "has no key gpu-pool" in only(look(semaphores, semaphore(None)), "error")


@pytest.mark.parametrize("value", ["two", "", "0", "-1", "1.5"])
def test_a_semaphore_that_is_no_whole_number_from_one_is_an_error(value: str) -> None:
    assert f"is {value!r}, not a whole number from 1" in only(look(semaphores, semaphore(value)), "error")


def test_more_slots_than_gpus_is_a_warning_with_the_right_number() -> None:
    results = look(semaphores, semaphore("9"))
    (text,) = texts(results, "warning")
    assert "lets 9 pods train on 4 GPUs" in text
    assert '"gpu-pool":"4"' in text


def test_a_semaphore_is_judged_alone_where_nodes_cannot_be_seen_or_no_gpu_is_needed() -> None:
    reader = semaphore("9")
    reader.denied = {"nodes"}
    assert only(look(semaphores, reader), "ok")
    on_cpu = semaphore("9")
    train = next(each for each in on_cpu.objects[TEMPLATE]["spec"]["templates"] if each["name"] == "train")
    train["container"]["resources"] = {}
    assert only(look(semaphores, on_cpu), "ok")


def test_pods_of_a_node_selector_are_placed_by_it_and_by_the_given_parameter() -> None:
    reader = healthy()
    reader.objects["/api/v1/nodes/gpu-2"] = node("gpu-2", gpus=8, labels={**POOL, next(iter(POOL)): "big"})
    assert "1 node with 8 GPUs" in texts(look(pools, reader, parameters={"gpu-pool": "big"}), "ok")[1]
