"""Parameters as a person gives them: what is sent, what is kept apart, what is refused in one line."""

from typing import Any

import pytest

from pipelines.parameters import RunParameters, parameters_given, parameters_of
from trainer.errors import InputError


def test_only_what_was_given_is_sent_defaults_too() -> None:
    sent, other = parameters_given({"folds": 3, "n_steps": None, "market": "planted"}, ["seed=7"])
    assert (sent, other) == ({"folds": "3", "seed": "7", "market": "planted"}, {})


def test_a_preset_brings_its_sizes_along_unless_they_are_given() -> None:
    sent, _ = parameters_given({"preset": "demo", "n_steps": 50}, [])
    assert sent == {
        "preset": "demo",
        "n-steps": "50",
        "n-backtests": "64",
        "per-capacity": "16384",
        "checkpoint-every": "100",
    }


def test_a_parameter_that_this_version_does_not_know_is_kept_apart() -> None:
    assert parameters_given({}, ["folds=2", "later=x=y"]) == ({"folds": "2"}, {"later": "x=y"})


@pytest.mark.parametrize(
    ("flags", "pairs", "message"),
    [
        ({"folds": 0}, [], "parameters: folds: Input should be greater than or equal to 1"),
        ({"folds": 3}, ["folds=3"], "folds is given twice"),
        ({}, ["seed=1", "seed=2"], "seed is given twice"),
        ({}, ["folds"], "'folds' has no value; write name=value"),
        ({}, ["=3"], "'=3' has no value"),
        ({"market": "moon"}, [], "market: Input should be 'files'"),
        ({"fold_idx": 3}, ["folds=3"], "fold_idx 3 must be below folds 3"),
        ({"mbp10_data_dir": "s3://key:secret@bucket/x"}, [], "mbp10_data_dir"),
    ],
)
def test_a_bad_value_is_refused_before_anything_is_asked(
    flags: dict[str, Any], pairs: list[str], message: str
) -> None:
    with pytest.raises(InputError) as said:
        parameters_given(flags, pairs)
    assert message in str(said.value)
    assert "secret" not in str(said.value)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("folds=0", "folds: Input should be greater than or equal to 1"),
        ("fold-idx=3", "fold_idx 3 must be below folds 3"),
        ("per-capacity=1000", "per_capacity 1000 must be a power of two >= n_backtests 1024"),
        ("per-capacity=512", "must be a power of two >= n_backtests 1024"),
        ("market=moon", "market: Input should be 'files', 'planted' or 'martingale'"),
        ("run-id=a/b", "run_id: only up to 128 letters, digits, dots, dashes and underscores"),
        ("git-branch=feature/x", "git_branch: only up to 128 letters, digits, dots, dashes and underscores"),
        ("mbp10-data-dir=es.dbn", "mbp10_data_dir: a path in the pod begins with '/'"),
        ("trades-data-dir=../t", "trades_data_dir: a path in the pod begins with '/'"),
        (
            "config=small.yaml",
            "config: a path in the pod begins with '/'; files of this machine are not there",
        ),
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
    assert made == {"n-steps": "10", "run-id": "abc", "trades-data-dir": "/t=1"}


def test_who_types_parameters_is_told_what_each_preset_wants() -> None:
    """Argo's own command sends the template's defaults, which are those of the preset `default`."""
    told = RunParameters.model_fields["preset"].description or ""
    for preset in ("demo", "seed"):
        sizes = set(RunParameters(preset=preset)) - set(RunParameters())  # type: ignore[arg-type]
        wanted = told.partition(f"{preset} wants ")[2].partition(";")[0].partition(":")[0].split(", ")
        assert set(wanted) == {f"{name.replace('_', '-')} {size}" for name, size in sizes if name != "preset"}
