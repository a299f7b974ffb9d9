"""The n-step rings against loops over lanes, under every rule that adds columns."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learn.transitions import CPU, GAMMA, D, column, configured, games, mask_of, play, row_of
from trainer.config import Config
from trainer.learn.replay import empty_replay, sample
from trainer.learn.ring import (
    SCALARS,
    discounted_returns,
    join_row,
    pack_mask,
    returns_until_close,
    row_width,
    scalar_names,
    split_row,
    unpack_mask,
)
from trainer.types import NUM_ACTIONS, NUM_CONTEXT


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


def test_returns_discount_later_rewards_only() -> None:
    found = discounted_returns(torch.tensor([[1.0, 0.0], [2.0, 4.0], [4.0, 0.0]]), torch.tensor(0.5))
    assert found.tolist() == [[3.0, 2.0], [4.0, 4.0], [4.0, 0.0]]


@settings(deadline=None, max_examples=80, derandomize=True)
@given(
    st.lists(
        st.tuples(st.floats(-(2.0**100), 2.0**100, width=32), st.booleans())
        | st.tuples(st.sampled_from([0.0, 1e-42, 1e6, -1e6, 1e30]), st.booleans()),
        min_size=1, max_size=16,
    ),
    st.sampled_from([0.0, 1e-20, 0.5, 0.9, 0.999, 1.0]),
)  # fmt: skip
def test_returns_equal_exact_fractions_at_any_size(
    decisions: list[tuple[float, bool]], discount: float
) -> None:
    rewards = torch.tensor([reward for reward, _ in decisions])[:, None]
    done = torch.tensor([closed for _, closed in decisions])[:, None]
    gamma = torch.tensor(discount)
    plain, (closing, closes) = discounted_returns(rewards, gamma), returns_until_close(rewards, done, gamma)
    exact, factor = [Fraction(value) for value in rewards[:, 0].tolist()], Fraction(gamma.item())
    for i in range(len(exact)):
        ends = [k for k in range(i, len(exact)) if done[k]]
        last = ends[0] if ends else len(exact) - 1
        assert closes[i].item() == bool(ends)
        for found, stop in ((plain[i], len(exact) - 1), (closing[i], last)):
            terms = [factor ** (k - i) * exact[k] for k in range(i, stop + 1)]
            size = float(sum(abs(term) for term in terms))
            # Each term is rounded at most twice at every row it passes through.
            assert found.item() == pytest.approx(float(sum(terms)), abs=2e-7 * len(terms) * size + 1e-44)


def test_all_2048_masks_survive_packing() -> None:
    packed = torch.arange(1 << NUM_ACTIONS, dtype=torch.float32)
    masks = unpack_mask(packed)
    assert masks.unique(dim=0).shape == (1 << NUM_ACTIONS, NUM_ACTIONS)
    assert torch.equal(pack_mask(masks), packed)
    single = pack_mask(torch.eye(NUM_ACTIONS, dtype=torch.bool))
    assert single.tolist() == [2.0**i for i in range(NUM_ACTIONS)]


def test_the_default_stores_no_column_that_only_other_rules_read() -> None:
    config = configured()
    assert scalar_names(config) == SCALARS
    assert empty_replay(config, CPU)[0].rows.shape[1] == row_width(config) == 2 * (D + NUM_CONTEXT) + 9
    assert empty_replay(config, CPU)[1].scalars.shape[-1] == 5


def until_close(rewards: list[float], done: list[bool]) -> tuple[float, bool]:
    """Sum of a decision's rewards up to its first close."""
    total = 0.0
    for k, (reward, closed) in enumerate(zip(rewards, done, strict=True)):
        total += GAMMA**k * reward
        if closed:
            return total, True
    return total, False


@settings(deadline=None, max_examples=40, derandomize=True)
@given(games(), st.sampled_from([0.0, 0.2, 1.0]))
def test_a_return_until_close_ends_with_the_first_close_and_leaves_the_plain_one_alone(
    game: tuple[Config, np.ndarray, np.ndarray], share: float
) -> None:
    plain, truncated, rewards = game
    config = plain.replaced(learn={"td_cut": "done"})
    names, n = scalar_names(config), config.learn.n_step
    done = np.random.default_rng(len(rewards)).random(rewards.shape) < share
    _, written, _ = play(config, truncated, rewards, done)
    _, without, _ = play(plain, truncated, rewards, done)
    assert len(written) == len(without)
    for row, other in zip(written, without, strict=True):
        step, lane = int(row[0]), int(row[1])
        later = list(range(step, min(step + n, len(rewards))))
        last = next((t for t in later if truncated[t, lane]), later[-1])
        own = [t for t in later if t <= last]
        total, closes = until_close([rewards[t, lane] for t in own], [bool(done[t, lane]) for t in own])
        assert column(row, "close_returns", names) == pytest.approx(total, abs=1e-5)
        assert column(row, "closes", names) == closes
        assert torch.equal(row[: len(other)], other), "the plain columns are those of the default"


def test_a_close_ends_the_sum_with_its_own_reward() -> None:
    rewards = torch.tensor([[1.0], [2.0], [4.0]])
    done = torch.tensor([[False], [True], [False]])
    returns, closes = returns_until_close(rewards, done, torch.tensor(0.5))
    assert returns.tolist() == [[2.0], [2.0], [4.0]]
    assert closes.tolist() == [[True], [True], [False]]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.lists(st.integers(0, 2**44 - 1), min_size=1, max_size=20))
def test_every_tape_row_survives_its_two_float_columns(rows: list[int]) -> None:
    high, low = split_row(torch.tensor(rows))
    assert high.dtype == low.dtype == torch.float32
    assert join_row(high, low).tolist() == rows


def test_a_sample_knows_the_rows_its_states_came_from() -> None:
    config = configured(n_step=2, lanes=2, capacity=16, encoder_rl=1.0)
    truncated = np.zeros((8, 2), bool)
    truncated[5, 1] = True
    replay, written, _ = play(config, truncated, np.zeros((8, 2)))
    batch = sample(replay, torch.rand(16), torch.tensor(0.0), config)
    ends = 0
    for i, slot in enumerate(batch.slot.tolist()):
        step, lane = (int(value) for value in written[slot][:2])
        assert batch.origin.row[i].item() == row_of(step, lane)  # type: ignore[union-attr]
        ends += int(batch.cut[i])
        expected = 0 if batch.cut[i] else row_of(step + 2, lane)
        assert batch.origin.next_row[i].item() == expected  # type: ignore[union-attr]
    assert 0 < ends < 16
