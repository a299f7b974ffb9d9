"""The bus: every slot has one name, one place and its start value."""

import pytest
import torch

from trainer.agent.layout import GROUPS
from trainer.learn.bus import COUNTS, EMAS, Slots, slot_starts
from trainer.presets import default, demo

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def slots() -> Slots:
    return Slots(default())


def test_names_are_unique_and_number_the_places(slots: Slots) -> None:
    bus, counts = slots.initial(CPU)
    assert sorted(slots.index.values()) == list(range(len(bus)))
    assert sorted(slots.count_index.values()) == list(range(len(counts)))
    assert len(set(COUNTS)) == len(COUNTS)
    assert len(set(EMAS)) == len(EMAS)
    assert not set(COUNTS) & set(slots.index)


def test_writing_what_was_read_is_the_identity(slots: Slots) -> None:
    bus = torch.arange(len(slots.index), dtype=torch.float32) * 1.7 - 3
    counts = torch.arange(len(COUNTS)) * (2**40 + 1)
    assert torch.equal(slots.write(slots.read(bus)), bus)
    assert torch.equal(slots.write_counts(slots.read_counts(counts)), counts)


def test_a_slot_reads_its_own_element(slots: Slots) -> None:
    bus, counts = slots.initial(CPU)
    bus[slots.index["gamma"]] = 0.97
    counts[slots.count_index["trades"]] = 2**24 + 1
    assert slots.read(bus)["gamma"].item() == pytest.approx(0.97)
    assert slots.read_counts(counts)["trades"].item() == 2**24 + 1
    changed = [
        name for name, start in slots.starts.items() if slots.read(bus)[name].item() != torch.tensor(start)
    ]
    assert changed == ["gamma"]


def test_the_order_in_which_slots_are_given_does_not_matter(slots: Slots) -> None:
    bus = torch.rand(len(slots.index))
    assert torch.equal(slots.write(dict(reversed(slots.read(bus).items()))), bus)


def test_a_missing_slot_is_not_silently_zero(slots: Slots) -> None:
    values = slots.read(torch.rand(len(slots.index)))
    del values["target_tau"]
    with pytest.raises(KeyError, match="target_tau"):
        slots.write(values)


def test_outputs_start_at_the_documented_values_and_averages_at_zero() -> None:
    starts = slot_starts(default())
    documented = {
        "gamma": 0.90,
        "target_tau": 0.005,
        "ppo_clip": 0.2,
        "entropy_coef": 0.035,
        "per_alpha": 0.4,
    }
    documented |= {"reward_scale": 1.0, "stop_loss_ratio": 2.0} | {f"lr.{group}": 1e-3 for group in GROUPS}
    assert {name: starts[name] for name in documented} == documented
    assert {starts[name] for name in EMAS} == {0.0}
    counts = Slots(default()).initial(CPU)[1]
    assert counts.dtype == torch.int64
    assert counts.tolist() == [0] * len(COUNTS)


def test_configured_starts_are_taken_from_the_configuration() -> None:
    learn = {"learning_rate": 5e-4, "importance_beta": 0.7, "distill_weight": 2.0, "distill_temperature": 0.3}
    starts = slot_starts(demo().replaced(learn=learn, market={"stop_loss_ratio": 3.0}))
    assert [starts[f"lr.{group}"] for group in GROUPS] == [5e-4] * 5
    names = ("per_beta", "distill_weight", "distill_temperature", "stop_loss_ratio")
    assert [starts[name] for name in names] == [0.7, 2.0, 0.3, 3.0]
