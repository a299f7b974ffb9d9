"""Priority class and Kueue queue."""

from typing import Any

import pytest

from pipelines.cluster.doctor.admission import kueue, priority_class
from tests.pipelines.cluster.doctor.fakes import TEMPLATE, FakeReader, healthy, look, only

KUEUE = "/apis/kueue.x-k8s.io"
QUEUE = f"{KUEUE}/v1beta1/namespaces/argo/localqueues/research"


def train_of(reader: FakeReader) -> Any:
    return next(each for each in reader.objects[TEMPLATE]["spec"]["templates"] if each["name"] == "train")


def test_none_asked_for_says_nothing() -> None:
    assert look(priority_class, healthy()) == []
    assert look(kueue, healthy()) == []


@pytest.mark.parametrize(("there", "level"), [(True, "ok"), (False, "error")])
def test_a_named_priority_class_must_exist(there: bool, level: str) -> None:
    reader = healthy()
    train_of(reader)["priorityClassName"] = "high"
    if there:
        reader.objects["/apis/scheduling.k8s.io/v1/priorityclasses/high"] = {"value": 1000}
    assert "priority class high" in only(look(priority_class, reader), level)


def queued(conditions: list[dict[str, str]] | None, *, installed: bool = True) -> FakeReader:
    reader = healthy()
    train_of(reader)["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "research"
    if installed:
        reader.objects[KUEUE] = {"preferredVersion": {"version": "v1beta1"}}
    if conditions is not None:
        reader.objects[QUEUE] = {"status": {"conditions": conditions}}
    return reader


def test_kueue_that_is_not_installed_is_an_error() -> None:
    assert "Kueue is not installed" in only(look(kueue, queued(None, installed=False)), "error")


def test_a_queue_that_is_not_there_is_an_error() -> None:
    assert "queue research is not in namespace argo" in only(look(kueue, queued(None)), "error")


@pytest.mark.parametrize(
    ("conditions", "level", "text"),
    [
        ([{"type": "Active", "status": "True"}], "ok", "is active"),
        ([{"type": "Active", "status": "False", "message": "no ClusterQueue"}], "error", "no ClusterQueue"),
        ([], "warning", "does not say"),
    ],
)
def test_a_queue_must_be_active(conditions: list[dict[str, str]], level: str, text: str) -> None:
    assert text in only(look(kueue, queued(conditions)), level)
