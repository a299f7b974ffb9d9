"""Parameters of a submitted run and values of the chart."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.render import chart_values, parameters_of
from pipelines.settings import ChartValues, RunParameters
from trainer.errors import InputError


def test_defaults_are_the_documents() -> None:
    made = RunParameters()
    assert (made.folds, made.n_steps, made.n_backtests, made.per_capacity) == (3, 25_000, 1024, 65_536)
    assert (made.gpu_pool, made.fold_idx) == ("ci-training-h100", -1)


@pytest.mark.parametrize("model", [RunParameters, ChartValues])
def test_every_field_is_described(model: type[RunParameters] | type[ChartValues]) -> None:
    assert [name for name, field in model.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("folds=0", "folds: Input should be greater than or equal to 1"),
        ("fold-idx=3", "fold_idx 3 must be below folds 3"),
        ("per-capacity=1000", "per_capacity 1000 must be a power of two >= n_backtests 1024"),
        ("per-capacity=512", "must be a power of two >= n_backtests 1024"),
        ("market=moon", "market: Input should be 'files', 'planted' or 'martingale'"),
        ("run-id=a/b", "run_id: String should match pattern"),
        ("git-branch=feature/x", "git_branch: String should match pattern"),
        ("speed=9", "unknown parameter speed"),
        ("folds", "'folds' has no value; write name=value"),
    ],
)
def test_a_bad_parameter_is_one_line_that_names_it(pair: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parameters_of([pair])
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_parameters_are_read_from_words() -> None:
    made = parameters_of(["n-steps=10", "run-id=abc", "trades-data-dir=/t=1"])
    assert (made.n_steps, made.run_id, made.trades_data_dir) == (10, "abc", "/t=1")


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
