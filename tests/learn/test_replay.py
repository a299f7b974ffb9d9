"""The n-step rings and the replay buffer against loops over lanes; sampling against its exact expectation."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainer.config import Config
from trainer.learn.replay import (
    PRIORITY_ONE,
    SCALARS,
    Replay,
    completed,
    discounted_returns,
    empty_replay,
    entered,
    flushed,
    pack_mask,
    reprioritized,
    row_width,
    sample,
    unpack_mask,
    write,
    write_slots,
)
from trainer.presets import demo
from trainer.types import NUM_ACTIONS, NUM_CONTEXT

CPU = torch.device("cpu")
GAMMA = 0.9
D = 8


def configured(n_step: int = 3, lanes: int = 4, capacity: int = 64, prioritized: bool = True) -> Config:
    learn = {"n_step": n_step, "n_backtests": lanes, "per_capacity": capacity, "prioritized": prioritized}
    return demo().replaced(agent={"hidden": D, "buckets": (4, 2, 2)}, learn=learn)


@dataclass
class Expected:
    """What a loop over one lane says: (decided step, return, discount, next step or None)."""

    n: int
    pending: list[tuple[int, float]] = field(default_factory=list)
    out: list[tuple[int, float, float, int | None]] = field(default_factory=list)

    def advance(self, step: int, reward: float, truncated: bool) -> None:
        if len(self.pending) == self.n:
            total = sum(GAMMA**k * r for k, (_, r) in enumerate(self.pending))
            self.out.append((self.pending.pop(0)[0], total, GAMMA**self.n, step))
        self.pending.append((step, reward))
        while truncated and self.pending:
            total = sum(GAMMA**k * r for k, (_, r) in enumerate(self.pending))
            self.out.append((self.pending.pop(0)[0], total, 0.0, None))


def mask_of(step: int, lane: int) -> int:
    return (step * 37 + lane * 11) % (1 << NUM_ACTIONS)


def observed(step: int, lanes: int) -> tuple[Tensor, Tensor, Tensor]:
    """`h, context, feasible` of a step that name their step and lane."""
    h, context = torch.zeros(lanes, D), torch.zeros(lanes, NUM_CONTEXT)
    h[:, 0], h[:, 1] = step, torch.arange(lanes)
    context[:, 0], context[:, 1] = step, torch.arange(lanes)
    feasible = unpack_mask(torch.tensor([float(mask_of(step, lane)) for lane in range(lanes)]))
    return h, context, feasible


def play(
    config: Config, truncated: np.ndarray, rewards: np.ndarray
) -> tuple[Replay, list[Tensor], list[Expected]]:
    """Drives rings and buffer as a step does; also all transitions in order, and the loop's answer."""
    learn, gamma = config.learn, torch.tensor(GAMMA)
    replay, ring = empty_replay(config, CPU)
    written, expected = [], [Expected(learn.n_step) for _ in range(learn.n_backtests)]
    for t in range(len(truncated)):
        step, (h, context, feasible) = torch.tensor(t), observed(t, learn.n_backtests)
        ready_rows, ready = completed(ring, step, h, context, feasible, gamma)
        reward = torch.tensor(rewards[t], dtype=torch.float32)
        action = torch.full_like(reward, float(t % NUM_ACTIONS))
        scalars = torch.stack([reward, -reward, action, pack_mask(feasible), torch.ones_like(reward)], -1)
        ring = entered(ring, step, h, context, scalars)
        flush_rows, flush, ring = flushed(ring, step, torch.tensor(truncated[t]), gamma)
        rows = torch.cat([ready_rows, flush_rows]).flatten(0, 1)
        valid = torch.cat([ready, flush]).flatten()
        before = int(replay.filled)
        replay = write(replay, rows, valid)
        assert int(replay.filled) == min(before + int(valid.sum()), learn.per_capacity)
        written += list(rows[valid])
        for lane, loop in enumerate(expected):
            loop.advance(t, float(rewards[t, lane]), bool(truncated[t, lane]))
    return replay, written, expected


def column(row: Tensor, name: str) -> float:
    return row[len(row) - len(SCALARS) + SCALARS.index(name)].item()


@st.composite
def games(draw: st.DrawFn) -> tuple[Config, np.ndarray, np.ndarray]:
    n_step, lanes, steps = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 20))
    seed, share = draw(st.integers(0, 10_000)), draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    rng = np.random.default_rng(seed)
    config = configured(n_step, lanes, draw(st.sampled_from([4, 16, 64])))
    return config, rng.random((steps, lanes)) < share, rng.normal(size=(steps, lanes))


@settings(deadline=None, max_examples=50, derandomize=True)
@given(games())
def test_every_decision_becomes_exactly_the_transition_of_the_loop(
    game: tuple[Config, np.ndarray, np.ndarray],
) -> None:
    config, truncated, rewards = game
    _, written, expected = play(config, truncated, rewards)
    found = {(int(row[0]), int(row[1])): row for row in written}
    assert len(found) == len(written), "a decision was stored twice"
    answers = {(out[0], lane): out[1:] for lane, loop in enumerate(expected) for out in loop.out}
    assert set(found) == set(answers)
    for (step, lane), (returns, discount, next_step) in answers.items():
        row = found[step, lane]
        assert column(row, "returns") == pytest.approx(returns, abs=1e-5)
        assert column(row, "discount") == pytest.approx(discount, abs=1e-6)
        assert column(row, "cut") == (next_step is None)
        assert column(row, "reward") == pytest.approx(rewards[step, lane], abs=1e-6)
        assert column(row, "log_prob") == -column(row, "reward")
        assert column(row, "action") == step % NUM_ACTIONS
        assert column(row, "feasible") == mask_of(step, lane)
        h, next_h, context, next_context = row[: -len(SCALARS)].split([D, D, NUM_CONTEXT, NUM_CONTEXT])
        assert context[:2].tolist() == h[:2].tolist() == [step, lane]
        if next_step is None:
            assert not next_h.any()
            assert not next_context.any()
            assert column(row, "next_feasible") == 0
        else:
            assert next_h[:2].tolist() == next_context[:2].tolist() == [next_step, lane]
            assert column(row, "next_feasible") == mask_of(next_step, lane)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(games())
def test_the_buffer_holds_the_newest_transitions_in_order_of_writing(
    game: tuple[Config, np.ndarray, np.ndarray],
) -> None:
    config, truncated, rewards = game
    replay, written, _ = play(config, truncated, rewards)
    capacity = config.learn.per_capacity
    assert int(replay.filled) == min(len(written), capacity)
    assert int(replay.head) == len(written) % capacity
    slots = {(i % capacity): row for i, row in enumerate(written)}  # later ones overwrite
    for slot, row in slots.items():
        assert torch.equal(replay.rows[slot], row), f"slot {slot}"
    assert (replay.priority > 0).nonzero().flatten().tolist() == sorted(slots)
    assert not replay.rows[:capacity][[i for i in range(capacity) if i not in slots]].any()


def rows_of(values: list[float], config: Config) -> Tensor:
    return torch.tensor(values)[:, None].expand(-1, row_width(config)).contiguous()


def test_more_transitions_than_the_buffer_holds_keep_the_newest() -> None:
    # All lanes truncated at once flush (n + 1) B transitions: more than N = B slots.
    config = configured(n_step=3, lanes=4, capacity=4)
    replay = write(
        empty_replay(config, CPU)[0], rows_of([9.0, 9.0, 9.0], config), torch.ones(3, dtype=torch.bool)
    )
    values = [float(i) for i in range(16)]
    valid = torch.tensor([i % 3 != 2 for i in range(16)])  # 11 of 16: 0 1 3 4 6 7 9 10 12 13 15
    replay = write(replay, rows_of(values, config), valid)
    assert int(replay.head) == (3 + 11) % 4
    assert int(replay.filled) == 4
    oldest_first = torch.roll(replay.rows[:4, 0], -int(replay.head)).tolist()
    assert oldest_first == [10.0, 12.0, 13.0, 15.0]


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.sampled_from([1, 4, 16]), st.integers(0, 15))
def test_no_two_rows_are_written_to_one_slot(valid: list[bool], capacity: int, head: int) -> None:
    mask = torch.tensor(valid)
    slots = write_slots(torch.tensor(head % capacity), mask.long().cumsum(0), mask, capacity)
    assert len(slots.unique()) == len(valid)
    assert slots.max() < capacity + len(valid)
    assert (slots < capacity).sum() == min(sum(valid), capacity)
    assert (slots[~mask] >= capacity).all()


def test_nothing_valid_writes_nothing() -> None:
    config = configured()
    before = write(empty_replay(config, CPU)[0], rows_of([1.0, 2.0], config), torch.ones(2, dtype=torch.bool))
    stored = before.rows[: config.learn.per_capacity].clone()
    after = write(before, rows_of([5.0, 6.0, 7.0], config), torch.zeros(3, dtype=torch.bool))
    assert torch.equal(after.rows[: config.learn.per_capacity], stored)
    for name in ("priority", "head", "filled", "max_priority"):
        assert torch.equal(getattr(after, name), getattr(before, name)), name


def test_new_transitions_enter_with_the_running_maximum_priority() -> None:
    config = configured()
    replay = write(empty_replay(config, CPU)[0], rows_of([0.0] * 3, config), torch.ones(3, dtype=torch.bool))
    assert replay.priority[:3].tolist() == [PRIORITY_ONE] * 3
    replay = reprioritized(replay, torch.tensor([1]), torch.tensor([5.0]), torch.tensor(1.0))
    replay = write(replay, rows_of([0.0], config), torch.ones(1, dtype=torch.bool))
    assert replay.priority[:4].tolist() == [PRIORITY_ONE, 5 * PRIORITY_ONE, PRIORITY_ONE, 5 * PRIORITY_ONE]
    lowered = reprioritized(replay, torch.tensor([1, 3]), torch.tensor([0.5, 0.5]), torch.tensor(1.0))
    assert int(lowered.max_priority) == 5 * PRIORITY_ONE


def test_returns_discount_later_rewards_only() -> None:
    found = discounted_returns(torch.tensor([[1.0, 0.0], [2.0, 4.0], [4.0, 0.0]]), torch.tensor(0.5))
    assert found.tolist() == [[3.0, 2.0], [4.0, 4.0], [4.0, 0.0]]


def test_all_2048_masks_survive_packing() -> None:
    packed = torch.arange(1 << NUM_ACTIONS, dtype=torch.float32)
    masks = unpack_mask(packed)
    assert masks.unique(dim=0).shape == (1 << NUM_ACTIONS, NUM_ACTIONS)
    assert torch.equal(pack_mask(masks), packed)
    single = pack_mask(torch.eye(NUM_ACTIONS, dtype=torch.bool))
    assert single.tolist() == [2.0**i for i in range(NUM_ACTIONS)]


def test_a_sample_gives_back_the_parts_of_its_row() -> None:
    config = configured(n_step=2, lanes=2, capacity=8)
    replay, written, _ = play(config, np.zeros((6, 2), bool), np.arange(12.0).reshape(6, 2))
    batch = sample(replay, torch.rand(8), torch.tensor(0.4), config)
    assert sorted(batch.slot.tolist()) == list(range(8))
    for i, slot in enumerate(batch.slot.tolist()):
        row = written[slot]
        h, next_h, context, next_context = row[: -len(SCALARS)].split([D, D, NUM_CONTEXT, NUM_CONTEXT])
        assert torch.equal(batch.x[i], torch.cat([h, context]))
        assert torch.equal(batch.next_x[i], torch.cat([next_h, next_context]))
        assert batch.action[i].item() == column(row, "action")
        for name in ("returns", "discount", "log_prob"):
            assert getattr(batch, name)[i].item() == column(row, name)
        assert not batch.cut[i]
        hold = 1  # always feasible
        assert pack_mask(batch.feasible[i]).item() == int(column(row, "feasible")) | hold
        assert pack_mask(batch.next_feasible[i]).item() == int(column(row, "next_feasible")) | hold
