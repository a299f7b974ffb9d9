"""NaN, infinities, 1e38 and denormals at every entrance of a step; extreme rewards, lanes and replays.

What holds: weights, moments, target, bus and lanes stay finite; an update that cannot be trusted is skipped
and counted; what is damaged in the replay is overwritten in time, and learning goes on.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.step import new_runner, random_walk_tape
from tests.learn.small import SMALL_AGENT
from trainer.config import Config
from trainer.learn.adapt import adapt
from trainer.learn.replay import PRIORITY_ONE, reprioritized
from trainer.learn.ring import SCALARS
from trainer.learn.runner import Runner
from trainer.learn.state import TrainState
from trainer.learn.step import Parts, step
from trainer.learn.tree import leaves, rebuild, structure
from trainer.market.tape import Tape
from trainer.presets import INSTRUMENTS, demo
from trainer.types import Action

CPU = torch.device("cpu")
N, CAPACITY = 2, 16
POISONS = [math.nan, math.inf, -math.inf, 1e38, -1e38, 1e-42]
HOLDS_TRANSITIONS = ("ring.", "replay.rows", "records")


def small(**rules: Any) -> Config:
    learn = {"n_backtests": 8, "per_capacity": CAPACITY, "batch_size": 16, "n_step": N}
    return demo().replaced(data={"window_rows": 3}, agent=SMALL_AGENT, learn=learn | rules)


def runner_on(config: Config, change: Callable[[Tape], Tape] = lambda tape: tape) -> Runner:
    torch.set_num_threads(1)
    return new_runner(config, INSTRUMENTS["ES"], change(random_walk_tape(config, 1200, CPU)))


def advanced(runner: Runner, steps: int) -> Runner:
    for _ in range(steps):
        runner.advance()
    return runner


def broken(state: TrainState, but: tuple[str, ...] = ("records",)) -> list[str]:
    """Names of tensors that are not finite."""
    floats = [(name, t) for name, t in leaves(state) if t.is_floating_point() and not name.startswith(but)]
    return [name for name, tensor in floats if not tensor.isfinite().all()]


def count(runner: Runner, name: str) -> int:
    return int(runner.learner.slots.read_counts(runner.state.counts)[name])


def slot(runner: Runner, name: str) -> float:
    return float(runner.learner.slots.read(runner.state.bus)[name])


COLUMNS = ["returns", "log_prob", "discount", "h", "context"]


def poison_replay(runner: Runner, column: str, value: float) -> None:
    rows, hidden = runner.state.replay.rows, runner.learner.config.agent.hidden
    where = {"h": 0, "context": 2 * hidden}.get(column)
    if where is None:
        where = rows.shape[1] - len(SCALARS) + SCALARS.index(column)
    rows[:CAPACITY, where] = value


@pytest.fixture(scope="module")
def warm() -> Runner:
    """7 steps in, the replay full; not to be advanced. Rates of two groups are left to themselves."""
    return advanced(runner_on(small(decaying_rates=("bce", "q", "v"))), 7)


def copied(runner: Runner) -> Runner:
    shape, tensors = structure(runner.state), [tensor.clone() for _, tensor in leaves(runner.state)]
    return Runner(runner.learner, rebuild(shape, tensors))


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("value", POISONS)
def test_a_damaged_replay_never_reaches_the_weights_and_is_forgotten(
    column: str, value: float, warm: Runner
) -> None:
    runner = copied(warm)
    poison_replay(runner, column, value)
    damaged = advanced(runner, 1).state.params.clone()
    assert broken(runner.state, HOLDS_TRANSITIONS) == []
    advanced(runner, CAPACITY // 8)  # every slot is written anew
    skipped = count(runner, "skipped_updates")
    assert broken(runner.state) == []
    advanced(runner, 1)
    assert count(runner, "skipped_updates") == skipped, "still skipping after the damage is gone"
    assert not torch.equal(runner.state.params, damaged)
    # A probability is only compared with: the ratio's clamp stops the absurd, and a NaN has no slope there.
    assert (skipped == 0) == (value == 1e-42 or column == "log_prob")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30])
def test_a_gradient_that_is_not_finite_moves_no_weight_and_nothing_else_notices(
    value: float, warm: Runner
) -> None:
    def poisoned(learner: Any, state: Any, grad: Tensor, *rest: Any) -> Any:
        return adapt(learner, state, grad.index_fill(0, torch.tensor([3]), value), *rest)

    runner = copied(warm)
    rows = runner.state.replay.rows.clone()
    healthy = step(runner.learner, runner.state, Parts())
    written = runner.state.replay.rows.clone()
    runner.state.replay.rows.copy_(rows)
    skipped = step(runner.learner, runner.state, Parts(adapt=poisoned))
    for name in ("params", "adam_m", "adam_v", "adam_step"):
        assert torch.equal(getattr(skipped, name), getattr(runner.state, name)), name
        assert not torch.equal(getattr(healthy, name), getattr(runner.state, name)), name
    assert torch.equal(runner.state.replay.rows, written)
    different = {
        name
        for (name, one), (_, other) in zip(leaves(healthy), leaves(skipped), strict=True)
        if not torch.equal(one, other)
    }
    assert different == {"params", "adam_m", "adam_v", "adam_step", "target", "counts", "records"}
    names = runner.learner.slots.count_index
    assert int(skipped.counts[names["skipped_updates"]]) == 1
    assert broken(skipped) == []


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(st.floats(width=32) | st.sampled_from([*POISONS, 0.0]), min_size=1, max_size=8),
    st.floats(width=32),
)
def test_any_td_error_and_any_exponent_give_a_priority_that_can_be_summed(
    warm: Runner, errors: list[float], alpha: float
) -> None:
    replay = warm.state.replay
    slots = torch.arange(len(errors))
    exponent = torch.tensor(0.0 if math.isnan(alpha) else alpha).clamp(0.0, 1.0)
    found = reprioritized(replay, slots, torch.tensor(errors), exponent)
    assert (found.priority[: len(errors)] >= 1).all()
    assert (found.priority <= 1 << 31).all()
    assert 1 <= int(found.max_priority) <= 1 << 31
    unknown = ~torch.isfinite(torch.tensor(errors))
    assert (found.priority[: len(errors)][unknown] == PRIORITY_ONE).all(), "as a new transition"
    assert torch.equal(found.priority[len(errors) :], replay.priority[len(errors) :])


@pytest.mark.parametrize("value", [1e38, -1e38, 0.0])
def test_no_slot_of_the_bus_however_absurd_breaks_a_weight(value: float, warm: Runner) -> None:
    names = warm.learner.slots.count_index
    for name, index in warm.learner.slots.index.items():
        state = copied(warm).state
        state.bus[index] = value
        after = step(warm.learner, state, Parts())
        assert broken(after) == [], name
        assert (after.params - state.params).abs().max() < 0.1, f"{name}: Adam moves by about its rate"
        assert int(after.counts[names["skipped_updates"]]) == 0, name


def jumping(size: int) -> Callable[[Tape], Tape]:
    """Every other decision the whole book jumps by `size` ticks."""

    def change(tape: Tape) -> Tape:
        book = tape.book.clone()
        book[:, :, 0] += (size * (torch.arange(len(book)) // 8 % 2))[:, None, None].int()
        return tape._replace(
            book=book, bid_px=book[:, 0, 0], ask_px=book[:, 1, 0], bid_sz=book[:, 0, 1], ask_sz=book[:, 1, 1]
        )

    return change


@pytest.mark.parametrize("reward", ["marked_equity", "at_close"])
@pytest.mark.parametrize("size", [1_000_000, 1_000_000_000])
def test_rewards_of_a_million_ticks_are_scaled_and_learned_from(size: int, reward: str) -> None:
    runner = advanced(runner_on(small(reward=reward), jumping(size)), 30)
    assert broken(runner.state) == []
    assert count(runner, "skipped_updates") == 0
    assert count(runner, "trades") > 20
    assert slot(runner, "reward_scale") > size / 100
    assert not torch.equal(runner.state.params, runner_on(small()).state.params)


def frozen_book(tape: Tape) -> Tape:
    book = tape.book[:1].expand_as(tape.book).clone()
    return tape._replace(
        book=book, bid_px=book[:, 0, 0], ask_px=book[:, 1, 0], bid_sz=book[:, 0, 1], ask_sz=book[:, 1, 1]
    )


def only_hold(runner: Runner) -> Runner:
    """A policy that never trades, and cannot learn to within a few steps."""
    bias = runner.learner.agent.layout.unflatten(runner.state.params)["pi.bias"]
    bias[Action.HOLD] = 1e4
    return runner


def test_lanes_that_never_trade_earn_nothing_and_hold_every_controller_of_trades() -> None:
    runner = advanced(only_hold(runner_on(small())), 30)
    assert broken(runner.state) == []
    assert (count(runner, "trades"), count(runner, "skipped_updates")) == (0, 0)
    starts = runner.learner.slots.starts
    unmoved = ["ema.abs_trade", "ema.trade_duration", "ema.win", "gamma", "reward_scale", "atom_span"]
    assert {name: slot(runner, name) for name in unmoved} == pytest.approx({n: starts[n] for n in unmoved})
    assert slot(runner, "ema.order_share") == 0.0
    returns = runner.state.replay.rows[:CAPACITY, -len(SCALARS)]
    assert (returns == 0).all(), "all rewards are zero"
    assert not torch.equal(runner.state.params, only_hold(runner_on(small())).state.params)


def test_a_book_that_never_moves_costs_what_trading_costs_and_breaks_nothing() -> None:
    runner = runner_on(small(), frozen_book)
    # The loop's floor of a standard deviation; labels of such a market are zero.
    tape = runner.learner.tape
    flat = tape._replace(labels=torch.zeros_like(tape.labels))
    runner.learner = dataclasses.replace(runner.learner, tape=flat, move_sd=torch.full((3,), 1e-3))
    advanced(runner, 24)
    assert broken(runner.state) == []
    assert count(runner, "skipped_updates") == 0
    assert count(runner, "trades") > 20
    assert count(runner, "wins") == 0


def test_lanes_with_nothing_to_choose_still_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold_alone(*_: Any) -> Tensor:
        return (torch.arange(11) == Action.HOLD).expand(8, 11)

    monkeypatch.setattr("trainer.learn.rollout.feasible_actions", hold_alone)
    runner = advanced(runner_on(small()), 16)
    assert broken(runner.state) == []
    assert count(runner, "skipped_updates") == 0
    assert slot(runner, "ema.entropy") == 0.0, "no lane had a choice"
    assert slot(runner, "entropy_coef") == pytest.approx(0.035)
    rows = runner.state.replay.rows[:CAPACITY]
    assert (rows[:, SCALARS.index("log_prob") - len(SCALARS)] == 0).all(), "certain: log 1"
