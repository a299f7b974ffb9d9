"""Features that no builder writes, found in a cache all the same: refused, or clipped, never trained on."""

import dataclasses
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainer.data.cache import Cache, open_cache
from trainer.data.features import FEATURE_NAMES
from trainer.errors import ExitCode, InputError
from trainer.learn import evaluate as evaluate_module
from trainer.learn import loop as loop_module
from trainer.learn.adapt import adapt
from trainer.learn.evaluate import Evaluation, no_progress
from trainer.learn.foxc import Checkpoint
from trainer.learn.loop import open_training, train
from trainer.learn.run import Run
from trainer.learn.snapshot import sections
from trainer.learn.step import Parts
from trainer.learn.tree import leaves

Tiny = tuple[Run, Path]
COLUMN = 14


def with_feature(row: int, value: float) -> Callable[[Path], Cache]:
    """Opens a cache in which one feature of one row has another value."""

    def opened(path: Path) -> Cache:
        cache = open_cache(path)
        features = np.array(cache.features)
        features[row, COLUMN] = value
        return dataclasses.replace(cache, features=features)

    return opened


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["first observed", "last"])
def test_training_refuses_a_feature_that_is_not_finite_by_its_row_and_name(
    tiny_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, where: str
) -> None:
    run = tiny_run[0]
    window = run.folds[1].train
    row = window.start_row - run.config.data.window_rows if where == "first observed" else window.end_row - 1
    monkeypatch.setattr(loop_module, "open_cache", with_feature(row, value))
    with pytest.raises(InputError, match=rf"{FEATURE_NAMES[COLUMN]} of row {row} is not finite") as caught:
        open_training(run, 1, tmp_path)
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert "prepare again" in str(caught.value)


def test_rows_that_a_fold_does_not_read_are_not_judged(
    tiny_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run[0]
    for row in (run.folds[1].train.start_row - run.config.data.window_rows - 1, run.folds[1].train.end_row):
        monkeypatch.setattr(loop_module, "open_cache", with_feature(row, math.nan))
        open_training(run, 1, tmp_path)


def test_evaluation_refuses_one_in_its_test_window(
    tiny_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tiny_run[0]
    training = open_training(run, 0, tmp_path)
    stored = sections(training.learner, training.state, training.normaliser)
    arrays = {name: value for name, value in stored.items() if isinstance(value, np.ndarray)}
    checkpoint = Checkpoint(tmp_path, 0, arrays)
    row = run.folds[0].test.end_row - 1
    monkeypatch.setattr(evaluate_module, "open_cache", with_feature(row, math.nan))
    with pytest.raises(InputError, match=rf"{FEATURE_NAMES[COLUMN]} of row {row} is not finite"):
        Evaluation(run, 0, checkpoint, no_progress)


@pytest.mark.parametrize("value", [1e38, -1e38, 1e-42])
def test_a_feature_that_is_absurd_but_finite_is_clipped_and_trained_on(
    tiny_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    run, row = tiny_run[0], tiny_run[0].folds[0].train.start_row + 40
    monkeypatch.setattr(loop_module, "open_cache", with_feature(row, value))
    training = open_training(run, 0, tmp_path)
    assert training.learner.tape.features.abs().max() <= 10.0
    for _ in range(4):
        training.runner.advance()
    floats = [(name, t) for name, t in leaves(training.state) if t.is_floating_point() and name != "records"]
    assert [name for name, tensor in floats if not tensor.isfinite().all()] == []
    names = training.learner.slots.count_index
    assert int(training.state.counts[names["skipped_updates"]]) == 0


def test_skipped_updates_are_warned_of_where_they_happened(
    tiny_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sometimes(learner: Any, state: Any, grad: torch.Tensor, *rest: Any) -> Any:
        broken = int(state.step) in (1, 4, 5)
        return adapt(learner, state, grad * math.nan if broken else grad, *rest)

    whole = open_training

    def opened(*arguments: Any) -> Any:
        training = whole(*arguments)
        training.runner.parts = Parts(adapt=sometimes)
        return training

    monkeypatch.setattr(loop_module, "open_training", opened)
    stream, options = io.StringIO(), {"n_steps": 8, "checkpoint_every": 0, "log_every": 2}
    run = tiny_run[0].with_run_options(options)
    train(run, tmp_path, 0, stream)
    warnings = [line for line in stream.getvalue().splitlines() if line.startswith("warning:")]
    assert warnings == [
        "warning: 1 of the last 2 updates skipped: gradient not finite",
        "warning: 2 of the last 2 updates skipped: gradient not finite",
    ]
