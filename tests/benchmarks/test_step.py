"""The step benchmark counts only a full replay and says what it measured on."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.step import MODES, environment, main, measure, new_runner, random_walk_tape, run
from trainer.config import Config
from trainer.presets import INSTRUMENTS, demo


def tiny() -> Config:
    return demo().replaced(
        data={"window_rows": 4},
        agent={"hidden": 12, "buckets": (4, 4, 4), "ssd_heads": 2, "ssd_state": 4, "head_hidden": 8},
        learn={"n_backtests": 8, "per_capacity": 64, "batch_size": 8},
    )


def test_eager_rate_is_measured_with_a_full_replay() -> None:
    config = tiny()
    runner = new_runner(config, INSTRUMENTS["ES"], random_walk_tape(config, 4_000, torch.device("cpu")))
    rate = measure(runner, "eager", num_steps=2)
    assert int(runner.state.replay.filled) == config.learn.per_capacity
    assert rate.steps_per_s is not None
    assert rate.steps_per_s > 0
    assert rate.env_steps_per_s == pytest.approx(8 * rate.steps_per_s)


def test_modes_that_need_a_gpu_are_named_and_left_empty_on_a_cpu() -> None:
    rates = run(tiny(), torch.device("cpu"), ["eager", "eager + graph", "compiled + graph"], 1, 4_000)
    assert [rate.mode for rate in rates if rate.steps_per_s is None] == ["eager + graph", "compiled + graph"]


def test_output_carries_environment_shapes_and_every_mode_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "step.json"
    assert (
        main(["--modes", "eager", "--steps", "1", "--rows", "4000", "--lanes", "8", "--out", str(out)]) == 0
    )
    body = json.loads(out.read_text())
    assert set(body["environment"]) == set(environment(torch.device("cpu")))
    assert body["shapes"]["B"] == 8
    assert [rate["mode"] for rate in body["rates"]] == ["eager"]
    assert "steps/s" in capsys.readouterr().out


def test_the_four_modes_are_the_two_switches() -> None:
    assert set(MODES.values()) == {(graph, compiled) for graph in (False, True) for compiled in (False, True)}


def test_a_mode_that_does_not_exist_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--modes", "eager,fast"])
    assert "--modes: fast; choose from eager, eager + graph" in capsys.readouterr().err
