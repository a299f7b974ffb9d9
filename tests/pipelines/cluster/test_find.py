"""NAME, RUN_ID or @latest: which workflow is meant."""

import pytest

from pipelines.cluster.api import AbsentError, DeniedError
from pipelines.cluster.find import find_workflow, find_workflows, run_id_of
from tests.pipelines.cluster.memory_api import MemoryApi, submitted

OLD = submitted("wf-old", "Failed", run_id="run", created="2026-11-30T03:00:00Z")
NEW = submitted("wf-new", "Running", run_id="run", created="2026-11-30T04:00:00Z")
PLAIN = submitted("wf-plain", "Running", created="2026-11-30T05:00:00Z", git_branch="v2")


def test_a_name_is_that_workflow_and_a_run_id_the_newest_of_the_run() -> None:
    api = MemoryApi(NEW, OLD)
    assert find_workflow(api, "wf-old") is OLD
    assert find_workflow(api, "run") is NEW
    assert find_workflows(api, "run") == [NEW, OLD]


def test_a_run_that_argo_submitted_has_the_id_that_the_template_makes() -> None:
    assert run_id_of(PLAIN) == "v2-wf-plain"
    assert find_workflow(MemoryApi(OLD, PLAIN), "v2-wf-plain") is PLAIN


def test_a_run_id_that_is_no_label_is_found_by_its_parameter() -> None:
    long = "r" * 100
    body = submitted("wf-long", run_id=long)
    del body["metadata"]["labels"]["alpha-rl/run-id"]
    assert find_workflow(MemoryApi(OLD, body), long) is body


def test_latest_is_the_newest_of_all() -> None:
    assert find_workflow(MemoryApi(OLD, PLAIN, NEW), "@latest") is PLAIN


@pytest.mark.parametrize(
    ("text", "message"),
    [("nothing", "no workflow and no run nothing in namespace trading"), ("@latest", "no run was submitted")],
)
def test_nothing_is_found(text: str, message: str) -> None:
    with pytest.raises(AbsentError, match=rf"{message}.*walkforward status -n trading lists them"):
        find_workflow(MemoryApi(), text)


def test_a_denied_look_is_not_taken_for_nothing() -> None:
    api = MemoryApi(OLD)
    api.denied = {"get"}
    with pytest.raises(DeniedError):
        find_workflow(api, "wf-old")
