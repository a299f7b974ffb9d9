"""The runner on a CPU: when it would capture, what it keeps in place, which numerics it sets."""

import itertools
from pathlib import Path

import pytest
import torch

from trainer.config import Config
from trainer.learn.loop import open_training
from trainer.learn.run import Run
from trainer.learn.runner import Runner, capture_step, configure_device
from trainer.learn.tree import leaves

Tiny = tuple[Run, Path]


@pytest.mark.parametrize(
    ("capacity", "lanes", "n", "expected"), [(65_536, 1024, 1, 65), (65_536, 1024, 5, 69), (256, 16, 5, 21)]
)
def test_capture_begins_behind_the_step_after_which_the_replay_is_full(
    capacity: int, lanes: int, n: int, expected: int
) -> None:
    config = Config().replaced(learn={"per_capacity": capacity, "n_backtests": lanes, "n_step": n})
    assert capture_step(config) == expected


def test_the_replay_is_full_once_the_capture_step_is_done(tiny_run: Tiny, tmp_path: Path) -> None:
    runner = open_training(tiny_run[0], 0, tmp_path).runner
    filled = []
    for _ in range(capture_step(runner.learner.config)):
        runner.advance()
        filled.append(int(runner.state.replay.filled))
    assert filled[-1] == 256
    assert all(b - a <= 16 * 6 for a, b in itertools.pairwise(filled))
    assert filled[:3] == sorted(filled[:3])


def test_advancing_counts_steps_and_keeps_every_tensor_in_its_place(tiny_run: Tiny, tmp_path: Path) -> None:
    runner = open_training(tiny_run[0], 0, tmp_path).runner
    places = {name: tensor.data_ptr() for name, tensor in leaves(runner.state)}
    params = runner.state.params.clone()
    for _ in range(3):
        runner.advance()
    assert runner.completed == int(runner.state.step) == 3
    assert {name: tensor.data_ptr() for name, tensor in leaves(runner.state)} == places
    assert not torch.equal(runner.state.params, params)


def test_a_runner_of_a_restored_state_continues_its_count(tiny_run: Tiny, tmp_path: Path) -> None:
    runner = open_training(tiny_run[0], 0, tmp_path).runner
    runner.advance()
    assert Runner(runner.learner, runner.state).completed == 1


def test_a_cpu_run_neither_compiles_nor_captures_and_uses_one_thread(tiny_run: Tiny, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    configure_device(torch.device("cpu"))
    assert torch.get_num_threads() == 1
    config = tiny_run[0].config
    assert config.run.use_graph
    assert config.run.use_compile
    runner = open_training(tiny_run[0], 0, tmp_path).runner
    assert not runner.on_gpu
    assert not runner._captures
