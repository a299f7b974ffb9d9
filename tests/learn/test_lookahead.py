"""No look-ahead: training knows no row behind its window, an evaluated decision none behind its own."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.tampered import changed_after, write_records
from trainer.config import Config
from trainer.data.cache import Cache, build_cache, open_cache
from trainer.data.dbn import read_records
from trainer.learn import evaluate as evaluate_module
from trainer.learn import loop as loop_module
from trainer.learn.account import Decisions
from trainer.learn.evaluate import Evaluation, no_progress
from trainer.learn.foxc import Checkpoint
from trainer.learn.loop import Training, open_training
from trainer.learn.run import FoldRows, Run
from trainer.learn.snapshot import sections
from trainer.learn.tree import leaves
from trainer.market import Tape
from trainer.market.tape import observe

Source = tuple[Run, np.ndarray]  # a prepared run and the records of its one file


def records_of(source: str, request: pytest.FixtureRequest, directory: Path, config: Config) -> np.ndarray:
    """All records of the ES hour, or of a written market."""
    if source == "ES":
        return np.concatenate(
            list(read_records(request.getfixturevalue("shared_data") / "ESH4_20231225.mbp-10.dbn.zst"))
        )
    from trainer.data.synthetic import write_market

    directory.mkdir()
    files = write_market(config, directory)
    return np.concatenate([records for file in files for records in read_records(file)])


@pytest.fixture(scope="module", params=["written", "ES"])
def source(
    request: pytest.FixtureRequest, tiny_config: Config, tmp_path_factory: pytest.TempPathFactory
) -> Source:
    """A run on one file, prepared."""
    from trainer.learn.prepare import prepare

    root = tmp_path_factory.mktemp("lookahead")
    records = records_of(request.param, request, root / "written", tiny_config)
    file = write_records(root / "whole.dbn", records)
    config = tiny_config.replaced(data={"instrument": "ES"}, run={"mbp10_data_dir": file})
    return prepare(config, root / "run", root / "cache", lambda what, done, total: None), records


def changed_from(row: int) -> Callable[[Path], Cache]:
    """Opens a cache in which every row from `row` on is another one: times, books, features."""

    def opened(path: Path) -> Cache:
        cache, rng = open_cache(path), np.random.default_rng(row)
        names = ("ts_ns", "bid_px", "ask_px", "bid_sz", "ask_sz", "features", "signed_volume", "trade_count")
        columns = {name: np.array(getattr(cache, name)) for name in names}
        num = cache.num_rows - row
        columns["ts_ns"][row:] += np.sort(rng.integers(1, 10**9, num))
        shift = rng.integers(-300, 300, (num, 1))
        for name in ("bid_px", "ask_px"):
            columns[name][row:] += shift.astype(np.int32)
        for name in ("bid_sz", "ask_sz", "signed_volume", "trade_count"):
            columns[name][row:] = rng.integers(0, 99, columns[name][row:].shape)
        columns["features"][row:] = rng.normal(size=columns["features"][row:].shape)
        return dataclasses.replace(cache, **columns)

    return opened


def trained(run: Run, directory: Path, monkeypatch: pytest.MonkeyPatch, opened: Any) -> Training:
    """Three steps of training on the cache that `opened` gives."""
    monkeypatch.setattr(loop_module, "open_cache", opened)
    training = open_training(run, 0, directory)
    for _ in range(3):
        training.runner.advance()
    return training


def differences(one: Training, other: Training) -> set[str]:
    """Names of what differs by a bit: normaliser, labels, tape, weights, replay with its priorities, ..."""
    pairs = {
        name: (getattr(one.learner.tape, name), getattr(other.learner.tape, name)) for name in Tape._fields
    }
    fields = zip(one.normaliser.to_arrays().items(), other.normaliser.to_arrays().values(), strict=True)
    pairs |= {name: (torch.from_numpy(a), torch.from_numpy(b)) for (name, a), b in fields}
    pairs |= {name: (a, b) for (name, a), (_, b) in zip(leaves(one.state), leaves(other.state), strict=True)}
    return {name for name, (a, b) in pairs.items() if a.numpy().tobytes() != b.numpy().tobytes()}


def test_rows_behind_the_train_window_change_nothing_that_training_sees(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, rows = source[0], source[0].fold(0).train
    whole = trained(run, tmp_path, monkeypatch, open_cache)
    assert whole.learner.tape.label_valid.any()
    other = trained(run, tmp_path, monkeypatch, changed_from(rows.end_row))
    assert differences(whole, other) == set()
    # The comparison can fail: one row earlier is a row of the window.
    inside = trained(run, tmp_path, monkeypatch, changed_from(rows.end_row - 1))
    assert {"book", "features", "mean", "sd", "labels", "params"} <= differences(whole, inside)


def test_every_train_label_is_known_a_latency_before_the_test_window(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, fold = source[0], source[0].fold(0)
    tape = trained(run, tmp_path, monkeypatch, open_cache).learner.tape
    cache, config = open_cache(run.cache_dir), run.config
    for column, horizon in enumerate(config.data.horizons):
        newest = int(tape.label_valid[:, column].nonzero().max())
        read = fold.train.start_row + newest + horizon * config.data.decision_rows
        assert read < fold.train.end_row
        assert cache.ts_ns[read] + config.market.latency_ns < fold.test.start_ns


def untrained(run: Run, directory: Path) -> Checkpoint:
    """A checkpoint of a fold before its first step, with large weights.

    Those of a fresh agent are so small that its policy hardly depends on what it sees.
    """
    training = open_training(run, 0, directory)
    stored = sections(training.learner, training.state, training.normaliser)
    arrays = {name: value for name, value in stored.items() if isinstance(value, np.ndarray)}
    lively = np.random.default_rng(5).normal(scale=0.4, size=arrays["params"].shape)
    return Checkpoint(directory, 0, {**arrays, "params": lively.astype(np.float32)})


def decided(run: Run, checkpoint: Checkpoint) -> Decisions:
    """What the untrained agent decides in the test window."""
    evaluation = Evaluation(run, 0, checkpoint, no_progress)
    return evaluation.agent_account(checkpoint.array("params", dtype=np.float32), "agent").decisions


def elsewhere(run: Run, cache: Cache) -> Run:
    """The run on another cache; its windows keep their times."""
    test = run.fold(0).test
    end_row = int(np.searchsorted(cache.ts_ns, test.end_ns))
    fold = FoldRows(train=run.fold(0).train, test=test.model_copy(update={"end_row": end_row}))
    return run.model_copy(update={"cache_dir": cache.path, "folds": (fold, *run.folds[1:])})


def require_same_decisions(one: Decisions, other: Decisions, ts_ns: int) -> None:
    """All decisions up to `ts_ns`, and what all but the last of them earned."""
    num = int(np.searchsorted(one.ts_ns, ts_ns, side="right"))
    assert num > 20
    for name in ("ts_ns", "action", "ordered", "entropy", "num_feasible", "in_market", "tile"):
        # Whether a fill of the newest decision came is known later.
        until = num - 1 if name == "in_market" else num
        assert np.array_equal(getattr(one, name)[:until], getattr(other, name)[:until]), (
            f"{name} saw later rows"
        )
    assert np.array_equal(one.pnl_ticks[: num - 1], other.pnl_ticks[: num - 1]), "pnl_ticks saw later rows"


def test_records_behind_a_decision_change_no_decision_of_the_evaluation_up_to_it(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, records = source
    checkpoint = untrained(run, tmp_path)
    one = decided(run, checkpoint)
    free = np.flatnonzero(one.num_feasible > 2)  # the agent has a choice at that row
    ts_ns = int(one.ts_ns[free[len(free) // 2]])
    file = write_records(tmp_path / "changed.dbn", changed_after(records, ts_ns, seed=3))
    other = elsewhere(run, build_cache(run.config, file, tmp_path / "cache"))
    found = decided(other, checkpoint)
    require_same_decisions(one, found, ts_ns)
    assert not np.array_equal(one.entropy, found.entropy), "later decisions differ"
    assert len(np.unique(one.action)) > 3

    require_leak_is_caught(run, other, checkpoint, ts_ns, monkeypatch)


def require_leak_is_caught(
    run: Run, other: Run, checkpoint: Checkpoint, ts_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison can fail: here the agent observes one decision ahead."""
    ahead = run.config.data.decision_rows

    def foresee(tape: Tape, cursor: torch.Tensor, window_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        return observe(tape, (cursor + ahead).clamp(max=len(tape.ts_ns) - 1), window_rows)

    monkeypatch.setattr(evaluate_module, "observe", foresee)
    one, found = decided(run, checkpoint), decided(other, checkpoint)
    with pytest.raises(AssertionError, match="saw later rows"):
        require_same_decisions(one, found, ts_ns)
