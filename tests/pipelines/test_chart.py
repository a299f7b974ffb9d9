"""The chart's generated files: fresh, complete, and equal to our own rendering for any values."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from pydantic import BaseModel, ValidationError

from pipelines.chart.__main__ import main
from pipelines.chart.files import CHART, generated, rendered, stale, values_text
from pipelines.chart.symbolic import Symbolic, prove, symbolic
from pipelines.chart.values import InstallValues, schema, value_name
from pipelines.identity import REPOSITORY
from pipelines.render import chart_values
from pipelines.settings import ChartValues
from tests.charts.samples import template_values
from trainer.errors import InputError


@pytest.fixture(scope="module")
def found() -> Symbolic:
    return symbolic(rendered)


def test_the_files_in_the_repository_are_what_the_code_writes(found: Symbolic) -> None:
    assert [str(path) for path in stale(generated(found))] == [], (
        "after a wanted change: python -m pipelines.chart"
    )


def test_a_stale_file_fails_the_check_and_is_named(
    found: Symbolic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pipelines.chart.__main__.symbolic", lambda render: found)
    monkeypatch.setattr("pipelines.chart.files.values_text", lambda: "templateName: another\n")
    assert main(["--check"]) == 2
    assert (
        capsys.readouterr().err == "charts/walkforward/values.yaml is stale; run python -m pipelines.chart\n"
    )


def test_an_unknown_option_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chek"]) == 2
    assert capsys.readouterr().err.startswith("usage: ")


@settings(max_examples=25, deadline=None)
@given(values=template_values())
def test_the_tree_of_any_values_is_what_we_render(found: Symbolic, values: ChartValues) -> None:
    assert found.evaluated(values) == rendered(values)


@pytest.mark.slow
def test_no_pair_of_switches_makes_something_else(found: Symbolic) -> None:
    assert {"data_claim", "gpus", "prometheus", "queue_name"} <= set(found.switches)
    prove(found, rendered)


def test_a_part_that_either_of_two_switches_keeps_is_refused() -> None:
    def either(values: ChartValues) -> dict[str, Any]:
        return {"metrics": "on"} if values.prometheus or values.patch_executor else {}

    with pytest.raises(InputError, match="patch_executor and prometheus depend on each other"):
        prove(symbolic(either), either)


def test_a_number_in_a_sum_is_found_again_whatever_the_factor(found: Symbolic) -> None:
    values = ChartValues(kept_days=3, grace_s=1_000_000)
    tree = found.evaluated(values)
    assert tree["spec"]["ttlStrategy"]["secondsAfterCompletion"] == 3 * 86_400
    assert json.loads(tree["spec"]["podSpecPatch"])["terminationGracePeriodSeconds"] == 1_000_000


def test_every_value_has_a_comment_above_it() -> None:
    lines = values_text().splitlines()
    for name in _names(InstallValues()):
        at = [i for i, line in enumerate(lines) if re.match(rf" *{name}:", line)]
        assert at, name
        assert all(re.match(" *# .", lines[i - 1]) for i in at), name


def test_values_yaml_holds_the_defaults_of_the_code() -> None:
    body = yaml.safe_load((CHART / "values.yaml").read_text())
    assert InstallValues.model_validate(body) == InstallValues()
    assert body.keys() == {value_name(name) for name in InstallValues.model_fields} - {"namespace"}


def test_render_takes_the_values_file_of_the_chart(tmp_path: Any) -> None:
    assert chart_values(CHART / "values.yaml").model_dump() == InstallValues().model_dump()
    own = tmp_path / "values.yaml"
    own.write_text("graceSeconds: 30\ncacheStorage: {accessMode: ReadWriteOnce}\nsingleNode: true\n")
    assert chart_values(own).grace_s == 30


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cacheStorage": {"accessMode": "ReadWriteOnce"}}, "singleNode"),
        ({"dataStorage": {"accessMode": "ReadWriteOnce"}}, "singleNode"),
        ({"createdPriorityClass": {"create": True}}, "priorityClass"),
        ({"schedule": {"parameters": {"fold": 3}}}, "unknown parameter fold"),
        ({"schedule": {"parameters": {"folds": 0}}}, "folds"),
    ],
)
def test_values_that_do_not_agree_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        InstallValues.model_validate(values)


def test_read_write_once_without_a_data_claim_concerns_the_cache_alone() -> None:
    values = {"dataClaim": None, "dataStorage": {"accessMode": "ReadWriteOnce"}}
    assert InstallValues.model_validate(values).data_claim is None


def test_the_schema_describes_and_closes_every_object() -> None:
    made = schema()
    for body in (made, *made["$defs"].values()):
        assert body["additionalProperties"] is False
        for name, field in body["properties"].items():
            assert field.get("description"), name


def test_the_charts_versions_are_the_packages() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (REPOSITORY / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.*)"', project, re.MULTILINE)
    assert version is not None
    assert (chart["version"], chart["appVersion"]) == (version[1], version[1])


def _names(values: BaseModel) -> Iterator[str]:
    for name in type(values).model_fields:
        if name == "namespace":
            continue
        yield value_name(name)
        value = getattr(values, name)
        if isinstance(value, BaseModel):
            yield from _names(value)
