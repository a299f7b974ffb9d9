"""A workflow is made once, however often its server goes away in between."""

import re
from typing import Any

import pytest

from pipelines.cluster.api import TakenError, UnreachableError
from pipelines.cluster.creating import PATIENT_TRIES, create_once, patiently
from tests.pipelines.cluster.memory_api import MemoryApi
from tests.pipelines.cluster.scripted_api import UNREACHABLE

BODY = {"metadata": {"generateName": "walkforward-", "labels": {"a": "b"}}, "spec": {}}


class LossyApi(MemoryApi):
    """Goes away in its first `num_lost` requests, before it stores the workflow or after it."""

    def __init__(self, num_lost: int, *, stores: bool) -> None:
        super().__init__()
        self.num_lost, self.stores = num_lost, stores

    def create_workflow(self, body: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        if self.num_lost:
            self.num_lost -= 1
            if self.stores:
                self.stores = False
                super().create_workflow(body)
            raise UNREACHABLE
        if body["metadata"]["name"] in self.stored:
            raise TakenError("exists already", where="trading", do="choose another name")
        return super().create_workflow(body)


def created(api: MemoryApi, body: dict[str, Any] = BODY) -> tuple[dict[str, Any], list[str], list[float]]:
    notes: list[str] = []
    naps: list[float] = []
    return create_once(api, body, notes.append, naps.append), notes, naps


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("num_lost", [0, 1, 3])
def test_one_workflow_is_made_wherever_the_requests_are_lost(num_lost: int, stores: bool) -> None:
    api = LossyApi(num_lost, stores=stores)
    made, notes, naps = created(api)
    assert [body["metadata"]["name"] for body in api.stored.values()] == [made["metadata"]["name"]]
    assert re.fullmatch(r"walkforward-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    assert made["metadata"]["labels"] == {"a": "b"}
    assert (len(naps), len(notes)) == (num_lost, 2 if num_lost > 1 else 0)


def test_two_of_one_template_have_two_names() -> None:
    api = MemoryApi()
    assert created(api)[0]["metadata"]["name"] != created(api)[0]["metadata"]["name"]


@pytest.mark.parametrize("num_lost", [0, 1])
def test_a_name_that_another_workflow_has_is_refused(num_lost: int) -> None:
    api = LossyApi(num_lost, stores=False)
    body = {"metadata": {"name": "taken"}}
    api.stored["taken"] = {"metadata": {"name": "taken", "annotations": {"alpha-rl/submission": "other"}}}
    with pytest.raises(TakenError):
        created(api, body)


def test_a_long_name_is_cut_as_kubernetes_cuts_it() -> None:
    made = created(MemoryApi(), {"metadata": {"generateName": "x" * 80}})[0]
    assert len(made["metadata"]["name"]) == 63


def test_a_server_that_stays_away_is_given_up() -> None:
    naps: list[float] = []

    def ask() -> None:
        raise UNREACHABLE

    with pytest.raises(UnreachableError):
        patiently(ask, lambda text: None, naps.append)
    assert len(naps) == PATIENT_TRIES - 1
    assert 60 < sum(naps) < 120
