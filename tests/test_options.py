"""Options, preset and YAML file to one validated configuration."""

from pathlib import Path

import pytest

from trainer.errors import ExitCode, InputError
from trainer.options import FIELDS, build_config
from trainer.presets import PRESETS

VALUES = {
    "folds": 5,
    "instrument": "ES",
    "n_backtests": 32,
    "per_capacity": 4096,
    "seed": 9,
    "n_steps": 77,
    "checkpoint_every": 11,
    "log_every": 3,
    "device": "cpu",
    "mbp10_data_dir": Path("book"),
    "trades_data_dir": Path("trades"),
}


def refused(preset: str, file: Path | None = None, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        build_config(preset, file, options)
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_sets_its_field_and_nothing_else(name: str) -> None:
    section, field = FIELDS[name]
    body = build_config("demo", None, {name: VALUES[name]}).model_dump()
    expected = PRESETS["demo"]().model_dump()
    expected[section][field] = VALUES[name]
    if name == "mbp10_data_dir":
        expected["market_source"] = None
    assert body == expected


def test_options_that_were_not_given_leave_the_preset(tmp_path: Path) -> None:
    for name, preset in PRESETS.items():
        assert build_config(name, None, dict.fromkeys(FIELDS)) == preset()


def test_a_file_goes_over_the_preset_and_options_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("data: {folds: 7, window_rows: 24}\nlearn: {seed: 3}\n")
    config = build_config("demo", path, {"folds": 2})
    assert (config.data.folds, config.data.window_rows, config.data.decision_rows) == (2, 24, 8)
    assert (config.learn.seed, config.preset) == (3, "demo")


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert build_config("default", tmp_path / "empty.yaml", {}) == PRESETS["default"]()


def test_data_files_replace_a_presets_synthetic_market() -> None:
    assert build_config("demo", None, {}).market_source == "planted"
    assert build_config("demo", None, {"market": "martingale"}).market_source == "martingale"
    both = build_config("demo", None, {"mbp10_data_dir": Path("x"), "market": "martingale"})
    assert both.market_source is None


def test_unknown_presets_are_refused_with_those_there_are() -> None:
    assert refused("demoo") == "--preset: unknown preset 'demoo'; choose default, demo, seed"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("learn: {lr: 1}", "learn.lr: unknown key"),
        ("leern: {seed: 1}", "leern: unknown key"),
        ("data: {folds: 0}", "data.folds: Input should be greater than or equal to 1"),
        ("data: {folds: many}", "data.folds: Input should be a valid integer"),
        ("learn: {per_capacity: 3000}", "learn: per_capacity 3000 must be a power of two >= n_backtests 64"),
        ("agent: {buckets: [1, 2, 3]}", "agent: buckets (1, 2, 3) must be positive and sum to hidden = 64"),
        ("data: 3", "data: Input should be a valid dictionary"),
        ("- a list", "not a mapping of sections"),
        ("data: {folds: 3", "not YAML: while parsing a flow mapping"),
        ("data: !!python/object/apply:os.getcwd []", "not YAML: could not determine a constructor"),
    ],
)
def test_a_bad_file_is_one_line_that_names_file_and_field(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    assert refused("demo", path).startswith(f"{path}: {said}")


def test_a_file_that_is_not_text_or_not_there_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    assert refused("demo", path) == f"{path}: cannot read: No such file or directory; check --config"
    path.write_bytes(b"\xff\xfe\x00")
    assert refused("demo", path).startswith(f"{path}: not YAML")


def test_a_bad_option_names_its_field() -> None:
    assert refused("demo", per_capacity=100).startswith(
        "options: learn: per_capacity 100 must be a power of two"
    )
    assert refused("demo", n_steps=0).startswith("options: run.n_steps: Input should be greater")
