"""The learning-rate rule: a plateau halves a group's rate, for ever."""

import math

import pytest
import torch

from trainer.agent.layout import GROUPS
from trainer.config import LearnConfig
from trainer.learn.bus import Slots
from trainer.learn.controllers import LR_PATIENCE, LR_WARMUP, Values, update_learning_rates
from trainer.presets import default, seed


def start() -> tuple[Values, Values]:
    slots = Slots(default())
    bus, counts = slots.initial(torch.device("cpu"))
    return slots.read(bus), slots.read_counts(counts)


class Rates:
    """The learning-rate rule fed loss after loss; all groups alike unless said."""

    def __init__(self, learn: LearnConfig | None = None) -> None:
        self.slots, self.counts = start()
        self.learn = learn or default().learn

    def feed(self, losses: float | list[float], steps: int) -> None:
        tensor = torch.tensor(losses if isinstance(losses, list) else [losses] * 5)
        for _ in range(steps):
            self.slots, self.counts = update_learning_rates(self.slots, self.counts, tensor, self.learn)

    def rates(self) -> list[float]:
        return [self.slots[f"lr.{group}"].item() for group in GROUPS]


@pytest.fixture(scope="module")
def warmed_up() -> tuple[Values, Values]:
    rule = Rates()
    rule.feed(1.0, LR_WARMUP)
    return rule.slots, rule.counts


@pytest.fixture
def rule(warmed_up: tuple[Values, Values]) -> Rates:
    fresh = Rates()
    fresh.slots, fresh.counts = (dict(values) for values in warmed_up)
    return fresh


def test_the_rates_hold_during_the_warm_up(rule: Rates) -> None:
    assert rule.rates() == pytest.approx([1e-3] * 5)
    assert rule.slots["loss_best.q"].item() == pytest.approx(1.0)
    assert int(rule.counts["lr_observations"]) == LR_WARMUP
    assert int(rule.counts["lr_stale.q"]) == 0


def test_a_plateau_of_1000_observations_halves_the_rate_and_keeps_the_best(rule: Rates) -> None:
    rule.feed(0.995, LR_PATIENCE - 1)  # a gain under 1 % is none
    assert rule.rates() == pytest.approx([1e-3] * 5)
    rule.feed(0.995, 1)
    assert rule.rates() == pytest.approx([5e-4] * 5)
    assert int(rule.counts["lr_stale.q"]) == 0
    assert rule.slots["loss_best.q"].item() == pytest.approx(1.0)


def test_a_gain_of_over_1_percent_resets_the_counter(rule: Rates) -> None:
    rule.feed(1.0, 900)
    rule.feed(0.9, 5)  # the average falls under .99
    assert int(rule.counts["lr_stale.q"]) < 5
    assert rule.slots["loss_best.q"].item() < 0.99
    rule.feed(0.9, 600)
    assert rule.rates() == pytest.approx([1e-3] * 5)


def test_a_rate_never_rises_however_the_loss_falls(rule: Rates) -> None:
    rule.feed(1.0, LR_PATIENCE)
    assert rule.rates() == pytest.approx([5e-4] * 5)
    for loss in (0.5, 0.2, 0.05):
        rule.feed(loss, 100)
    assert rule.rates() == pytest.approx([5e-4] * 5)


def test_a_rate_stops_at_its_least(rule: Rates) -> None:
    for halving in range(5):
        rule.counts |= {f"lr_stale.{group}": torch.tensor(LR_PATIENCE - 1) for group in GROUPS}
        rule.feed(1.0, 1)
        assert rule.rates() == pytest.approx([max(1e-3 / 2 ** (halving + 1), 1e-4)] * 5)


def test_groups_decay_apart_and_a_zero_or_broken_loss_is_no_observation(rule: Rates) -> None:
    rule.feed([1.0, 0.0, math.nan, 1.0, 1.0], LR_PATIENCE)
    assert rule.rates() == pytest.approx([5e-4, 1e-3, 1e-3, 5e-4, 5e-4])
    for group in ("aux", "q"):
        assert int(rule.counts[f"lr_stale.{group}"]) == 0
        assert rule.slots[f"ema.loss.{group}"].item() == pytest.approx(1.0)


def test_a_negative_loss_that_falls_further_is_a_gain() -> None:
    rule = Rates()
    rule.counts["lr_observations"] = torch.tensor(LR_WARMUP - 1)
    rule.feed(-1.0, 1)
    rule.feed(-1.0, 10)
    assert int(rule.counts["lr_stale.pi"]) == 10
    rule.feed(-2.0, 1)
    assert int(rule.counts["lr_stale.pi"]) == 0
    assert rule.slots["loss_best.pi"].item() == pytest.approx(-1.05)


def test_the_documents_halve_the_rates_of_q_policy_and_value_only(rule: Rates) -> None:
    rule.learn = seed().learn
    rule.feed(1.0, LR_PATIENCE)
    assert rule.rates() == pytest.approx([1e-3, 1e-3, 5e-4, 5e-4, 5e-4])
    assert int(rule.counts["lr_stale.bce"]) == LR_PATIENCE
