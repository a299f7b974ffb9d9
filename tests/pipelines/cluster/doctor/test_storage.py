"""Claims: there, bound, and mountable by all folds at once."""

from typing import Any

import pytest

from pipelines.cluster.doctor.storage import claims
from tests.pipelines.cluster.doctor.fakes import (
    OWN,
    FakeReader,
    claim,
    gpu_node,
    healthy,
    look,
    node,
    only,
    texts,
)

CACHE = f"{OWN}/persistentvolumeclaims/feature-cache"
CLASS = "/apis/storage.k8s.io/v1/storageclasses/files"


def with_cache(*modes: str, **fields: Any) -> FakeReader:
    reader = healthy()
    reader.objects[CACHE] = claim("feature-cache", *modes, **fields)
    return reader


def test_bound_claims_tell_their_size_and_modes() -> None:
    assert texts(look(claims, healthy()), "ok") == [
        "claim feature-cache is bound: 100Gi, ReadWriteMany -> ",
        "claim market-data is bound: 100Gi, ReadOnlyMany -> ",
    ]


def test_an_absent_claim_is_an_error_and_the_other_is_still_looked_at() -> None:
    reader = healthy()
    del reader.objects[CACHE]
    results = look(claims, reader)
    assert "claim feature-cache is not in namespace argo" in texts(results, "error")[0]
    assert "claim market-data is bound" in texts(results, "ok")[0]


def test_read_write_once_with_parallel_folds_on_several_nodes_is_an_error() -> None:
    text = texts(look(claims, with_cache("ReadWriteOnce")), "error")[0]
    assert "is ReadWriteOnce, but pods of 3 folds may run on 2 nodes" in text
    assert "ReadWriteMany claim" in text


def test_a_node_that_is_down_still_counts() -> None:
    reader = with_cache("ReadWriteOnce")
    reader.objects["/api/v1/nodes/gpu-1"]["status"]["conditions"][0]["status"] = "Unknown"
    reader.objects["/api/v1/nodes/gpu-1"]["spec"]["taints"] += [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    ]
    assert "2 nodes" in texts(look(claims, reader), "error")[0]


def test_read_write_once_on_one_node_is_a_warning() -> None:
    reader = with_cache("ReadWriteOnce")
    del reader.objects["/api/v1/nodes/cpu-1"]
    assert "works while every pod runs on one node (now gpu-1)" in only(look(claims, reader), "warning")


def test_a_node_that_no_pod_can_use_does_not_count() -> None:
    reader = with_cache("ReadWriteOnce")
    reader.objects["/api/v1/nodes/cpu-1"] = node("cpu-1", memory="1Gi")
    assert only(look(claims, reader), "warning")


def test_a_volume_that_lives_on_one_node_is_a_warning() -> None:
    reader = with_cache("ReadWriteOnce")
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-1"]}]}]
    reader.objects["/api/v1/persistentvolumes/pv-feature-cache"] = {
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    }
    assert "now gpu-1" in only(look(claims, reader), "warning")


@pytest.mark.parametrize("parameters", [{"folds": "1"}, {"fold-idx": "2"}])
def test_one_fold_at_a_time_may_be_read_write_once(parameters: dict[str, str]) -> None:
    assert texts(look(claims, with_cache("ReadWriteOnce"), parameters=parameters), "error") == []


def test_a_volume_that_can_more_than_was_asked_for_is_ok() -> None:
    reader = with_cache("ReadWriteOnce")
    reader.objects[CACHE]["status"]["accessModes"] = ["ReadWriteOnce", "ReadWriteMany"]
    results = look(claims, reader)
    assert {result.level.value for result in results} == {"ok"}
    assert "ReadWriteOnce, ReadWriteMany" in results[0].what


def test_read_write_once_where_nodes_cannot_be_seen_is_a_warning() -> None:
    reader = with_cache("ReadWriteOnce")
    reader.denied = {"nodes"}
    assert "nodes cannot be seen (not allowed to list nodes)" in only(look(claims, reader), "warning")


def test_a_claim_of_one_pod_is_an_error() -> None:
    assert "ReadWriteOncePod" in texts(look(claims, with_cache("ReadWriteOncePod")), "error")[0]


def test_runs_on_a_claim_that_is_only_read_are_an_error() -> None:
    assert "ReadOnlyMany, but runs are written" in texts(look(claims, with_cache("ReadOnlyMany")), "error")[0]


def test_raw_data_may_be_on_a_claim_that_is_only_read() -> None:
    assert texts(look(claims, healthy()), "error") == []


def test_a_claim_being_deleted_is_an_error() -> None:
    reader = healthy()
    reader.objects[CACHE]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "is being deleted" in texts(look(claims, reader), "error")[0]


def test_a_lost_volume_is_an_error() -> None:
    text = texts(look(claims, with_cache("ReadWriteMany", phase="Lost")), "error")[0]
    assert "lost its volume pv-feature-cache" in text


@pytest.mark.parametrize(
    ("mode", "level", "text"),
    [
        ("WaitForFirstConsumer", "ok", "waits for its first pod"),
        ("Immediate", "error", "Pending though storage class files binds at once"),
    ],
)
def test_a_pending_claim_depends_on_its_storage_class(mode: str, level: str, text: str) -> None:
    reader = with_cache("ReadWriteMany", phase="Pending")
    reader.objects[CLASS] = {"volumeBindingMode": mode}
    assert text in texts(look(claims, reader), level)[0]


def test_a_pending_claim_of_no_class_is_an_error() -> None:
    reader = with_cache("ReadWriteMany", phase="Pending")
    reader.objects[CACHE]["spec"]["storageClassName"] = ""
    assert "names no storage class" in texts(look(claims, reader), "error")[0]


def test_a_pending_claim_of_an_absent_class_is_a_warning() -> None:
    reader = with_cache("ReadWriteMany", phase="Pending")
    assert "storage class files does not exist" in only(look(claims, reader), "warning")


def test_a_pending_claim_of_a_class_that_may_not_be_read_is_a_warning() -> None:
    reader = with_cache("ReadWriteMany", phase="Pending")
    reader.denied = {CLASS}
    assert "may not be read" in only(look(claims, reader), "warning")


def test_more_nodes_are_counted() -> None:
    reader = with_cache("ReadWriteOnce")
    reader.objects["/api/v1/nodes/gpu-2"] = gpu_node("gpu-2")
    assert "3 nodes" in texts(look(claims, reader), "error")[0]
