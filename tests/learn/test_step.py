"""One learning step: pure, deterministic, one encoder forward, blind to what lies ahead and outside."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.data.cache import Cache, open_cache
from trainer.data.windows import Window
from trainer.learn import loop
from trainer.learn.loop import Training, open_training
from trainer.learn.rollout import Acted, act, forward
from trainer.learn.run import Run
from trainer.learn.state import TrainState
from trainer.learn.step import Parts, step
from trainer.learn.tree import leaves, rebuild, structure
from trainer.market.tape import build_tape

Tiny = tuple[Run, Path]
Change = Callable[[dict[str, Any]], None]
COLUMNS = ("ts_ns", "bid_px", "ask_px", "bid_sz", "ask_sz", "features")


def copied(state: TrainState) -> TrainState:
    return rebuild(structure(state), [tensor.clone() for _, tensor in leaves(state)])  # type: ignore[no-any-return]


def differing(one: Any, other: Any) -> list[str]:
    """Names of leaves that differ in any bit; nan equals nan."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return [name for (name, a), (_, b) in pairs if a.numpy().tobytes() != b.numpy().tobytes()]


def changed_cache(cache: Cache, change: Change) -> Cache:
    columns = {name: np.array(getattr(cache, name)) for name in COLUMNS}
    change(columns)
    return dataclasses.replace(cache, **columns)


def poison(columns: dict[str, Any], rows: slice) -> None:
    """Other books, other times in the same order, features that would make everything nan."""
    rng = np.random.default_rng(3)
    count = len(columns["ts_ns"][rows])
    columns["features"][rows] = np.nan
    shift = rng.integers(-900, 900, (count, 1))
    for name in ("bid_px", "ask_px"):
        columns[name][rows] += shift
    for name in ("bid_sz", "ask_sz"):
        columns[name][rows] = rng.integers(1, 500, (count, 10))
    times = columns["ts_ns"][rows]
    times[:-1] += (np.diff(times) * rng.random(count - 1)).astype(np.int64)


@pytest.fixture
def training(tiny_run: Tiny, tmp_path: Path) -> Training:
    """Fold 0 of the tiny run, 12 steps in."""
    opened = open_training(tiny_run[0], 0, tmp_path)
    for _ in range(12):
        opened.runner.advance()
    return opened


def test_a_step_leaves_its_input_as_it_was_but_for_the_replay_rows(training: Training) -> None:
    before = copied(training.state)
    after = step(training.learner, training.state, Parts())
    assert set(differing(training.state, before)) <= {"replay.rows"}
    assert {"step", "params", "adam_m", "bus", "replay.priority", "records"} <= set(differing(after, before))
    assert int(after.step) == 13


def test_equal_states_give_equal_bits(training: Training) -> None:
    one, other = copied(training.state), copied(training.state)
    for _ in range(3):
        one = step(training.learner, one, Parts())
        other = step(training.learner, other, Parts())
    assert differing(one, other) == []


def test_a_step_runs_the_encoder_once(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    whole = Agent.encode

    def encode(self: Agent, w: Any, features: Tensor, *rest: Tensor) -> Tensor:
        calls.append(tuple(features.shape))
        return whole(self, w, features, *rest)

    monkeypatch.setattr(Agent, "encode", encode)
    step(training.learner, training.state, Parts())
    assert calls == [(16, 8, 40)]


@pytest.mark.parametrize(
    ("window", "lanes", "n", "capacity", "batch"),
    [(2, 1, 1, 1, 1), (5, 7, 3, 8, 9), (11, 3, 16, 64, 33), (64, 2, 1, 8, 4)],
)
def test_odd_sizes_run_and_stay_finite(
    tiny_run: Tiny, tmp_path: Path, window: int, lanes: int, n: int, capacity: int, batch: int
) -> None:
    learn = {"n_backtests": lanes, "n_step": n, "per_capacity": capacity, "batch_size": batch}
    config = tiny_run[0].config.replaced(data={"window_rows": window}, learn=learn)
    runner = open_training(tiny_run[0].model_copy(update={"config": config}), 0, tmp_path).runner
    for _ in range(n + 6):
        runner.advance()
    bad = [name for name, t in leaves(runner.state) if t.is_floating_point() and not t.isfinite().all()]
    assert [name for name in bad if name != "records"] == []
    # Every lane's decisions but its last n have become transitions.
    assert min(capacity, 6 * lanes) <= int(runner.state.replay.filled) <= capacity
    assert int(runner.state.counts[0]) == n + 6


def test_rows_outside_the_train_window_are_never_read(
    tiny_run: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, window = tiny_run[0], tiny_run[0].folds[1].train
    prefix = window.start_row - run.config.data.window_rows
    assert prefix > 0

    def outside(columns: dict[str, Any]) -> None:
        poison(columns, slice(0, prefix))
        poison(columns, slice(window.end_row, None))

    plain = open_training(run, 1, tmp_path)
    monkeypatch.setattr(loop, "open_cache", lambda path: changed_cache(open_cache(path), outside))
    poisoned = open_training(run, 1, tmp_path)
    for _ in range(20):
        plain.runner.advance()
        poisoned.runner.advance()
    assert differing(plain.state, poisoned.state) == []


def act_on(training: Training, cache: Cache, rows: Window, decisions: int) -> tuple[list[Acted], int]:
    """What lanes that all start on one row do, without learning, and the row of their last decision."""
    config = training.run.config
    tape = build_tape(cache, rows, training.normaliser, config, "cpu")
    learner = dataclasses.replace(training.learner, tape=tape)
    lanes = training.state.lanes._replace(
        cursor=tape.anchors[20].repeat(16), episode_left=torch.full((16,), 1000)
    )
    state, found = copied(training.state)._replace(lanes=lanes), []
    for _ in range(decisions):
        with torch.no_grad():
            fresh = forward(learner, state.params, state.lanes, state.bus)
            acted = act(learner, state, state.params, fresh)
        found.append(acted)
        last = int(state.lanes.cursor.max())
        state = state._replace(lanes=acted.lanes, ring=acted.ring, step=state.step + 1)
    return found, last


def test_no_row_after_a_decision_moves_its_action_or_anything_before(
    training: Training, tiny_run: Tiny
) -> None:
    rows, path = tiny_run[0].folds[0].train, training.run.cache_dir
    window = Window(rows.start_row, rows.end_row, rows.start_ns, rows.end_ns)
    whole, last = act_on(training, open_cache(path), window, 25)

    def after(columns: dict[str, Any]) -> None:
        poison(columns, slice(rows.start_row + last + 1, None))

    changed, same_last = act_on(training, changed_cache(open_cache(path), after), window, 25)
    assert last == same_last < 300, "the lanes must end well before the window does"
    for decision, (one, other) in enumerate(zip(whole, changed, strict=True)):
        assert torch.equal(one.outcome.executed, other.outcome.executed), f"action of decision {decision}"
        assert torch.equal(one.entropy, other.entropy), f"policy of decision {decision}"
    for decision, (one, other) in enumerate(zip(whole[:-1], changed[:-1], strict=True)):
        assert differing(one, other) == [], f"outcome of decision {decision}"
    assert differing(whole[-1].lanes, changed[-1].lanes) != [], "the rows behind were not changed at all"
    assert len(torch.stack([acted.outcome.executed for acted in whole]).unique()) >= 5
    assert sum(int(acted.outcome.done.sum()) for acted in whole) > 0
