"""The installed template against this code and the cluster's schema."""

from typing import Any

from pipelines.cluster.doctor.template import (
    current,
    differences,
    installed,
    parameters,
    schema,
    unknown_fields,
)
from tests.pipelines.cluster.doctor.fakes import (
    SCHEMAS,
    TEMPLATE,
    FakeReader,
    golden,
    healthy,
    look,
    only,
    texts,
)


def stage(reader: FakeReader, name: str) -> Any:
    return next(each for each in reader.objects[TEMPLATE]["spec"]["templates"] if each["name"] == name)


def test_an_installed_template_is_ok() -> None:
    assert "WorkflowTemplate walkforward is in namespace argo" in only(look(installed, healthy()), "ok")


def test_no_template_is_an_error_with_the_command_that_installs_it() -> None:
    reader = healthy()
    del reader.objects[TEMPLATE]
    text = only(look(installed, reader), "error")
    assert "walkforward render -n argo | kubectl apply -f -" in text
    assert look(current, reader) == []
    assert look(parameters, reader) == []


def test_the_same_template_is_current_whatever_was_added_to_its_metadata() -> None:
    reader = healthy()
    reader.objects[TEMPLATE]["metadata"] |= {"uid": "x", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    assert "what this code renders from its own values" in only(look(current, reader), "ok")


def test_a_stale_template_is_a_warning_that_names_the_place_and_both_values() -> None:
    reader = healthy()
    stage(reader, "train")["retryStrategy"]["limit"] = 2
    text = only(look(current, reader), "warning")
    assert "spec.templates.train.retryStrategy.limit is 2, this code makes 10" in text


def test_many_differences_are_counted() -> None:
    reader = healthy()
    for name in ("prepare", "train", "evaluate", "gate"):
        stage(reader, name)["activeDeadlineSeconds"] = 1
    assert "and 1 more" in only(look(current, reader), "warning")


def test_added_and_removed_stages_and_fields_are_told() -> None:
    reader = healthy()
    reader.objects[TEMPLATE]["spec"]["templates"] = [
        each for each in reader.objects[TEMPLATE]["spec"]["templates"] if each["name"] != "gate"
    ]
    reader.objects[TEMPLATE]["spec"]["suspend"] = True
    text = only(look(current, reader), "warning")
    assert "spec.suspend is extra" in text
    assert "spec.templates.gate is missing" in text


def test_lists_without_names_are_compared_in_order() -> None:
    assert list(differences(["a", "b"], ["b", "a"], ("x",))) == [
        "x.0 is 'a', this code makes 'b'",
        "x.1 is 'b', this code makes 'a'",
    ]
    assert list(differences(["a"], ["a", "b"], ("x",))) == ["x has 1 entries, this code makes 2"]
    assert list(differences([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}], ("x",))) == []


def test_what_an_argo_server_writes_for_nothing_is_no_difference() -> None:
    reader = healthy()
    stage(reader, "train")["container"]["name"] = ""
    stage(reader, "evaluate")["outputs"] = {}
    reader.objects[TEMPLATE]["spec"]["hooks"] = None
    assert only(look(current, reader), "ok")


def test_zero_and_false_are_not_empty() -> None:
    assert list(differences({"a": 0, "b": False}, {}, ("x",))) == ["x.a is extra", "x.b is extra"]
    assert list(differences({}, {"a": 0, "b": [1]}, ("x",))) == ["x.a is missing", "x.b is missing"]


def test_the_parameters_of_this_version_are_ok() -> None:
    assert "parameters are those of this version" in only(look(parameters, healthy()), "ok")


def test_a_parameter_that_an_older_template_lacks_is_a_warning() -> None:
    reader = healthy()
    listed = reader.objects[TEMPLATE]["spec"]["arguments"]["parameters"]
    listed[:] = [each for each in listed if each["name"] not in ("seed", "market")]
    assert "no parameter market, seed: submit cannot set them" in only(look(parameters, reader), "warning")


def test_a_parameter_of_a_newer_template_is_a_warning() -> None:
    reader = healthy()
    reader.objects[TEMPLATE]["spec"]["arguments"]["parameters"].append({"name": "tpu", "value": "0"})
    assert "does not know: tpu" in only(look(parameters, reader), "warning")


def test_a_parameter_without_default_is_an_error() -> None:
    reader = healthy()
    del reader.objects[TEMPLATE]["spec"]["arguments"]["parameters"][0]["value"]
    assert "parameters without default: git-branch" in only(look(parameters, reader), "error")


def test_a_parameter_asked_for_that_the_template_lacks_is_an_error() -> None:
    reader = healthy()
    listed = reader.objects[TEMPLATE]["spec"]["arguments"]["parameters"]
    listed[:] = [each for each in listed if each["name"] != "seed"]
    results = look(parameters, reader, parameters={"seed": "1"})
    assert "no parameter seed, which was asked for" in texts(results, "error")[0]


def test_a_full_schema_that_knows_every_field_is_ok() -> None:
    assert "knows every field" in only(look(schema, healthy()), "ok")


def test_no_schema_of_argos_kinds_is_a_warning() -> None:
    reader = healthy()
    reader.objects[SCHEMAS] = {"components": {"schemas": {}}}
    assert "does not tell the schema" in only(look(schema, reader), "warning")


def test_a_minimal_schema_is_told() -> None:
    reader = healthy()
    reader.objects[SCHEMAS]["components"]["schemas"]["io.argoproj.v1alpha1.WorkflowTemplate"] = {
        "properties": {"spec": {"x-kubernetes-preserve-unknown-fields": True}}
    }
    assert "minimal schema" in only(look(schema, reader), "ok")


def test_a_field_that_an_older_schema_would_drop_is_an_error_even_when_it_was_dropped_already() -> None:
    reader = healthy()
    kind = reader.objects[SCHEMAS]["components"]["schemas"]["io.argoproj.v1alpha1.WorkflowTemplate"]
    templates = kind["properties"]["spec"]["properties"]["templates"]["items"]["properties"]
    del templates["synchronization"]["properties"]["mutexes"]
    for each in reader.objects[TEMPLATE]["spec"]["templates"]:
        (each.get("synchronization") or {}).pop("mutexes", None)
    text = only(look(schema, reader), "error")
    assert "does not know spec.templates.synchronization.mutexes: it drops them silently" in text


def test_free_maps_and_preserved_objects_lose_nothing() -> None:
    free = {"type": "object", "additionalProperties": {"type": "string"}}
    assert list(unknown_fields({"a": "1"}, free, ())) == []
    assert list(unknown_fields({"a": 1}, {"x-kubernetes-preserve-unknown-fields": True}, ())) == []
    quantity = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert list(unknown_fields("8Gi", quantity, ())) == []
    assert list(unknown_fields({"b": 1}, {"properties": {"a": {}}}, ("x",))) == ["x.b"]


def test_the_golden_template_is_the_one_compared_here() -> None:
    assert golden()["kind"] == "WorkflowTemplate"
