"""Sampling from the replay against its exact expectation, and the priorities written back."""

import bisect
from collections import Counter
from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from trainer.config import Config
from trainer.learn.random import Stream, uniform
from trainer.learn.replay import PRIORITY_ONE, Replay, _drawn, empty_replay, reprioritized, sample
from trainer.learn.tree import leaves
from trainer.presets import demo

CPU = torch.device("cpu")


def configured(lanes: int = 4, capacity: int = 64, prioritized: bool = True) -> Config:
    learn = {"n_step": 3, "n_backtests": lanes, "per_capacity": capacity, "prioritized": prioritized}
    return demo().replaced(agent={"hidden": 8, "buckets": (4, 2, 2)}, learn=learn)


def filled_with(priorities: list[int], **options: bool) -> tuple[Replay, Config]:
    config = configured(lanes=1, capacity=len(priorities), **options)
    replay, _ = empty_replay(config, CPU)
    priority = torch.tensor(priorities)
    replay.rows[: len(priorities), 0] = torch.arange(float(len(priorities)))
    return replay._replace(priority=priority, filled=(priority > 0).sum()), config


def drawn(replay: Replay, config: Config, count: int, steps: int) -> Counter[int]:
    found: Counter[int] = Counter()
    for step in range(steps):
        noise = uniform(torch.tensor(0), torch.tensor(step), Stream.REPLAY, (count,))
        found.update(sample(replay, noise, torch.tensor(0.4), config).slot.tolist())
    return found


PRIORITIES = [0, 1000, 3000, 0, 0, 12_000, 500, 65_536, 1, 40_000, 0, 7, 90_000, 2, 5000, 0]


@pytest.mark.parametrize("count", [7, 64])
def test_sampling_is_proportional_to_priority(count: int) -> None:
    replay, config = filled_with(PRIORITIES)
    steps = max(7_000 // count, 300)
    found = drawn(replay, config, count, steps)
    assert all(PRIORITIES[index] > 0 for index in found), "an empty slot was drawn"
    likely = [i for i, p in enumerate(PRIORITIES) if p >= 500]
    expected = np.array([PRIORITIES[i] for i in likely]) / sum(PRIORITIES) * count * steps
    counts = np.array([found[i] for i in likely])
    # Strata only lower the variance below the multinomial's, so the chi-square bound holds for all counts.
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2(len(likely) - 1).isf(1e-3)


def test_strata_give_each_slot_its_whole_share_in_every_batch() -> None:
    priorities = [4, 0, 2, 1, 0, 8, 0, 1]  # 16 in all: with 16 strata every unit is drawn exactly once
    replay, config = filled_with(priorities)
    for step in range(10):
        noise = uniform(torch.tensor(1), torch.tensor(step), Stream.REPLAY, (16,))
        index = sample(replay, noise, torch.tensor(0.4), config).slot
        assert index.bincount(minlength=8).tolist() == priorities


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=20).filter(any), st.integers(1, 9))
def test_over_all_draws_a_slot_comes_exactly_as_often_as_its_priority(
    priorities: list[int], count: int
) -> None:
    sums, total = torch.tensor(priorities).cumsum(0), sum(priorities)
    edges = [part * total // count for part in range(count + 1)]
    width = torch.tensor(edges[1:]) - torch.tensor(edges[:-1])
    found = torch.zeros(len(priorities), dtype=torch.int64)
    for unit in range(int(width.max())):  # one draw for every unit of priority of every stratum
        draws = ((unit + 0.5) / width.clamp(min=1)).clamp(max=1.0 - 2.0**-24).float()
        slots = _drawn(sums, draws)
        found += slots[unit < width].bincount(minlength=len(priorities))
    assert found.tolist() == priorities


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(st.integers(0, 1 << 31), min_size=1, max_size=12).filter(any),
    st.sampled_from([1, 1 << 10, 1 << 24]),
    st.sampled_from([1, 7, 1024, 4096]),
    st.integers(0, 10_000),
)
@example([1 << 31] * 12, 1 << 24, 4096, 0)
@example([1 << 31, 0, 1, 1 << 31], 1 << 24, 1024, 1)
def test_no_buffer_however_large_and_full_of_the_largest_priority_leaves_exact_integers(
    priorities: list[int], repeated: int, count: int, seed: int
) -> None:
    # Each number stands for that many neighbours of equal priority: up to 2^28 slots at 2^31, times 4096.
    blocks = [priority * repeated for priority in priorities]
    sums, total = list(accumulate(blocks)), sum(blocks)
    draws = torch.rand(count, generator=torch.Generator().manual_seed(seed)).clamp(1e-7, 1.0 - 2.0**-24)
    expected = []
    for part, draw in enumerate(draws.tolist()):
        low, high = part * total // count, (part + 1) * total // count
        expected.append(bisect.bisect_right(sums, low + int(draw * float(high - low))))
    assert _drawn(torch.tensor(sums), draws).tolist() == expected


def test_a_long_draw_without_strata_fits_the_priorities_neither_badly_nor_too_well() -> None:
    rng = np.random.default_rng(2)
    priorities = (rng.lognormal(0.0, 1.0, 80) * PRIORITY_ONE).astype(np.int64)
    sums, num = torch.from_numpy(priorities).cumsum(0), 8_000
    noise = uniform(torch.tensor(3), torch.tensor(17), Stream.REPLAY, (num,))
    slots = torch.cat([_drawn(sums, draw) for draw in noise.split(1)])  # one draw, one stratum
    expected = priorities / priorities.sum() * num
    assert expected.min() > 4
    counts = slots.bincount(minlength=80).numpy()
    chi2 = stats.chi2(79)
    assert chi2.isf(0.999) < ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-3)


@pytest.mark.parametrize("noise", [1e-7, 0.5, 1.0 - 2.0**-24])
def test_the_edges_of_the_unit_interval_stay_in_range(noise: float) -> None:
    replay, config = filled_with([0, 0, 3, 1 << 31, 0, 1, 0, 0])
    for count in (1, 5, 1024):
        batch = sample(replay, torch.full((count,), noise), torch.tensor(0.4), config)
        assert set(batch.slot.tolist()) <= {2, 3, 5}
        assert torch.isfinite(batch.weight).all()


def test_without_priorities_filled_slots_are_drawn_alike_with_weight_one() -> None:
    replay, config = filled_with(PRIORITIES, prioritized=False)
    found = drawn(replay, config, 11, 500)
    assert set(found) == {i for i, p in enumerate(PRIORITIES) if p > 0}
    assert set(found.values()) == {500}
    batch = sample(replay, torch.full((11,), 0.5), torch.tensor(1.0), config)
    torch.testing.assert_close(batch.weight, torch.ones(11))


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_importance_weights_undo_the_priorities(beta: float) -> None:
    replay, config = filled_with(PRIORITIES)
    batch = sample(
        replay, torch.rand(64, generator=torch.Generator().manual_seed(0)), torch.tensor(beta), config
    )
    chance = torch.tensor(PRIORITIES)[batch.slot] / sum(PRIORITIES)
    raw = (int(replay.filled) * chance) ** -beta
    torch.testing.assert_close(batch.weight, raw / raw.max(), rtol=1e-5, atol=0)
    assert batch.weight.max() == 1


def test_an_empty_buffer_gives_zero_weights_and_finite_rows() -> None:
    config = configured()
    replay, _ = empty_replay(config, CPU)
    batch = sample(replay, torch.rand(16), torch.tensor(0.4), config)
    assert batch.weight.tolist() == [0.0] * 16
    assert all(torch.isfinite(t.float()).all() for _, t in leaves(batch))
    assert batch.feasible[:, 0].all()
    assert batch.next_feasible[:, 0].all()
    after = reprioritized(replay, batch.slot, torch.full((16,), 7.0), torch.tensor(1.0))
    assert not after.priority.any()
    assert torch.equal(after.max_priority, replay.max_priority)


def test_duplicates_write_the_largest_priority_whatever_their_order() -> None:
    replay, _ = filled_with([100_000] * 8)
    index, error = torch.tensor([3, 5, 3, 3, 5, 0]), torch.tensor([0.2, 4.0, 2.0, 0.9, 1.0, 0.5])
    expected = [PRIORITY_ONE // 2] + [100_000] * 7
    expected[3], expected[5] = 2 * PRIORITY_ONE, 4 * PRIORITY_ONE
    for seed in range(6):
        order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
        found = reprioritized(replay, index[order], error[order], torch.tensor(1.0))
        assert found.priority.tolist() == expected


@pytest.mark.parametrize("alpha", [0.2, 0.4, 0.8, 1.0])
def test_priorities_are_stored_to_the_power_alpha(alpha: float) -> None:
    error = torch.tensor([0.01, 0.3, 1.0, 2.5, 40.0])
    found = reprioritized(filled_with([1] * 8)[0], torch.arange(5), error, torch.tensor(alpha))
    expected = error.double() ** alpha * PRIORITY_ONE
    torch.testing.assert_close(found.priority[:5].double(), expected, rtol=1e-5, atol=1.0)
    assert found.priority[5:].tolist() == [1] * 3


@pytest.mark.parametrize("error", [0.0, float("nan"), float("inf"), 1e30])
def test_no_error_empties_a_slot_or_overflows_the_sum(error: float) -> None:
    replay, config = filled_with([1] * 8)
    found = reprioritized(replay, torch.arange(8), torch.full((8,), error), torch.tensor(1.0))
    assert (found.priority > 0).all()
    assert (found.priority <= 1 << 31).all()
    batch = sample(found, torch.rand(32), torch.tensor(0.4), config)
    assert torch.isfinite(batch.weight).all()
