"""Argo's kinds, and the artifact repository."""

import pytest

from pipelines.cluster.doctor.argo import artifacts, kinds
from tests.pipelines.cluster.doctor.fakes import ARGO, OWN, TEMPLATE, FakeReader, healthy, look, only

CONFIG = f"{OWN}/configmaps/workflow-controller-configmap"


def test_served_kinds_are_ok() -> None:
    assert "v1alpha1" in only(look(kinds, healthy()), "ok")


def test_no_argo_at_all_is_an_error() -> None:
    reader = healthy()
    del reader.objects[ARGO]
    assert "does not know Argo's kinds" in only(look(kinds, reader), "error")


def test_a_missing_kind_is_an_error_that_names_it() -> None:
    reader = healthy()
    reader.objects[f"{ARGO}/v1alpha1"]["resources"].pop(2)
    assert "does not serve workflowtaskresults" in only(look(kinds, reader), "error")


def with_artifact(reader: FakeReader) -> FakeReader:
    gate = next(each for each in reader.objects[TEMPLATE]["spec"]["templates"] if each["name"] == "gate")
    gate.setdefault("outputs", {})["artifacts"] = [{"name": "report", "path": "/x"}]
    return reader


def test_no_artifacts_need_no_repository() -> None:
    assert look(artifacts, healthy()) == []


def test_artifacts_without_a_repository_are_an_error() -> None:
    assert "no artifact repository is configured" in only(look(artifacts, with_artifact(healthy())), "error")


@pytest.mark.parametrize("place", ["controller", "namespace"])
def test_a_repository_of_the_controller_or_of_the_namespace_is_ok(place: str) -> None:
    reader = with_artifact(healthy())
    if place == "controller":
        reader.objects[CONFIG]["data"] = {"artifactRepository": "s3: {bucket: b}"}
    else:
        reader.objects[f"{OWN}/configmaps/artifact-repositories"] = {"data": {"default": "s3: {}"}}
    assert "used by gate" in only(look(artifacts, reader), "ok")


def test_a_repository_that_cannot_be_seen_is_a_warning() -> None:
    reader = with_artifact(healthy())
    reader.denied = {CONFIG}
    assert "no artifact repository can be seen" in only(look(artifacts, reader), "warning")
