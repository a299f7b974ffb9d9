"""submit, retry and stop against a namespace in memory: what is created, what a person reads."""

import io
import json
from typing import Any

import pytest
import yaml

from pipelines.cluster.api import AbsentError, DeniedError
from pipelines.cluster.submission import Submission
from pipelines.cluster.submit import Shown, as_text, dry_run, retry, stop, submit
from tests.pipelines.cluster.made_workflows import finished
from tests.pipelines.cluster.memory_api import TEMPLATE, MemoryApi, submitted
from trainer.errors import BusyError, ExitCode, InputError

PLANTED = Submission("walkforward", {"folds": "3", "market": "planted"})
RUN = PLANTED.run_id


def screen(output: str | None = None) -> Shown:
    return Shown(io.StringIO(), io.StringIO(), output)


def read(shown: Shown) -> tuple[str, str]:
    assert isinstance(shown.stdout, io.StringIO)
    assert isinstance(shown.stderr, io.StringIO)
    return shown.stdout.getvalue(), shown.stderr.getvalue()


def test_a_submit_creates_one_workflow_and_says_how_to_follow_it() -> None:
    api, shown = MemoryApi(), screen()
    name = submit(api, PLANTED, shown)
    assert [body["spec"]["workflowTemplateRef"]["name"] for body in api.created] == ["walkforward"]
    out, err = read(shown)
    assert err == ""
    assert out.splitlines()[0] == f"{name} submitted to namespace trading: run {RUN}"
    assert "estimate  none: no finished run like this one" in out
    for line in (
        f"walkforward status {name} -n trading",
        f"walkforward logs -f {name} -n trading",
        f"-l workflows.argoproj.io/workflow={name}",
        f"argo get -n trading {name}",
        f"walkforward stop {name} -n trading",
    ):
        assert line in out


def test_the_commands_to_follow_it_lead_to_the_same_cluster() -> None:
    shown = Shown(io.StringIO(), io.StringIO(), flags=" --context prod")
    name = submit(MemoryApi(), PLANTED, shown)
    out = read(shown)[0]
    assert f"walkforward logs -f {name} -n trading --context prod" in out
    assert "kubectl" not in out


@pytest.mark.parametrize(("output", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_the_result_for_a_script_is_the_object_alone(output: str, parse: Any) -> None:
    api, shown = MemoryApi(), screen(output)
    name = submit(api, PLANTED, shown)
    assert parse(read(shown)[0]) == api.workflow(name)


def test_who_set_which_field_is_left_out() -> None:
    body = {"metadata": {"name": "wf", "managedFields": [{"manager": "walkforward"}]}}
    assert json.loads(as_text(body, "json")) == {"metadata": {"name": "wf"}}
    assert "managedFields" in body["metadata"]


def test_the_name_alone() -> None:
    shown = screen("name")
    name = submit(MemoryApi(), PLANTED, shown)
    assert read(shown)[0] == f"{name}\n"


def test_a_server_dry_run_creates_nothing() -> None:
    api, shown = MemoryApi(), screen()
    assert submit(api, PLANTED, shown, server_dry_run=True) == ""
    assert (len(api.created), len(api.dry_runs)) == (0, 1)
    assert yaml.safe_load(read(shown)[0])["metadata"]["name"]


def test_a_dry_run_prints_what_would_be_sent() -> None:
    shown = screen()
    assert dry_run(PLANTED, "", shown) == 0
    body = yaml.safe_load(read(shown)[0])
    assert body["metadata"]["labels"]["alpha-rl/run-id"] == RUN


def test_a_dry_run_cannot_know_parameters_of_a_later_template() -> None:
    with pytest.raises(InputError, match="unknown parameter later"):
        dry_run(Submission("walkforward", {}, {"later": "1"}), "", screen())


def test_a_run_that_is_live_is_a_warning() -> None:
    shown = screen()
    submit(MemoryApi(submitted("wf-1", "Running", run_id=RUN)), PLANTED, shown)
    assert f"warning: run {RUN} is running as wf-1; the new workflow waits" in read(shown)[1]


def test_a_run_that_ended_goes_on() -> None:
    shown = screen()
    submit(MemoryApi(submitted("wf-1", "Failed", run_id=RUN)), PLANTED, shown)
    assert read(shown)[1] == f"walkforward: run {RUN} goes on from wf-1 (Failed)\n"


@pytest.mark.parametrize(("code", "word"), [(0, "pass"), (3, "fail or reject")])
def test_a_run_that_is_whole_is_told_from_one_that_goes_on(code: int, word: str) -> None:
    """Its answer of a few seconds is easily taken for a new run's."""
    whole, shown = finished(code), screen()
    whole["metadata"] |= {"labels": {"alpha-rl/run-id": RUN}, "creationTimestamp": "2026-11-30T03:00:00Z"}
    submit(MemoryApi(whole), PLANTED, shown)
    name = whole["metadata"]["name"]
    assert read(shown)[1] == (
        f"walkforward: run {RUN} is whole, {name} judged it: {word}; "
        "it answers at once, another --run-id begins anew\n"
    )


def test_who_may_not_list_may_submit() -> None:
    api, shown = MemoryApi(), screen()
    api.denied = {"list"}
    submit(api, PLANTED, shown)
    out, err = read(shown)
    assert len(api.created) == 1
    assert f"cannot see whether run {RUN} is running already" in err
    assert "estimate  none: not allowed to list workflows" in out


def test_a_template_of_another_kind_gets_no_run_id() -> None:
    other = {
        "metadata": {"name": "hello"},
        "spec": {"arguments": {"parameters": [{"name": "who", "value": "x"}]}},
    }
    api, shown = MemoryApi(templates=(other,)), screen()
    submit(api, Submission("hello", {}, {"who": "me"}), shown)
    body = api.created[0]
    assert body["spec"]["arguments"]["parameters"] == [{"name": "who", "value": "me"}]
    assert "alpha-rl/run-id" not in body["metadata"]["labels"]


def test_nothing_is_created_for_values_that_the_template_does_not_take() -> None:
    api = MemoryApi()
    with pytest.raises(InputError, match="no parameter later"):
        submit(api, Submission("walkforward", {}, {"later": "1"}), screen())
    assert api.created == []


def test_retry_is_the_same_run_in_a_new_workflow() -> None:
    api, shown = MemoryApi(submitted("wf-1", "Failed", run_id="run", folds="3")), screen()
    name = retry(api, "run", shown)
    sent = {item["name"]: item["value"] for item in api.created[0]["spec"]["arguments"]["parameters"]}
    assert sent == {"folds": "3", "run-id": "run"}
    assert read(shown)[0].startswith(f"{name} submitted to namespace trading: run run goes on\n")


def test_retry_of_a_run_that_argo_submitted_keeps_its_directory() -> None:
    api = MemoryApi(submitted("wf-plain", "Failed", git_branch="v2"))
    retry(api, "wf-plain", screen())
    sent = {item["name"]: item["value"] for item in api.created[0]["spec"]["arguments"]["parameters"]}
    assert sent["run-id"] == "v2-wf-plain"


def test_retry_without_the_template_says_how_to_install_it() -> None:
    with pytest.raises(AbsentError, match="install it"):
        retry(MemoryApi(submitted("wf-1", "Failed", run_id="run"), templates=()), "wf-1", screen())


def test_retry_keeps_a_template_of_the_whole_cluster() -> None:
    old = submitted("wf-1", "Failed", run_id="run")
    old["spec"]["workflowTemplateRef"]["clusterScope"] = True
    api = MemoryApi(old, templates=())
    retry(api, "wf-1", screen())
    assert api.created[0]["spec"]["workflowTemplateRef"] == {"name": "walkforward", "clusterScope": True}
    labels = api.created[0]["metadata"]["labels"]
    assert labels["workflows.argoproj.io/cluster-workflow-template"] == "walkforward"
    assert "workflows.argoproj.io/workflow-template" not in labels


@pytest.mark.parametrize("asked", ["wf-1", "wf-2", "run"])
def test_retry_is_refused_while_any_workflow_of_the_run_is_live(asked: str) -> None:
    api = MemoryApi(
        submitted("wf-1", "Failed", run_id="run"),
        submitted("wf-2", "Running", run_id="run", created="2026-11-30T04:00:00Z"),
    )
    with pytest.raises(BusyError, match="wf-2: run run is running; follow it") as said:
        retry(api, asked, screen())
    assert said.value.exit_code == ExitCode.INTERRUPTED
    assert api.created == []


def test_retry_of_a_workflow_without_template() -> None:
    with pytest.raises(InputError, match="wf-1: was not made from a WorkflowTemplate"):
        retry(MemoryApi(submitted("wf-1", "Failed", run_id="run", template=None)), "wf-1", screen())


def test_stop_of_a_run_ends_all_its_live_workflows() -> None:
    api, out = (
        MemoryApi(
            submitted("wf-1", "Failed", run_id="run"),
            submitted("wf-2", "Running", run_id="run", created="2026-11-30T04:00:00Z"),
            submitted("wf-3", "Pending", run_id="run", created="2026-11-30T05:00:00Z"),
            submitted("wf-4", "Running", run_id="other"),
        ),
        io.StringIO(),
    )
    assert stop(api, "run", out) == 0
    assert sorted(api.stopped) == ["wf-2", "wf-3"]
    assert "walkforward retry wf-2 goes on" in out.getvalue()


def test_stop_of_one_that_has_ended_says_so() -> None:
    api, out = MemoryApi(submitted("wf-1", "Succeeded", run_id="run")), io.StringIO()
    assert stop(api, "wf-1", out) == 0
    assert (api.stopped, out.getvalue()) == ([], "wf-1 has ended already: Succeeded\n")


def test_stop_that_is_denied_is_an_error() -> None:
    api = MemoryApi(submitted("wf-1", run_id="run"))
    api.denied = {"patch"}
    with pytest.raises(DeniedError):
        stop(api, "wf-1", io.StringIO())


def test_the_template_of_this_version_is_the_one_that_commands_expect() -> None:
    assert TEMPLATE["metadata"]["name"] == PLANTED.template
