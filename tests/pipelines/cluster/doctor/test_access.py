"""Permissions of the user and of the pods' service account, as the server itself answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.cluster.api import Body, DeniedError
from pipelines.cluster.doctor.access import ACCOUNT_MUST_NOT, NEEDED, USEFUL, Verb, account, told, user
from pipelines.cluster.failures import Call
from pipelines.cluster.kube import KubeApi
from tests.pipelines.cluster.doctor.fakes import NAMESPACE, OWN, TEMPLATE, healthy, look, only, texts

REVIEWS = f"/apis/authorization.k8s.io/v1/namespaces/{NAMESPACE}/localsubjectaccessreviews"
ACCOUNT = f"{OWN}/serviceaccounts/walkforward"


def test_all_verbs_are_one_line() -> None:
    assert only(look(user, healthy()), "ok").startswith(
        "you may create, get, list, watch, patch workflows.argoproj.io; get workflowtemplates.argoproj.io; "
    )


@pytest.mark.parametrize("verb", NEEDED, ids=str)
def test_each_missing_verb_is_an_error_that_names_it_and_the_command_that_needs_it(verb: Verb) -> None:
    reader = healthy()
    reader.user_lacks = {f"{verb.verb} {verb.resource}"}
    results = look(user, reader)
    assert texts(results, "ok") == [
        f"you may {told([each for each in (*NEEDED, *USEFUL) if each != verb])} -> "
    ]
    (text,) = texts(results, "error")
    assert text.startswith(
        f"you may not {verb} (needed by {verb.needed_by}) -> ask for a role in namespace argo"
    )


@pytest.mark.parametrize("verb", USEFUL, ids=str)
def test_a_missing_verb_that_only_helps_is_a_warning(verb: Verb) -> None:
    reader = healthy()
    reader.user_lacks = {f"{verb.verb} {verb.resource}"}
    results = look(user, reader)
    assert texts(results, "error") == []
    assert f"you may not {verb}" in texts(results, "warning")[0]


def test_a_denial_outweighs_a_permission() -> None:
    reader = healthy()
    reader.review = lambda path, body: {"status": {"allowed": True, "denied": True}}  # type: ignore[method-assign]
    assert len(texts(look(user, reader), "error")) == len(NEEDED)


def test_the_needed_verbs_are_those_that_the_commands_use() -> None:
    calls: list[Call] = []

    class Recording:
        def ask(self, call: Call, *_: Any) -> Body:
            calls.append(call)
            return {"items": [{"metadata": {}}]}

        def lines(self, call: Call, **_: Any) -> Iterator[str]:
            calls.append(call)
            return iter(())

    api = KubeApi(Recording(), NAMESPACE)  # type: ignore[arg-type]
    api.create_workflow({})
    api.workflow("w")
    api.workflows()
    list(api.watch_workflow("w"))
    api.stop_workflow("w")
    api.template("t")
    list(api.pod_log("w", "p"))
    assert {(call.verb, call.resource) for call in calls} == {(verb.verb, verb.full) for verb in NEEDED}


def test_resources_are_named_as_roles_name_them() -> None:
    assert str(Verb("get", "pods/log")) == "get pods/log"
    assert str(Verb("list", "workflows", "argoproj.io")) == "list workflows.argoproj.io"


def test_an_account_with_its_two_verbs_is_ok() -> None:
    text = only(look(account, healthy()), "ok")
    assert "may create, patch workflowtaskresults.argoproj.io" in text


def test_an_absent_account_is_an_error() -> None:
    reader = healthy()
    del reader.objects[ACCOUNT]
    assert "service account walkforward is not in namespace argo" in only(look(account, reader), "error")


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_an_account_that_may_not_report_results_is_an_error(verb: str) -> None:
    reader = healthy()
    reader.account_has.remove(f"{verb} workflowtaskresults")
    text = only(look(account, reader), "error")
    assert f"may not {verb} workflowtaskresults.argoproj.io" in text


@pytest.mark.parametrize("verb", ACCOUNT_MUST_NOT, ids=str)
def test_an_account_that_may_more_is_a_warning(verb: Verb) -> None:
    reader = healthy()
    reader.account_has.add(f"{verb.verb} {verb.resource}")
    assert f"may also {verb} ->" in only(look(account, reader), "warning")


def test_the_executors_own_account_is_the_one_that_must_report() -> None:
    reader = healthy()
    reader.objects[TEMPLATE]["spec"]["executor"] = {"serviceAccountName": "reporter"}
    assert "service account reporter is not in namespace" in texts(look(account, reader), "error")[0]


def test_asking_for_the_account_denied_names_the_command_for_who_may() -> None:
    reader = healthy()
    reader.denied = {REVIEWS}
    with pytest.raises(DeniedError) as denied:
        look(account, reader)
    assert "--as system:serviceaccount:argo:walkforward" in denied.value.do
