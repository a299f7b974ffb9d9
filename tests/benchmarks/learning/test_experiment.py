"""Variants, seeds and digests: what is run, under which name, and what is refused in one line."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.learning.experiment import (
    Experiment,
    Variant,
    expand,
    parse_seeds,
    parse_settings,
    read_variants,
    variant_of,
)
from trainer.errors import InputError
from trainer.presets import demo


def variant(**settings: object) -> Variant:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return variant_of("demo", "demo", None, named, "--set")


def one(steps: int = 800, curve: int = 10, folds: int | None = None) -> Experiment:
    run = {"n_steps": steps}
    return expand([variant()], ["planted"], [0], folds=folds, curve=curve, run=run)[0]


def test_every_variant_meets_every_market_and_seed_and_seeds_follow_each_other() -> None:
    found = expand([variant(), Variant("other", demo())], ["planted", "martingale"], [3, 5])
    assert [e.name for e in found] == [
        "demo-planted-s3", "demo-planted-s5", "demo-martingale-s3", "demo-martingale-s5",
        "other-planted-s3", "other-planted-s5", "other-martingale-s3", "other-martingale-s5",
    ]  # fmt: skip
    assert {e.config.market_source for e in found} == {"planted", "martingale"}


def test_a_seed_changes_agent_and_market_and_seed_0_is_the_configuration_as_it_is() -> None:
    zero, four = expand([variant()], ["planted"], [0, 4])
    assert (zero.config.learn.seed, zero.config.synthetic.seed) == (0, demo().synthetic.seed)
    assert (four.config.learn.seed, four.config.synthetic.seed) == (4, demo().synthetic.seed + 4)
    assert zero.config.replaced(run={}) == demo().replaced(market_source="planted")


def test_a_value_is_yaml_and_lands_in_its_section() -> None:
    settings = parse_settings(["learn.n_step=3", "learn.prioritized=false", "data.horizons=[1, 2]"])
    config = variant_of("v", "demo", None, settings, "--set").config
    assert (config.learn.n_step, config.learn.prioritized, config.data.horizons) == (3, False, (1, 2))
    assert config.learn.n_backtests == demo().learn.n_backtests


def test_variants_of_a_file_are_dotted_or_nested_and_may_begin_as_another_preset(tmp_path: Path) -> None:
    path = tmp_path / "variants.yaml"
    path.write_text(
        "plain: {}\n"
        "dotted: {learn.n_step: 3, learn.prioritized: false}\n"
        "nested: {learn: {n_step: 3}, learn.prioritized: false}\n"
        "large: {preset: default}\n"
    )
    plain, dotted, nested, large = read_variants(path, "demo", None)
    assert plain.config == demo()
    assert dotted.config == nested.config == demo().replaced(learn={"n_step": 3, "prioritized": False})
    assert (large.name, large.config.agent.hidden) == ("large", 128)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", r"v\.yaml: not a mapping of variants"),
        ("{}", r"v\.yaml: not a mapping of variants"),
        ("a: 3", r"v\.yaml: a: not a mapping of fields"),
        ("a: {learn.nope: 3}", r"v\.yaml: a: learn\.nope: unknown key"),
        ("a: {preset: huge}", r"--preset: unknown preset 'huge'"),
        ("a: {learn: 3, learn.n_step: 2}", r"v\.yaml: a: learn\.n_step: learn is given twice"),
        ("a/b: {}", r"v\.yaml: a/b: 'a/b' cannot name a file"),
        ("a: {run: {mbp10_data_dir: /x}}", r"run\.mbp10_data_dir: variant a names order-book files"),
        ("{", r"v\.yaml: not YAML"),
    ],
)
def test_a_wrong_file_of_variants_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "v.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        expand(read_variants(path, "demo", None), ["planted"], [0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["n_step=3", "learn.n_step", "learn.a.b=1", "learn.n_step={"])
def test_a_setting_that_is_no_field_with_a_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--set"):
        parse_settings([text])


@given(st.lists(st.integers(0, 50), min_size=1, unique=True))
def test_seeds_written_one_by_one_are_read_back(seeds: list[int]) -> None:
    assert parse_seeds(",".join(map(str, seeds))) == seeds


@pytest.mark.parametrize(
    ("text", "seeds"), [("0-4", [0, 1, 2, 3, 4]), ("2,5-7,6", [2, 5, 6, 7]), ("3-3", [3])]
)
def test_ranges_of_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "4-2", "1,", "-1"])
def test_what_is_no_seed_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--seeds"):
        parse_seeds(text)


@given(steps=st.integers(1, 5000), curve=st.integers(1, 50))
def test_curve_steps_rise_to_the_end_and_are_no_more_than_asked_for(steps: int, curve: int) -> None:
    found = one(steps, curve).steps
    assert found == sorted(set(found))
    assert found[-1] == steps
    assert found[0] >= 1
    assert len(found) == min(curve, steps)


def test_the_digest_names_what_a_result_depends_on_and_not_where_it_runs() -> None:
    base = one()
    assert one().digest() == base.digest()
    assert len({base.digest(), one(steps=801).digest(), one(curve=9).digest(), one(folds=1).digest()}) == 4
    elsewhere = expand([variant()], ["planted"], [0], run={"n_steps": 800, "device": "cpu", "log_every": 1})
    assert elsewhere[0].digest() == base.digest()


@pytest.mark.parametrize("folds", [0, 4])
def test_more_folds_than_the_configuration_has_are_refused(folds: int) -> None:
    with pytest.raises(InputError, match=re.escape(f"--folds: cannot run {folds} folds; demo has 3")):
        one(folds=folds)
