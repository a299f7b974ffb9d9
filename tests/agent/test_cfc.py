"""The CfC recurrence equals its equations, keeps buckets apart and sees time on each bucket's scale."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from trainer.agent.cfc import bucket_of_channel, cfc, cfc_parameters, recurrent_mask, time_scale
from trainer.config import AgentConfig, Config

MakeWeights = Callable[..., dict[str, Tensor]]
CPU = torch.device("cpu")
HORIZONS = (1, 4, 16)


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x > -700.0 else 0.0  # math.exp raises where it overflows


def scalar_cfc(w: dict[str, Tensor], x: Tensor, elapsed: Tensor, sizes: tuple[int, ...]) -> list[list[float]]:
    """One lane `x [K, D], elapsed [K]`, channel by channel, with no tensor operation."""
    d = x.shape[1]
    bucket = [number for number, size in enumerate(sizes) for _ in range(size)]
    into, bias, back = w["cfc.in"].tolist(), w["cfc.bias"].tolist(), w["cfc.recurrent"].tolist()
    h, out = [0.0] * d, []
    for row, passed in zip(x.tolist(), elapsed.tolist(), strict=True):
        new = []
        for c in range(d):
            gates = []
            for column in (c, d + c, 2 * d + c, 3 * d + c):
                own = [i for i in range(d) if bucket[i] == bucket[c]]
                total = bias[column] + sum(row[i] * into[i][column] for i in range(d))
                gates.append(total + sum(h[i] * back[i][column] for i in own))
            f, g, t_a, t_b = gates
            s = sigmoid(t_a * passed / math.sqrt(HORIZONS[bucket[c]]) + t_b)
            new.append(math.tanh(f) * (1.0 - s) + math.tanh(g) * s)
        h = new
        out.append(h)
    return out


def run(w: dict[str, Tensor], x: Tensor, elapsed: Tensor, cfg: AgentConfig) -> Tensor:
    mask, scale = recurrent_mask(cfg, CPU), time_scale(cfg, HORIZONS, CPU)
    return cfc(w, "cfc", x, elapsed, mask.to(x.dtype), scale.to(x.dtype))


def test_the_recurrence_equals_its_equations_channel_by_channel(
    config: Config, make_weights: MakeWeights, generator: torch.Generator
) -> None:
    w = make_weights()
    x = torch.randn(2, 5, config.agent.hidden, generator=generator, dtype=torch.float64)
    elapsed = torch.rand(2, 5, generator=generator, dtype=torch.float64) * 4.0
    expected = [scalar_cfc(w, x[b], elapsed[b], config.agent.buckets) for b in range(2)]
    torch.testing.assert_close(
        run(w, x, elapsed, config.agent), torch.tensor(expected, dtype=torch.float64), rtol=1e-7, atol=1e-7
    )


@settings(deadline=None, max_examples=20, derandomize=True)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 7)),
    st.sampled_from([(0.0, 1.0), (1e-12, 1.0), (20.0, 1.0), (5.0, 0.0), (5.0, 1e3)]),
    st.integers(0, 10_000),
)
def test_any_buckets_and_any_times_equal_the_equations(
    shape: tuple[int, int, int, int], sizes: tuple[float, float], seed: int
) -> None:
    first, second, third, rows = shape
    buckets = (max(first, 8 - second - third), second, third)
    cfg = AgentConfig(hidden=sum(buckets), buckets=buckets, ssd_heads=1)
    generator = torch.Generator().manual_seed(seed)
    w = {
        p.name: torch.randn(p.shape, generator=generator, dtype=torch.float64)
        for p in cfc_parameters("cfc", cfg)
    }
    x = torch.randn(1, rows, cfg.hidden, generator=generator, dtype=torch.float64) * sizes[1]
    elapsed = torch.rand(1, rows, generator=generator, dtype=torch.float64) * sizes[0]
    expected = torch.tensor(scalar_cfc(w, x[0], elapsed[0], buckets), dtype=torch.float64)
    # The time scale is stored in float32: 1 / sqrt(horizon) to seven digits.
    torch.testing.assert_close(run(w, x, elapsed, cfg)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_channel_never_depends_on_another_buckets_state(
    config: Config, make_weights: MakeWeights, generator: torch.Generator
) -> None:
    cfg, w = config.agent, make_weights()
    # Inputs that stay inside their channel's bucket leave the state as the only way from bucket to bucket.
    w["cfc.in"] = w["cfc.in"] * recurrent_mask(cfg, CPU)
    x = torch.randn(1, 4, cfg.hidden, generator=generator, dtype=torch.float64, requires_grad=True)
    h = run(w, x, torch.ones(1, 4, dtype=torch.float64), cfg)
    bucket = bucket_of_channel(cfg, CPU)
    for channel in range(cfg.hidden):
        (grad,) = torch.autograd.grad(h[0, -1, channel], x, retain_graph=True)
        same = bucket == bucket[channel]
        assert (grad[0, 0][same] != 0).all(), f"channel {channel} forgot its own bucket"
        assert (grad[0, 0][~same] == 0).all(), f"channel {channel} reads another bucket"


@pytest.mark.parametrize("changed", [1, 4])
def test_a_changed_row_or_time_moves_no_earlier_state(
    config: Config, make_weights: MakeWeights, generator: torch.Generator, changed: int
) -> None:
    w = make_weights(torch.float32)
    x, elapsed = torch.randn(2, 6, config.agent.hidden, generator=generator), torch.ones(2, 6)
    before = run(w, x, elapsed, config.agent)
    other_x, other_elapsed = x.clone(), elapsed.clone()
    other_x[:, changed] += 1.0
    other_elapsed[:, changed] += 1.0
    for after in (run(w, other_x, elapsed, config.agent), run(w, x, other_elapsed, config.agent)):
        assert torch.equal(before[:, :changed], after[:, :changed])
        assert not torch.equal(before[:, changed], after[:, changed])


def test_states_stay_inside_the_unit_interval_for_extreme_inputs(
    config: Config, make_weights: MakeWeights
) -> None:
    x = torch.full((1, 8, config.agent.hidden), 1e6)
    h = run(make_weights(torch.float32), x, torch.full((1, 8), 20.0), config.agent)
    assert torch.isfinite(h).all()
    assert h.abs().max() <= 1.0


def test_longer_horizons_see_time_pass_more_slowly(config: Config) -> None:
    scale = time_scale(config.agent, HORIZONS, CPU)
    per_bucket = [part.unique().tolist() for part in scale.split(list(config.agent.buckets))]
    assert per_bucket == [[1.0], [0.5], [0.25]]


def test_every_channel_lies_in_exactly_one_bucket(config: Config) -> None:
    bucket = bucket_of_channel(config.agent, CPU)
    assert bucket.tolist() == [0] * 5 + [1] * 3 + [2] * 2
    mask = recurrent_mask(config.agent, CPU)
    assert mask.shape == (10, 40)
    assert mask.sum().item() == 4 * (25 + 9 + 4)


@pytest.mark.parametrize("buckets", [(5, 3, 1), (5, 3, 3), (10, 0, 0), (12, -1, -1), (10, 1, -1)])
def test_buckets_that_drop_or_invent_channels_are_refused(buckets: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match="sum to hidden"):
        AgentConfig(hidden=10, ssd_heads=2, buckets=buckets)


def test_gradients_of_input_time_and_weights_match_finite_differences(
    config: Config, make_weights: MakeWeights, generator: torch.Generator
) -> None:
    every = make_weights()
    names = [p.name for p in cfc_parameters("cfc", config.agent)]
    x = torch.randn(1, 3, config.agent.hidden, generator=generator, dtype=torch.float64, requires_grad=True)
    elapsed = torch.rand(1, 3, generator=generator, dtype=torch.float64).requires_grad_()
    tensors = [every[name].clone().requires_grad_() for name in names if name != "cfc.norm"]
    used = [name for name in names if name != "cfc.norm"]

    def check(x: Tensor, elapsed: Tensor, *weights: Tensor) -> Tensor:
        return run(dict(zip(used, weights, strict=True)), x, elapsed, config.agent)

    assert torch.autograd.gradcheck(check, (x, elapsed, *tensors), fast_mode=True)
