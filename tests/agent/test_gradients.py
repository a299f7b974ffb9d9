"""Every part of encoder and heads, and every loss at its corners, against finite differences in float64.

`tests/learn/test_gradients.py` does the same for the whole step.
"""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.agent.encoder import selection_gates
from trainer.agent.losses import (
    categorical_loss,
    clipped_surrogate,
    distillation_loss,
    label_loss,
    policy_entropy,
    return_loss,
)
from trainer.agent.ssd import decay_matrix, rms_norm
from trainer.config import Config
from trainer.types import NUM_ACTIONS, NUM_CONTEXT, NUM_FEATURES, NUM_LABEL_SOURCES

F64 = torch.float64
MakeWeights = Callable[..., dict[str, Tensor]]
CPU = torch.device("cpu")
gradcheck = torch.autograd.gradcheck


def normal(*shape: int, seed: int = 0) -> Tensor:
    found = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)
    return found.requires_grad_()


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_rms_norm_element_by_element(size: float) -> None:
    x, weight = (normal(2, 3, 5).detach() * size).requires_grad_(), normal(5, seed=1)
    # Where x is as small as the floor inside the root, its own size is the step that resolves it.
    assert gradcheck(rms_norm, (x, weight), eps=1e-6 * size, atol=1e-5 / size, rtol=1e-4)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_the_decay_matrix_element_by_element(scale: float) -> None:
    log_decay = (-normal(2, 5, 3).detach().abs() * scale).requires_grad_()
    assert gradcheck(decay_matrix, (log_decay,))


def test_selection_gates_element_by_element(make_weights: MakeWeights) -> None:
    w = make_weights()

    def gates(features: Tensor, bias: Tensor) -> Tensor:
        return selection_gates(w | {"select.bias": bias}, features)

    assert gradcheck(gates, (normal(2, NUM_FEATURES), normal(NUM_FEATURES, seed=1)))


def test_the_whole_encoder_in_its_inputs_and_in_every_weight(agent: Agent, make_weights: MakeWeights) -> None:
    w = make_weights()
    inputs = (normal(2, 4, NUM_FEATURES), normal(2, 4, seed=1).detach().abs(), normal(2, NUM_CONTEXT, seed=2))
    inputs[1].requires_grad_()
    assert gradcheck(lambda *x: agent.encode(w, *x), inputs, fast_mode=True)
    names = [p.name for p in agent.layout.parameters if p.group == "bce" and not p.name.startswith("labels")]
    assert {name.split(".")[0] for name in names} == {"select", "embed", "ssd0", "ssd1", "cfc"}
    for name in names:  # one at a time: a failure says which
        leaf = w[name].clone().requires_grad_()
        alone: Callable[[Tensor], Tensor] = lambda x, name=name: agent.encode(w | {name: x}, *inputs)  # type: ignore[misc]  # noqa: E731
        assert gradcheck(alone, (leaf,), fast_mode=True), name


def head_outputs(agent: Agent, w: dict[str, Tensor], x: Tensor) -> dict[str, Tensor]:
    feasible = torch.ones(len(x), NUM_ACTIONS, dtype=torch.bool)
    feasible[:, [3, 7]] = False
    labels, returns = agent.supervised(w, x[:, None, : agent.cfg.hidden])
    logits = agent.q_distribution(w, x)
    return {
        "labels": labels,
        "returns": returns,
        "q": logits,
        "pi": agent.policy(w, x, feasible)[feasible],
        "v": agent.value(w, x),
        "expected q": agent.expected_q(logits, torch.tensor(4.0, dtype=F64)),
    }


@pytest.mark.parametrize("form", ["context_hidden", "linear"])
@pytest.mark.parametrize("head", ["labels", "returns", "q", "pi", "v", "expected q"])
def test_a_head_in_its_input_and_in_every_weight(config: Config, head: str, form: str) -> None:
    agent = Agent.build(config.replaced(agent={"rl_heads": form}), CPU)
    generator = torch.Generator().manual_seed(4)
    w = agent.layout.unflatten(torch.randn(agent.layout.size, generator=generator, dtype=F64) * 0.4)
    x = normal(2, config.agent.hidden + NUM_CONTEXT, seed=3)
    assert gradcheck(lambda x: head_outputs(agent, w, x)[head], (x,), fast_mode=head == "q"), "input"
    own = [name for name in w if name.split(".")[0] == ("q" if head == "expected q" else head)]
    assert len(own) >= 2
    for name in own:
        leaf = w[name].clone().requires_grad_()
        alone: Callable[[Tensor], Tensor] = lambda v, name=name: head_outputs(agent, w | {name: v}, x)[head]  # type: ignore[misc]  # noqa: E731
        assert gradcheck(alone, (leaf,), fast_mode=leaf.numel() > 60), name


@settings(deadline=None, max_examples=5, derandomize=True)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 8.0]))
def test_losses_of_the_heads_at_random_points(seed: int, size: float) -> None:
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=F64) * size

    feasible = torch.rand(2, NUM_ACTIONS, generator=generator) < 0.6
    feasible[:, 0] = True
    labels, valid = drawn(2, 2, 3, NUM_LABEL_SOURCES).abs(), drawn(2, 2, 3) > 0
    labels[..., :3] = (labels[..., :3] > size).double()
    classes = torch.randint(-1, 9, (2, 3), generator=generator)
    target, q = torch.softmax(drawn(2, 21), -1), drawn(2, NUM_ACTIONS)
    move_sd, temperature = torch.tensor([0.5, 1.0, 3.0], dtype=F64), torch.tensor(0.7, dtype=F64)

    def log_policy(x: Tensor) -> Tensor:
        return torch.log_softmax(torch.where(feasible, x, -1e9), -1)

    cases: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
        "labels": (
            lambda x: torch.stack(label_loss(x, labels, valid, move_sd)),
            drawn(2, 2, 3, NUM_LABEL_SOURCES),
        ),
        "returns": (lambda x: return_loss(x, classes), drawn(2, 3, 9)),
        "categorical": (lambda x: categorical_loss(x, target), drawn(2, 21)),
        "entropy": (lambda x: policy_entropy(log_policy(x), feasible), drawn(2, NUM_ACTIONS)),
        "distillation": (
            lambda x: distillation_loss(log_policy(x), q, feasible, temperature, -1e9),
            drawn(2, NUM_ACTIONS),
        ),
    }
    for name, (loss, at) in cases.items():
        assert gradcheck(loss, (at.requires_grad_(),)), name


CLIP, LOW, HIGH = 0.2, math.log(0.8), math.log(1.2)


def surrogate(log_ratio: Tensor, advantage: float) -> Tensor:
    zero = torch.zeros_like(log_ratio)
    return clipped_surrogate(log_ratio, zero, zero + advantage, torch.tensor(CLIP, dtype=F64))


@pytest.mark.parametrize("advantage", [-2.0, 0.7])
@pytest.mark.parametrize(
    "log_ratio", [-5.0, -1.9, LOW - 1e-3, LOW + 1e-3, 0.0, HIGH - 1e-3, HIGH + 1e-3, 1.9, 5.0]
)
def test_the_clipped_surrogate_on_both_sides_of_both_clips(log_ratio: float, advantage: float) -> None:
    at = torch.tensor([log_ratio], dtype=F64, requires_grad=True)
    assert gradcheck(lambda x: surrogate(x, advantage), (at,), eps=1e-7, atol=1e-7)
    (grad,) = torch.autograd.grad(surrogate(at, advantage).sum(), at)
    stopped = log_ratio > HIGH if advantage > 0 else log_ratio < LOW
    beyond = abs(log_ratio) > 2.0  # outside the log-ratio's clamp the ratio itself stands still
    expected = 0.0 if stopped or beyond else -math.exp(log_ratio) * advantage
    assert grad.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("advantage", [-2.0, 0.7])
@pytest.mark.parametrize("log_ratio", [LOW, HIGH, -2.0, 2.0])
def test_at_a_kink_of_the_surrogate_the_gradient_lies_between_its_one_sided_slopes(
    log_ratio: float, advantage: float
) -> None:
    at, step = torch.tensor([log_ratio], dtype=F64, requires_grad=True), 1e-6
    (grad,) = torch.autograd.grad(surrogate(at, advantage).sum(), at)
    below, here, above = (surrogate(at.detach() + move, advantage).item() for move in (-step, 0.0, step))
    slopes = sorted([(here - below) / step, (above - here) / step])
    assert slopes[0] - 1e-5 <= grad.item() <= slopes[1] + 1e-5


@pytest.mark.parametrize("gap", [0.0, 1.0, -1.0, 1.0 + 1e-9, 1e8])
def test_the_huber_loss_is_smooth_where_its_two_forms_meet(gap: float) -> None:
    logits = torch.zeros(1, 1, 1, NUM_LABEL_SOURCES, dtype=F64)
    logits[..., 3:] = 5.0 + gap
    labels = torch.zeros_like(logits)
    labels[..., 3:] = 10.0
    leaf = logits.requires_grad_()
    valid, sd = torch.ones(1, 1, 1, dtype=torch.bool), torch.tensor([2.0], dtype=F64)
    (grad,) = torch.autograd.grad(label_loss(leaf, labels, valid, sd)[1], leaf)
    expected = min(max(gap, -1.0), 1.0) / 2  # two sizes share the mean
    assert grad[0, 0, 0, 3:].tolist() == pytest.approx([expected] * 2)
    assert not grad[0, 0, 0, :3].any()


@pytest.mark.parametrize("logit", [-800.0, -40.0, 0.0, 40.0, 800.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_the_binary_cross_entropy_keeps_its_slope_far_from_zero(logit: float, label: float) -> None:
    logits = torch.full((1, 1, 1, NUM_LABEL_SOURCES), logit, requires_grad=True)  # float32, as in training
    loss = label_loss(
        logits, torch.full_like(logits, label), torch.ones(1, 1, 1, dtype=torch.bool), torch.ones(1)
    )
    (grad,) = torch.autograd.grad(loss[0], logits)
    chance = 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0
    assert grad[0, 0, 0, :3].tolist() == pytest.approx([(chance - label) / 3] * 3, rel=1e-5, abs=1e-12)
    assert loss[0].item() == pytest.approx(
        max(logit, 0.0) - logit * label + math.log1p(math.exp(-abs(logit)))
    )
