"""Every controller: its direction, its bounds, and when it must hold still."""

import math
from typing import Any

import pytest
import torch

from trainer.config import LearnConfig
from trainer.learn.bus import COUNTS, EMAS, Slots
from trainer.learn.controllers import (
    Observations,
    Values,
    blend_ema,
    bounded_step,
    update_averages,
    update_learning_rates,
    update_outputs,
)
from trainer.presets import default

LEARN = default().learn
COLD, WARM = torch.tensor(False), torch.tensor(True)
OUTPUTS = ("gamma", "target_tau", "ppo_clip", "entropy_coef", "per_alpha", "reward_scale", "atom_span")
AVERAGES = [name for name in EMAS if "loss" not in name]


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(float(value))


def seen(**readings: Any) -> Observations:
    """A quiet step (nothing traded, nothing learned) with some readings replaced."""
    values = {name: scalar(0.0) for name in Observations._fields}
    values |= {"num_trades": torch.tensor(0), "num_wins": torch.tensor(0), "learned": torch.tensor(False)}
    values |= {name: torch.as_tensor(value) for name, value in readings.items()}
    return Observations(**values)


def start() -> tuple[Values, Values]:
    slots = Slots(default())
    bus, counts = slots.initial(torch.device("cpu"))
    return slots.read(bus), slots.read_counts(counts)


def adapted(
    observations: Observations,
    steps: int,
    warm: torch.Tensor = COLD,
    slots: Values | None = None,
    first: int = 0,
    learn: LearnConfig = LEARN,
) -> Values:
    """The slots after `steps` updates that all saw the same."""
    values, counts = start()
    values = slots or values
    for step in range(first, first + steps):
        values = update_averages(values, observations, learn)
        values = update_outputs(values, counts | {"updates": torch.tensor(step)}, warm, learn)
    return values


def outputs(values: Values) -> dict[str, float]:
    return {name: values[name].item() for name in OUTPUTS}


def test_after_construction_outputs_are_their_starts_and_averages_exactly_zero() -> None:
    values, counts = start()
    assert outputs(values) == outputs(update_outputs(values, counts, COLD, LEARN))
    assert [values[name].item() for name in EMAS] == [0.0] * len(EMAS)
    assert values["gamma"].item() == pytest.approx(0.90)
    assert values["entropy_coef"].item() == pytest.approx(0.035)


def test_a_quiet_run_moves_nothing() -> None:
    assert outputs(adapted(seen(), 120)) == outputs(start()[0])


def test_the_documents_inputs_move_all_seven_outputs() -> None:
    loud = seen(
        trade_duration=20.0, num_trades=4, q_divergence=0.5, policy_kl=0.1, entropy=0.5, entropy_limit=1.1,
        td_kurtosis=20.0, return_square=10.0, abs_trade_ticks=50.0, learned=True,
    )  # fmt: skip
    before, after = outputs(start()[0]), outputs(adapted(loud, 60))
    unmoved = [name for name in OUTPUTS if abs(after[name] - before[name]) <= 1e-6]
    assert unmoved == []


@pytest.mark.parametrize(("duration", "gamma"), [(20.0, 0.9659), (1.0, 0.90), (0.3, 0.90), (5000.0, 0.999)])
def test_gamma_halves_a_reward_after_the_mean_trade(duration: float, gamma: float) -> None:
    found = adapted(seen(trade_duration=duration, num_trades=3), 60)["gamma"].item()
    assert found == pytest.approx(gamma, abs=1e-4)


@pytest.mark.parametrize(
    ("kurtosis", "alpha"), [(10.0, 0.6), (3.0, 0.4), (1.0, 0.3429), (1e4, 0.8), (0.5, 0.3429)]
)
def test_per_alpha_rises_with_the_kurtosis_of_td_errors(kurtosis: float, alpha: float) -> None:
    found = adapted(seen(td_kurtosis=kurtosis, learned=True), 60)["per_alpha"].item()
    assert found == pytest.approx(alpha, abs=1e-4)


@pytest.mark.parametrize(
    ("output", "readings", "direction"),
    [
        ("target_tau", {"q_divergence": 0.016}, +1),
        ("target_tau", {"q_divergence": 0.006}, -1),
        ("target_tau", {"q_divergence": 0.014}, 0),
        ("target_tau", {"q_divergence": 0.007}, 0),
        ("ppo_clip", {"policy_kl": 0.016}, -1),
        ("ppo_clip", {"policy_kl": 0.006}, +1),
        ("ppo_clip", {"policy_kl": 0.014}, 0),
        # Target 0.7 ln(#feasible) = 0.7; tolerance 1.2, so .59 to .83 is let alone.
        ("entropy_coef", {"entropy": 0.57, "entropy_limit": 1.0}, +1),
        ("entropy_coef", {"entropy": 0.86, "entropy_limit": 1.0}, -1),
        ("entropy_coef", {"entropy": 0.60, "entropy_limit": 1.0}, 0),
        ("entropy_coef", {"entropy": 0.82, "entropy_limit": 1.0}, 0),
    ],
)
def test_bounded_steps_go_in_the_stated_direction(
    output: str, readings: dict[str, float], direction: int
) -> None:
    before = start()[0][output].item()
    after = adapted(seen(learned=True, **readings), 51)[output].item()
    factor = {1: 1.5, -1: 1 / 1.5, 0: 1.0}[direction]
    assert after == pytest.approx(0.6 * before + 0.4 * before * factor, rel=1e-6)


@pytest.mark.parametrize(
    ("output", "readings", "bound"),
    [
        ("target_tau", {"q_divergence": 5.0}, 0.02),
        ("target_tau", {"q_divergence": 1e-6}, 0.001),
        ("ppo_clip", {"policy_kl": 5.0}, 0.05),
        ("ppo_clip", {"policy_kl": 1e-6}, 0.5),
        ("entropy_coef", {"entropy": 1e-6, "entropy_limit": 1.0}, 1.0),
        ("entropy_coef", {"entropy": 2.0, "entropy_limit": 1.0}, 1e-3),
    ],
)
def test_outputs_stop_at_their_bounds(output: str, readings: dict[str, float], bound: float) -> None:
    observations = seen(learned=True, **readings)
    values, counts = start()
    values = update_averages(values, observations, LEARN)
    for step in range(50, 50 * 40, 50):
        values = update_outputs(values, counts | {"updates": torch.tensor(step)}, COLD, LEARN)
    assert values[output].item() == pytest.approx(bound, rel=1e-6)


def test_bounded_steps_come_at_most_every_50_updates() -> None:
    observations = seen(q_divergence=1.0, learned=True)
    values, counts = start()
    changed = []
    for step in range(160):
        before = values["target_tau"].item()
        values = update_averages(values, observations, LEARN)
        values = update_outputs(values, counts | {"updates": torch.tensor(step)}, COLD, LEARN)
        if values["target_tau"].item() != before:
            changed.append(step)
    assert changed == [50, 100, 150]


def test_a_bounded_step_holds_on_no_signal_or_a_broken_one() -> None:
    for reading in (0.0, math.nan, math.inf):
        held = bounded_step(scalar(0.005), scalar(reading), 0.01, True, (0.001, 0.02), WARM)
        assert held.item() == pytest.approx(0.005), reading


def test_the_first_non_zero_observation_replaces_the_sentinel() -> None:
    always = torch.tensor(True)
    assert blend_ema(scalar(0.0), scalar(7.0), always).item() == 7.0
    assert blend_ema(scalar(0.0), scalar(0.0), always).item() == 0.0
    assert blend_ema(scalar(7.0), scalar(9.0), always).item() == pytest.approx(7.1)
    assert blend_ema(scalar(7.0), scalar(0.0), always).item() == pytest.approx(6.65)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_non_finite_observations_leave_every_average_as_it_was(broken: float) -> None:
    healthy = seen(
        trade_duration=5.0, abs_trade_ticks=2.0, win_rate=0.5, num_trades=3, order_share=0.3, entropy=0.5,
        entropy_limit=1.1, entropy_share=0.4, q_divergence=0.1, policy_kl=0.02, td_kurtosis=5.0,
        return_square=4.0, learned=True,
    )  # fmt: skip
    before = adapted(healthy, 60)
    assert all(before[name] != 0 for name in AVERAGES)
    floats = {
        n: scalar(broken) for n, t in zip(healthy._fields, healthy, strict=True) if t.is_floating_point()
    }
    after = adapted(healthy._replace(**floats), 5, slots=before, first=60)
    # A kurtosis is clamped before it is averaged, so an infinite one counts as the clamp.
    kept = [name for name in AVERAGES if name != "ema.td_kurtosis" or math.isnan(broken)]
    assert {name: after[name].item() for name in kept} == {name: before[name].item() for name in kept}
    assert all(torch.isfinite(value) for value in after.values())


def test_no_closed_trade_preserves_the_trade_averages() -> None:
    before = adapted(seen(trade_duration=9.0, abs_trade_ticks=3.0, win_rate=0.6, num_trades=2), 3)
    after = adapted(seen(), 30, slots=before)
    for name in ("ema.trade_duration", "ema.abs_trade", "ema.win"):
        assert after[name].item() == before[name].item() > 0


def test_an_empty_replay_preserves_what_only_learning_shows() -> None:
    shown = {"q_divergence": 0.2, "policy_kl": 0.1, "td_kurtosis": 8.0, "return_square": 9.0}
    before = adapted(seen(learned=True, **shown), 3)
    after = adapted(seen(learned=False, **dict.fromkeys(shown, 0.0)), 30, slots=before)
    for name in shown:
        assert after[f"ema.{name}"].item() == before[f"ema.{name}"].item() > 0


def test_a_step_in_which_no_lane_had_a_choice_preserves_the_entropy() -> None:
    before = adapted(seen(entropy=0.6, entropy_limit=1.1, entropy_share=0.55), 3)
    after = adapted(seen(entropy=0.0, entropy_limit=0.0, entropy_share=0.0), 30, slots=before)
    for name in ("ema.entropy", "ema.entropy_target", "ema.entropy_share"):
        assert after[name].item() == before[name].item() > 0


@pytest.mark.parametrize("reading", [0.3, 4.0])
def test_averages_converge_to_a_constant_input_from_elsewhere(reading: float) -> None:
    readings = {
        "trade_duration": reading,
        "order_share": reading,
        "policy_kl": reading,
        "return_square": reading,
    }
    first = adapted(seen(num_trades=1, learned=True, **dict.fromkeys(readings, 2.0)), 1)
    after = adapted(seen(num_trades=1, learned=True, **readings), 300, slots=first)
    for name in readings:
        assert after[f"ema.{name}"].item() == pytest.approx(reading, abs=1e-4), name


def test_scale_and_span_follow_the_returns_until_the_buffer_is_full() -> None:
    early = seen(return_square=16.0, trade_duration=30.0, num_trades=1, learned=True)
    before = adapted(early, 200)
    assert before["reward_scale"].item() == pytest.approx(4.0, abs=1e-3)
    assert 4.0 < before["atom_span"].item() < 12.0
    later = seen(return_square=900.0, trade_duration=1.0, num_trades=1, learned=True)
    frozen = adapted(later, 300, warm=WARM, slots=before)
    assert frozen["ema.return_square"].item() > 800
    for name in ("reward_scale", "atom_span"):
        assert frozen[name].item() == before[name].item()
    assert adapted(later, 300, slots=before)["reward_scale"].item() > 25


@pytest.mark.parametrize("n_step", [1, 5, 16])
def test_the_span_covers_three_deviations_of_a_sum_of_n_step_returns(n_step: int) -> None:
    readings = seen(return_square=1.0, trade_duration=4.0, num_trades=1, learned=True)
    found = adapted(readings, 100, learn=LEARN.model_copy(update={"n_step": n_step}))
    assert found["gamma"].item() == pytest.approx(0.9, abs=1e-5)
    # Independent returns of 1 in root mean square, discounted by gamma^n each, sum to this deviation.
    spread = 1 / math.sqrt(1 - 0.9 ** (2 * n_step))
    assert found["atom_span"].item() == pytest.approx(1 + 3 * spread, rel=1e-4)


@pytest.mark.parametrize(("duration", "span"), [(1.0, 4.72), (1e5, 12.0)])
def test_the_span_stays_inside_its_bounds(duration: float, span: float) -> None:
    values = adapted(seen(return_square=1.0, trade_duration=duration, num_trades=1, learned=True), 100)
    assert values["atom_span"].item() == pytest.approx(span, abs=0.01)


def test_every_slot_and_count_is_handed_on() -> None:
    values, counts = start()
    after = update_outputs(update_averages(values, seen(), LEARN), counts, COLD, LEARN)
    rated, tally = update_learning_rates(values, counts, torch.ones(5), LEARN)
    assert set(after) == set(rated) == set(values)
    assert set(tally) == set(COUNTS)


def test_at_close_scale_and_span_are_left_to_their_own_rule() -> None:
    learn = LEARN.model_copy(update={"reward": "at_close"})
    after = adapted(seen(return_square=900.0, learned=True), 60, learn=learn)
    assert (after["reward_scale"].item(), after["atom_span"].item()) == (1.0, 4.0)
