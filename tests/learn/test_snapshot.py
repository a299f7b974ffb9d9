"""A state survives the checkpoint file bit for bit and goes on as if it had never stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.step import new_runner, random_walk_tape
from trainer.agent.layout import GROUPS
from trainer.config import Config
from trainer.data.normaliser import Normaliser
from trainer.errors import AlphaError, InputError, MismatchError
from trainer.learn.bus import COUNTS
from trainer.learn.foxc import Checkpoint, read_foxc, write_foxc
from trainer.learn.runner import Runner
from trainer.learn.snapshot import restore, sections, stored_normaliser
from trainer.learn.state import TrainState
from trainer.learn.tree import leaves
from trainer.market.tape import Tape
from trainer.presets import INSTRUMENTS, demo

CPU = torch.device("cpu")
NUM_STEPS = 25


def small(seed: int = 0) -> Config:
    agent = {"hidden": 12, "buckets": (5, 4, 3), "ssd_state": 3, "head_hidden": 8}
    learn = {"n_backtests": 8, "per_capacity": 128, "batch_size": 16, "n_step": 3, "seed": seed}
    return demo().replaced(agent=agent, learn=learn, data={"window_rows": 5, "decision_rows": 4})


@pytest.fixture(scope="module")
def tape() -> Tape:
    torch.set_num_threads(1)
    return random_walk_tape(small(), 3000, CPU)


@pytest.fixture(scope="module")
def normaliser() -> Normaliser:
    rng = np.random.default_rng(0)
    mean, sd, move_sd = (rng.random(n).astype(np.float32) for n in (40, 40, 3))
    return Normaliser(mean, sd, move_sd, 0.123)


@pytest.fixture(scope="module")
def trained(tape: Tape) -> Runner:
    runner = new_runner(small(), INSTRUMENTS["ES"], tape)
    for _ in range(NUM_STEPS):
        runner.advance()
    return runner


@pytest.fixture(scope="module")
def parts(trained: Runner, normaliser: Normaliser) -> dict[str, Any]:
    """The sections, copied: on a CPU they share the state's memory."""
    found = sections(trained.learner, trained.state, normaliser)
    return {name: part if isinstance(part, bytes) else part.copy() for name, part in found.items()}


def stranger(tape: Tape) -> Runner:
    """A state that differs from the trained one everywhere it can."""
    runner = new_runner(small(seed=5), INSTRUMENTS["ES"], tape)
    for _ in range(4):
        runner.advance()
    return runner


def reread(parts: dict[str, Any], path: Path) -> Checkpoint:
    write_foxc(path, NUM_STEPS, parts)
    return read_foxc(path)


def differing(one: TrainState, other: TrainState) -> list[str]:
    """Names of leaves that differ in any bit."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return [name for (name, a), (_, b) in pairs if a.numpy().tobytes() != b.numpy().tobytes()]


def test_every_leaf_comes_back_bit_for_bit(
    trained: Runner, parts: dict[str, Any], tape: Tape, tmp_path: Path
) -> None:
    other = stranger(tape)
    assert {"params", "adam_m", "bus", "counts", "replay.rows", "lanes.cursor", "ring.h"} <= set(
        differing(trained.state, other.state)
    )
    restore(reread(parts, tmp_path / "c.bin"), other.learner, other.state)
    assert differing(trained.state, other.state) == []


def test_a_restored_run_goes_on_as_the_uninterrupted_one(
    parts: dict[str, Any], tape: Tape, tmp_path: Path
) -> None:
    straight, resumed = (
        new_runner(small(), INSTRUMENTS["ES"], tape),
        new_runner(small(), INSTRUMENTS["ES"], tape),
    )
    for _ in range(NUM_STEPS + 10):
        straight.advance()
    restore(reread(parts, tmp_path / "c.bin"), resumed.learner, resumed.state)
    for _ in range(10):
        resumed.advance()
    # Spare rows behind the buffer take the writes that are not wanted: scratch, but equal all the same.
    assert differing(straight.state, resumed.state) == []
    assert int(resumed.state.step) == NUM_STEPS + 10


def test_restoring_keeps_the_tensors_that_a_captured_graph_holds(
    parts: dict[str, Any], tape: Tape, tmp_path: Path
) -> None:
    runner = stranger(tape)
    before = [tensor.data_ptr() for _, tensor in leaves(runner.state)]
    restore(reread(parts, tmp_path / "c.bin"), runner.learner, runner.state)
    assert [tensor.data_ptr() for _, tensor in leaves(runner.state)] == before


def test_all_groups_have_an_optimizer_section_with_their_own_moments_and_rate(
    trained: Runner, parts: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint, learner = reread(parts, tmp_path / "c.bin"), trained.learner
    assert [name for name in checkpoint.arrays if name.startswith("optimizer.")] == [
        f"optimizer.{group}" for group in GROUPS
    ]
    total = 0
    for group in GROUPS:
        start, end = learner.agent.layout.group_range(group)
        found = checkpoint.optimizer(f"optimizer.{group}")
        assert np.array_equal(found.m, trained.state.adam_m[start:end].numpy())
        assert np.array_equal(found.v, trained.state.adam_v[start:end].numpy())
        assert found.m.any()
        assert found.step == int(trained.state.adam_step) == NUM_STEPS
        assert found.lr == learner.slots.read(trained.state.bus)[f"lr.{group}"].item()
        assert (found.beta1, found.beta2) == pytest.approx((0.9, 0.999))
        assert found.weight_decay == pytest.approx(1e-2)
        total += len(found.m)
    assert total == trained.state.params.numel()


def test_every_slot_count_and_leaf_has_a_section(trained: Runner, parts: dict[str, Any]) -> None:
    split = {"adam_m", "adam_v", "bus", "counts"}
    expected = {name for name, _ in leaves(trained.state)} - split
    expected |= {f"bus.{name}" for name in trained.learner.slots.index} | {
        f"counts.{name}" for name in COUNTS
    }
    expected |= {f"optimizer.{group}" for group in GROUPS}
    assert {name for name in parts if not name.startswith("normaliser.")} == expected


def test_a_slot_the_checkpoint_does_not_know_keeps_its_start(
    trained: Runner, parts: dict[str, Any], tape: Tape, tmp_path: Path
) -> None:
    missing = ("bus.per_beta", "bus.ppo_clip", "counts.wins")
    older = {name: part for name, part in parts.items() if name not in missing}
    older["bus.retired_slot"] = np.float32(3.0)
    runner = new_runner(small(seed=5), INSTRUMENTS["ES"], tape)
    restore(reread(older, tmp_path / "c.bin"), runner.learner, runner.state)
    now, was = (learner_slots(runner), learner_slots(trained))
    assert now["per_beta"] == pytest.approx(0.4)
    assert now["ppo_clip"] == pytest.approx(0.2)
    assert {n: v for n, v in now.items() if n not in ("per_beta", "ppo_clip")} == {
        n: v for n, v in was.items() if n not in ("per_beta", "ppo_clip")
    }


def learner_slots(runner: Runner) -> dict[str, float]:
    return {name: value.item() for name, value in runner.learner.slots.read(runner.state.bus).items()}


def test_slots_are_found_by_name_wherever_they_lie(parts: dict[str, Any], tape: Tape, tmp_path: Path) -> None:
    runner = stranger(tape)
    marked = dict(reversed(parts.items()))
    marked |= {f"bus.{name}": np.float32(i) for i, name in enumerate(sorted(runner.learner.slots.index))}
    restore(reread(marked, tmp_path / "c.bin"), runner.learner, runner.state)
    assert list(dict(sorted(learner_slots(runner).items())).values()) == list(
        range(len(runner.learner.slots.index))
    )


@pytest.mark.parametrize("name", ["params", "replay.rows", "lanes.cursor", "step", "optimizer.aux"])
def test_a_missing_section_is_named(parts: dict[str, Any], tape: Tape, tmp_path: Path, name: str) -> None:
    runner = stranger(tape)
    checkpoint = reread({n: p for n, p in parts.items() if n != name}, tmp_path / "c.bin")
    with pytest.raises(InputError, match=f"c.bin section '{name}': missing section"):
        restore(checkpoint, runner.learner, runner.state)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("params", np.zeros(3, np.float32), InputError),
        ("target", np.zeros(7, np.float64), InputError),
        ("replay.filled", np.zeros((1,), np.int64), InputError),
    ],
)
def test_a_section_of_another_size_or_type_is_refused(
    parts: dict[str, Any],
    tape: Tape,
    tmp_path: Path,
    name: str,
    value: np.ndarray[Any, Any],
    error: type[AlphaError],
) -> None:
    runner = stranger(tape)
    with pytest.raises(error, match=rf"section '{name}': found .*, expected "):
        restore(reread(parts | {name: value}, tmp_path / "c.bin"), runner.learner, runner.state)


def test_moments_of_another_agent_are_refused(parts: dict[str, Any], tape: Tape, tmp_path: Path) -> None:
    runner = stranger(tape)
    swapped = parts | {"optimizer.q": parts["optimizer.pi"]}
    with pytest.raises(MismatchError, match=r"section 'optimizer\.q': found \d+ elements, expected \d+"):
        restore(reread(swapped, tmp_path / "c.bin"), runner.learner, runner.state)


def test_the_normaliser_comes_back(parts: dict[str, Any], normaliser: Normaliser, tmp_path: Path) -> None:
    found = stored_normaliser(reread(parts, tmp_path / "c.bin"))
    for name in ("mean", "sd", "move_sd"):
        assert np.array_equal(getattr(found, name), getattr(normaliser, name)), name
    assert found.elapsed_scale_s == pytest.approx(normaliser.elapsed_scale_s, rel=1e-7)


def test_saving_changes_nothing_and_gives_the_same_bytes_again(
    tape: Tape, normaliser: Normaliser, tmp_path: Path
) -> None:
    runner = new_runner(small(), INSTRUMENTS["ES"], tape)
    for _ in range(5):
        runner.advance()
    write_foxc(tmp_path / "a.bin", 5, sections(runner.learner, runner.state, normaliser))
    first = (tmp_path / "a.bin").read_bytes()
    write_foxc(tmp_path / "b.bin", 5, sections(runner.learner, runner.state, normaliser))
    assert (tmp_path / "b.bin").read_bytes() == first, "saving changed the state"
