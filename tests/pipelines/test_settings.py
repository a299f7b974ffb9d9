"""Parameters of a submitted run and values of the chart."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.parameters import RunParameters
from pipelines.render import chart_values
from pipelines.settings import ChartValues
from trainer.errors import InputError
from trainer.presets import default


def test_defaults_are_those_of_the_default_preset() -> None:
    made, config = RunParameters(), default()
    assert (made.folds, made.n_steps) == (config.data.folds, config.run.n_steps)
    assert made.checkpoint_every == config.run.checkpoint_every
    assert (made.n_backtests, made.per_capacity) == (config.learn.n_backtests, config.learn.per_capacity)
    assert (made.gpu_pool, made.fold_idx) == ("ci-training-h100", -1)


@pytest.mark.parametrize("model", [RunParameters, ChartValues])
def test_every_field_is_described(model: type[RunParameters] | type[ChartValues]) -> None:
    assert [name for name, field in model.model_fields.items() if not field.description] == []


def test_a_template_name_leaves_room_for_argos_suffix() -> None:
    ChartValues(template_name="w" * 52)
    with pytest.raises(ValidationError, match="at most 52"):
        ChartValues(template_name="w" * 53)


def test_chart_values_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text("namespace: ml\ngpus: 0\n")
    assert (chart_values(file).namespace, chart_values(file).gpus) == ("ml", 0)
    file.write_text("gpuz: 0\n")
    with pytest.raises(InputError, match=r"values.yaml: gpuz: Extra inputs are not permitted"):
        chart_values(file)
    file.write_text("a: [\n")
    with pytest.raises(InputError, match="not YAML"):
        chart_values(file)
    with pytest.raises(InputError, match="cannot read"):
        chart_values(tmp_path / "absent.yaml")
