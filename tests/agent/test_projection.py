"""C51's projection against the paper's loop: mass, mean and both ends of the support."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainer.agent.losses import project_distribution

F64 = torch.float64
ATOMS = torch.linspace(-4.0, 4.0, 21, dtype=F64)
fast = settings(deadline=None, max_examples=60, derandomize=True)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def looped_projection(
    probability: list[float], atoms: list[float], reward: float, discount: float
) -> list[float]:
    """Bellemare et al. 2017, algorithm 1, as printed."""
    low, spacing = atoms[0], atoms[1] - atoms[0]
    out = [0.0] * len(atoms)
    for p, z in zip(probability, atoms, strict=True):
        b = (min(max(reward + discount * z, low), atoms[-1]) - low) / spacing
        b = round(b) if abs(b - round(b)) < 1e-9 else b
        lower, upper = math.floor(b), math.ceil(b)
        if lower == upper:
            out[lower] += p
        else:
            out[lower] += p * (upper - b)
            out[upper] += p * (b - lower)
    return out


def project(probability: Tensor, reward: list[float], discount: list[float], atoms: Tensor = ATOMS) -> Tensor:
    return project_distribution(
        probability, atoms, torch.tensor(reward, dtype=atoms.dtype), torch.tensor(discount, dtype=atoms.dtype)
    )


@fast
@given(st.floats(-20, 20), st.floats(0, 1), st.integers(0, 1000))
def test_the_projection_equals_the_papers_loop_and_keeps_mass(
    reward: float, discount: float, seed: int
) -> None:
    probability = torch.softmax(randn(1, 21, seed=seed) * 3, -1)
    found = project(probability, [reward], [discount])
    expected = looped_projection(probability[0].tolist(), ATOMS.tolist(), reward, discount)
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-8)
    assert found.sum().item() == pytest.approx(1.0, abs=1e-9)
    assert (found >= 0).all()


EXTREMES = [0.0, 1e-42, -1e-42, 1e6, -1e6, 1e38, -1e38, math.inf, -math.inf]


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    st.integers(3, 51),
    st.sampled_from([1e-3, 1.0, 4.0, 12.0, 1e3]),
    st.one_of(st.floats(-3, 3), st.sampled_from(EXTREMES)),
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-42, 1.0])),
    st.sampled_from(["spread", "lowest", "highest", "both ends"]),
    st.integers(0, 1000),
)
def test_any_support_any_reward_and_mass_at_its_edges_equal_the_loop(
    num_atoms: int, span: float, reward: float, discount: float, mass: str, seed: int
) -> None:
    atoms = torch.linspace(-span, span, num_atoms, dtype=F64)
    probability = torch.softmax(randn(1, num_atoms, seed=seed) * 3, -1)
    if mass != "spread":
        probability = torch.zeros_like(probability)
        ends = {"lowest": [0], "highest": [-1], "both ends": [0, -1]}[mass]
        probability[0, ends] = 1.0 / len(ends)
    reward = reward * span  # in spans, so that it lands inside as often as outside
    found = project(probability, [reward], [discount], atoms)
    expected = looped_projection(probability[0].tolist(), atoms.tolist(), reward, discount)
    np.testing.assert_allclose(found[0].numpy(), expected, atol=2e-8)
    single = project_distribution(
        probability.float(), atoms.float(), torch.tensor([reward]), torch.tensor([discount])
    )
    np.testing.assert_allclose(single[0].numpy(), expected, atol=1e-4)
    assert single.sum().item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("end", [0, 20])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_mass_at_an_edge_stays_there_to_the_last_bit(end: int, dtype: torch.dtype) -> None:
    probability, atoms = torch.zeros(1, 21, dtype=dtype), ATOMS.to(dtype)
    probability[0, end] = 1.0
    outward = 1.0 if end else -1.0
    for reward, discount in ((0.0, 1.0), (outward, 1.0), (outward * 1e38, 0.9), (outward * 4.0, 0.0)):
        assert torch.equal(project(probability, [reward], [discount], atoms), probability), reward


def test_a_reward_between_two_atoms_is_split_by_distance() -> None:
    probability = torch.zeros(1, 21, dtype=F64)
    probability[0, 10] = 1.0  # all at 0
    found = project(probability, [0.3], [0.9])[0]  # atoms 0.4 apart: 3/4 to 0.4, 1/4 to 0
    assert found[10].item() == pytest.approx(0.25)
    assert found[11].item() == pytest.approx(0.75)


@pytest.mark.parametrize(("reward", "end"), [(100.0, 20), (-100.0, 0)])
def test_rewards_beyond_the_support_pile_up_at_its_end(reward: float, end: int) -> None:
    found = project(torch.full((1, 21), 1 / 21, dtype=F64), [reward], [0.99])[0]
    assert found[end].item() == pytest.approx(1.0)


def test_discount_zero_forgets_the_next_state() -> None:
    probability = torch.softmax(randn(2, 21), -1)
    found = project(probability, [1.2, 1.2], [0.0, 0.0])
    torch.testing.assert_close(found[0], found[1])
    assert found[0, 13].item() == pytest.approx(1.0)


def test_reward_zero_and_discount_one_is_the_identity() -> None:
    probability = torch.softmax(randn(3, 21), -1)
    torch.testing.assert_close(project(probability, [0.0] * 3, [1.0] * 3), probability)


def test_the_projection_keeps_the_mean_inside_the_support() -> None:
    probability = torch.softmax(randn(4, 21), -1)
    found = project(probability, [0.5, -0.7, 1.1, 0.0], [0.6] * 4)
    expected = torch.tensor([0.5, -0.7, 1.1, 0.0], dtype=F64) + 0.6 * (probability * ATOMS).sum(-1)
    torch.testing.assert_close((found * ATOMS).sum(-1), expected)


def test_the_projection_in_float32_keeps_mass_to_a_millionth() -> None:
    probability = torch.softmax(randn(256, 21).float(), -1)
    reward, discount = randn(256, seed=1).float() * 5, torch.full((256,), 0.95)
    found = project_distribution(probability, ATOMS.float(), reward, discount)
    torch.testing.assert_close(found.sum(-1), torch.ones(256), rtol=0, atol=2e-6)
