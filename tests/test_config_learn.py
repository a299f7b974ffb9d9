"""The learning rules of the configuration: what the seed preset switches on, and what is refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainer.config import Config, LearnConfig
from trainer.presets import default, seed

DOCUMENTS: dict[str, dict[str, Any]] = {
    "data": {"decision_rows": 1},
    "market": {"num_units": 4, "stop_loss_measure": "lifetime_peak"},
    "agent": {"rl_heads": "linear"},
    "learn": {
        "n_step": 1,
        "importance_beta": 0.0,
        "encoder_rate": 1.0,
        "decaying_rates": ("q", "pi", "v"),
        "reward": "at_close",
        "advantage": "done_only",
        "td_cut": "done",
        "target_max": "all",
        "entropy_target": "all_actions",
    },
}
RULES = [(section, field) for section, fields in DOCUMENTS.items() for field in fields]


def test_the_seed_preset_is_the_default_with_every_rule_of_the_documents() -> None:
    """On the market of the default preset, whose signal leads by one of the default's decisions."""
    own = {
        "synthetic": {"signal_rows": default().data.decision_rows},
        "run": {"n_steps": 25_000, "checkpoint_every": 5_000},
    }
    body = default().replaced(**DOCUMENTS, **own).model_dump() | {"preset": "seed"}
    assert seed().model_dump() == body


@pytest.mark.parametrize(("section", "field"), RULES, ids=[field for _, field in RULES])
def test_every_rule_of_the_documents_is_a_switch_of_its_own(section: str, field: str) -> None:
    value = DOCUMENTS[section][field]
    alone = default().replaced(**{section: {field: value}})
    assert getattr(getattr(default(), section), field) != value
    assert alone.digest() not in (default().digest(), seed().digest())
    back = alone.replaced(**{section: {field: getattr(getattr(default(), section), field)}})
    assert back == default()


def test_a_policy_that_nothing_teaches_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing would teach the policy"):
        LearnConfig(policy_weight=0.0, distill_weight=0.0)


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("learn", "reward", "at_open"),
        ("learn", "advantage", ""),
        ("learn", "encoder_rl", -0.1),
        ("learn", "supervised_weight", -1.0),
        ("agent", "rl_heads", "deep"),
    ],
)
def test_a_rule_that_does_not_exist_is_refused(section: str, field: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        Config().replaced(**{section: {field: value}})
