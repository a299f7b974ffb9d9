"""The SSD block equals its recurrence, is causal, and its decays never overflow."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from trainer.agent.ssd import decay_matrix, rms_norm, ssd_block, ssd_parameters
from trainer.config import AgentConfig, Config

Array = NDArray[np.float64]
MakeWeights = Callable[..., dict[str, Tensor]]


def silu(x: Array) -> Array:
    return x / (1.0 + np.exp(-x))


def recurrent_lane(w: dict[str, Array], x: Array, cfg: AgentConfig) -> Array:
    """One lane `[K, D]` row by row: s = exp(-a dt) s + dt key value^T, y = query s + skip value."""
    inner, heads, width = (
        cfg.hidden * cfg.ssd_expand,
        cfg.ssd_heads,
        cfg.hidden * cfg.ssd_expand // cfg.ssd_heads,
    )
    state = np.zeros((heads, cfg.ssd_state, width))
    out = []
    for row in x:
        normed = row / np.sqrt((row**2).mean() + 1e-6) * w["ssd0.norm"]
        projected = normed @ w["ssd0.in"]
        gate, value = projected[:inner], silu(projected[inner : 2 * inner]).reshape(heads, width)
        key = projected[2 * inner : 2 * inner + cfg.ssd_state]
        query = projected[2 * inner + cfg.ssd_state : 2 * inner + 2 * cfg.ssd_state]
        y = np.zeros((heads, width))
        for head in range(heads):
            raw = projected[2 * inner + 2 * cfg.ssd_state + head] + w["ssd0.dt_bias"][head]
            dt = math.log1p(math.exp(raw))
            state[head] *= math.exp(-math.exp(w["ssd0.log_a"][head]) * dt)
            state[head] += dt * np.outer(key, value[head])
            y[head] = query @ state[head] + w["ssd0.skip"][head] * value[head]
        out.append(row + (y.reshape(inner) * silu(gate)) @ w["ssd0.out"])
    return np.stack(out)


@pytest.mark.parametrize("num_rows", [1, 2, 8, 13, 64])
def test_the_block_equals_the_row_by_row_recurrence(
    config: Config, make_weights: MakeWeights, generator: torch.Generator, num_rows: int
) -> None:
    w = make_weights()
    x = torch.randn(3, num_rows, config.agent.hidden, generator=generator, dtype=torch.float64)
    found = ssd_block(w, "ssd0", x, config.agent)
    plain = {name: value.numpy() for name, value in w.items()}
    expected = np.stack([recurrent_lane(plain, lane, config.agent) for lane in x.numpy()])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-10)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(2, 6), st.integers(1, 3), st.integers(1, 5)),
    st.sampled_from([(0.1, 1e-4), (0.4, 1.0), (2.0, 1e3), (0.4, 1e6), (1e-3, 0.0)]),
    st.integers(0, 10_000),
)
def test_any_shape_at_any_size_equals_the_recurrence(
    shape: tuple[int, int, int, int, int], sizes: tuple[float, float], seed: int
) -> None:
    lanes, rows, width, expand, state = shape
    cfg = AgentConfig(
        hidden=4 * width, buckets=(4 * width - 2, 1, 1), ssd_expand=expand, ssd_heads=4, ssd_state=state
    )
    generator = torch.Generator().manual_seed(seed)
    w = {
        p.name: torch.randn(p.shape, generator=generator, dtype=torch.float64) * sizes[0]
        for p in ssd_parameters("ssd0", cfg)
    }
    x = torch.randn(lanes, rows, cfg.hidden, generator=generator, dtype=torch.float64) * sizes[1]
    found = ssd_block(w, "ssd0", x, cfg).numpy()
    plain = {name: value.numpy() for name, value in w.items()}
    expected = np.stack([recurrent_lane(plain, lane, cfg) for lane in x.numpy()])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))


def test_float32_is_close_to_float64(
    config: Config, make_weights: MakeWeights, generator: torch.Generator
) -> None:
    x = torch.randn(2, 32, config.agent.hidden, generator=generator)
    single = ssd_block(make_weights(torch.float32), "ssd0", x, config.agent)
    double = ssd_block(make_weights(torch.float64), "ssd0", x.double(), config.agent)
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-4)


def test_decay_sums_the_rows_after_the_writer_up_to_the_reader() -> None:
    log_decay = -torch.tensor([[0.1, 0.2, 0.4, 0.8]], dtype=torch.float64)[..., None]  # [1, 4, 1]
    found = decay_matrix(log_decay)[0, 0]
    for i in range(4):
        for j in range(4):
            steps = log_decay[0, j + 1 : i + 1, 0].sum().item()
            assert found[i, j].item() == pytest.approx(math.exp(steps) if j <= i else 0.0, rel=1e-12), (i, j)


@pytest.mark.parametrize("size", [2e2, 1e6, 1e30])
def test_huge_decays_give_the_identity_with_finite_gradients(size: float) -> None:
    log_decay = torch.full((1, 32, 2), -size, requires_grad=True)
    decay = decay_matrix(log_decay)
    torch.testing.assert_close(decay, torch.eye(32).expand(1, 2, 32, 32), rtol=0, atol=0)
    (grad,) = torch.autograd.grad(decay.sum(), log_decay)
    assert torch.isfinite(grad).all()


def test_no_decay_gives_the_lower_triangle_of_ones() -> None:
    found = decay_matrix(torch.zeros(1, 5, 1))[0, 0]
    assert torch.equal(found, torch.ones(5, 5).tril())


@pytest.mark.parametrize("changed", [1, 5, 11])
def test_a_changed_row_moves_no_earlier_output(
    config: Config, make_weights: MakeWeights, generator: torch.Generator, changed: int
) -> None:
    w = make_weights(torch.float32)
    x = torch.randn(2, 12, config.agent.hidden, generator=generator)
    other = x.clone()
    other[:, changed] += 100.0
    before, after = ssd_block(w, "ssd0", x, config.agent), ssd_block(w, "ssd0", other, config.agent)
    assert torch.equal(before[:, :changed], after[:, :changed])
    assert (before[:, changed:] != after[:, changed:]).any(-1).all()


def test_lanes_do_not_mix(config: Config, make_weights: MakeWeights, generator: torch.Generator) -> None:
    w = make_weights(torch.float32)
    x = torch.randn(3, 6, config.agent.hidden, generator=generator)
    other = x.clone()
    other[1] += 1.0
    before, after = ssd_block(w, "ssd0", x, config.agent), ssd_block(w, "ssd0", other, config.agent)
    assert torch.equal(before[[0, 2]], after[[0, 2]])
    assert not torch.equal(before[1], after[1])


def test_gradients_of_input_and_weights_match_finite_differences(
    config: Config, make_weights: MakeWeights, generator: torch.Generator
) -> None:
    every = make_weights()
    names = [p.name for p in ssd_parameters("ssd0", config.agent)]
    x = torch.randn(1, 4, config.agent.hidden, generator=generator, dtype=torch.float64, requires_grad=True)
    tensors = [every[name].clone().requires_grad_() for name in names]

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        return ssd_block(dict(zip(names, weights, strict=True)), "ssd0", x, config.agent)

    assert torch.autograd.gradcheck(run, (x, *tensors), fast_mode=True)


def test_rms_norm_has_unit_mean_square_and_survives_zeros(generator: torch.Generator) -> None:
    x = torch.randn(5, 8, generator=generator, dtype=torch.float64) * 30.0
    found = rms_norm(x, torch.ones(8, dtype=torch.float64))
    torch.testing.assert_close(found.square().mean(-1), torch.ones(5, dtype=torch.float64), rtol=1e-5, atol=0)
    assert torch.equal(rms_norm(torch.zeros(1, 8), torch.ones(8)), torch.zeros(1, 8))


def test_first_step_sizes_spread_by_factors_of_four_over_heads(config: Config) -> None:
    bias = next(p for p in ssd_parameters("ssd0", config.agent) if p.name.endswith("dt_bias"))
    steps = torch.nn.functional.softplus(torch.tensor(bias.values, dtype=torch.float64))
    torch.testing.assert_close(steps, 0.5 / 4.0 ** torch.arange(4, dtype=torch.float64), rtol=1e-9, atol=0)
