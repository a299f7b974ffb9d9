"""The replay buffer against a list of what was written; sampling gives the parts back."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.learn.transitions import CPU, D, column, configured, games, play
from trainer.config import Config
from trainer.learn.replay import PRIORITY_ONE, empty_replay, reprioritized, sample, write, write_slots
from trainer.learn.ring import SCALARS, pack_mask, row_width
from trainer.types import NUM_CONTEXT


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
