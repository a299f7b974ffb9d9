"""Sampled states encoded again: the same states, with a gradient into the encoder that has its weight."""

from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.step import new_runner, random_walk_tape
from trainer.config import Config
from trainer.learn.adapt import Adapted, adapt
from trainer.learn.random import Stream, uniform
from trainer.learn.reencode import encoded_again, scaled_gradient
from trainer.learn.replay import Batch, sample
from trainer.learn.runner import Runner
from trainer.learn.step import Parts, learn
from trainer.presets import INSTRUMENTS, demo
from trainer.types import NUM_CONTEXT

CPU = torch.device("cpu")
HEADS = ("q", "pi", "v")


def small(weight: float) -> Config:
    agent = {"hidden": 12, "buckets": (5, 4, 3), "ssd_state": 3, "head_hidden": 8}
    rules = {"n_backtests": 8, "per_capacity": 64, "batch_size": 32, "n_step": 3, "encoder_rl": weight}
    return demo().replaced(agent=agent, learn=rules, data={"window_rows": 5, "decision_rows": 4})


def frozen(learner: Any, state: Any, *rest: Any) -> Adapted:
    """Everything adapts but the weights."""
    return adapt(learner, state, *rest)._replace(params=state.params, target=state.target)


@pytest.fixture(scope="module")
def runner() -> Runner:
    """14 steps with weights that never moved, lanes truncated among them; every head random."""
    torch.set_num_threads(1)
    config = small(1.0).replaced(market={"episode_decisions": 9})
    found = new_runner(config, INSTRUMENTS["ES"], random_walk_tape(config, 3000, CPU))
    found.state.params.copy_(torch.randn(found.state.params.shape) * 0.3)
    found.parts = Parts(adapt=frozen)
    for _ in range(14):
        found.advance()
    return found


def batch_of(runner: Runner) -> Batch:
    state = runner.state
    draws = uniform(state.seed, state.step, Stream.REPLAY, (32,))
    return sample(state.replay, draws, torch.tensor(0.0), runner.learner.config)


def test_with_unmoved_weights_both_states_come_out_as_they_were_stored(runner: Runner) -> None:
    batch = batch_of(runner)
    again = encoded_again(runner.learner, runner.learner.agent.layout.unflatten(runner.state.params), batch)
    torch.testing.assert_close(again.x, batch.x, rtol=1e-4, atol=1e-5)
    whole = ~batch.cut
    assert 0 < int(whole.sum()) < len(whole), "with and without successors"
    torch.testing.assert_close(again.next_x[whole], batch.next_x[whole], rtol=1e-4, atol=1e-5)
    assert len(batch.x[:, 0].unique()) > 16, "equal states would prove nothing"
    assert torch.isfinite(again.next_x).all()


def gradients(runner: Runner, weight: float, batch: Batch) -> dict[str, Tensor]:
    """Gradient of all replayed losses by weight name."""
    twin = new_runner(small(weight), INSTRUMENTS["ES"], runner.learner.tape)
    params = runner.state.params.clone().requires_grad_()
    losses = learn(twin.learner, params, runner.state.target, batch, runner.state.bus)
    total = losses.q + losses.policy + losses.value + losses.distill - losses.entropy
    (grad,) = torch.autograd.grad(total, params)
    return twin.learner.agent.layout.unflatten(grad)


def test_the_gradient_reaches_the_encoder_with_its_weight_and_the_heads_in_full(runner: Runner) -> None:
    batch = batch_of(runner)
    whole, half = gradients(runner, 1.0, batch), gradients(runner, 0.5, batch)
    for name, grad in whole.items():
        group = name.split(".")[0]
        if group in ("labels", "returns"):
            assert not grad.any(), f"{name}: no replayed loss reads it"
        elif group in HEADS:
            torch.testing.assert_close(half[name], grad, rtol=1e-5, atol=1e-7, msg=name)
        else:
            assert grad.any(), name
            torch.testing.assert_close(half[name], 0.5 * grad, rtol=1e-3, atol=1e-7, msg=name)


def test_the_successor_carries_no_gradient(runner: Runner) -> None:
    params = runner.state.params.clone().requires_grad_()
    again = encoded_again(runner.learner, runner.learner.agent.layout.unflatten(params), batch_of(runner))
    assert again.x.requires_grad
    assert not again.next_x.requires_grad


def test_the_default_encodes_nothing_again(runner: Runner) -> None:
    batch = batch_of(runner)._replace(origin=Batch._field_defaults["origin"])
    assert encoded_again(runner.learner, {}, batch) is batch


@pytest.mark.parametrize("weight", [0.3, 1.0, 7.0])
def test_scaling_the_gradient_leaves_the_value_bit_for_bit(weight: float) -> None:
    h = torch.randn(50).requires_grad_()
    scaled = scaled_gradient(h, weight)
    assert torch.equal(scaled, h)
    (grad,) = torch.autograd.grad((scaled * torch.arange(50.0)).sum(), h)
    torch.testing.assert_close(grad, weight * torch.arange(50.0))


def test_the_context_is_the_stored_one(runner: Runner) -> None:
    batch = batch_of(runner)
    again = encoded_again(runner.learner, runner.learner.agent.layout.unflatten(runner.state.params), batch)
    assert torch.equal(again.x[:, -NUM_CONTEXT:], batch.x[:, -NUM_CONTEXT:])
    assert torch.equal(again.next_x[:, -NUM_CONTEXT:], batch.next_x[:, -NUM_CONTEXT:])
