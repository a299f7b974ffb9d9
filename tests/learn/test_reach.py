"""Which loss trains which weights: everything it should, to the last element, and nothing else at all."""

from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.step import new_runner, random_walk_tape
from tests.learn.doubled import RULES, Case, losses_at, make_case
from trainer.agent.agent import Agent
from trainer.learn.rollout import act, forward
from trainer.learn.step import Parts, step
from trainer.learn.tree import leaves
from trainer.presets import INSTRUMENTS

ENCODER = "encoder"
REACH = {
    "labels": {ENCODER, "labels"},
    "sizes": {ENCODER, "labels"},
    "returns": {ENCODER, "returns"},
    "q": {"q"},
    "policy": {"pi"},
    "value": {"v"},
    "distill": {"pi"},
    "entropy": {"pi"},
    "fresh distillation": set[str](),
}
"""Loss -> parts of the agent that it trains by default; docs/numerics.md shows the same table."""
REPLAYED = ("q", "policy", "value", "distill", "entropy")


def reach_of(case: Case) -> dict[str, set[str]]:
    """`REACH` under the switches of a configuration."""
    learn, found = case.learner.config.learn, {loss: set(parts) for loss, parts in REACH.items()}
    if learn.encoder_rl > 0:
        for loss in REPLAYED:
            found[loss] |= {ENCODER}
    if learn.encoder_distill > 0:
        found["fresh distillation"] = {ENCODER, "pi"}
    return found


def part_of(name: str) -> str:
    first = name.split(".")[0]
    return first if first in ("labels", "returns", "q", "pi", "v") else ENCODER


def gradients(case: Case) -> dict[str, dict[str, Tensor]]:
    """Loss -> weight -> gradient; zeros where there is none at all."""
    params = case.params.clone().requires_grad_()
    fresh, replayed = losses_at(case, params)
    losses = {name: getattr(fresh.supervised, name) for name in ("labels", "sizes", "returns")}
    losses |= {name: getattr(replayed, name) for name in REPLAYED} | {"fresh distillation": fresh.distill}
    found = {}
    for name, loss in losses.items():
        grad = None
        if loss.requires_grad:
            (grad,) = torch.autograd.grad(loss, params, retain_graph=True, allow_unused=True)
        flat = torch.zeros_like(params) if grad is None else grad
        assert torch.isfinite(flat).all(), name
        found[name] = case.learner.agent.layout.unflatten(flat)
    return found


def live_elements(agent: Agent) -> dict[str, Tensor]:
    """1 where a weight is used at all: across buckets it is not, nor in the spare columns of dt."""
    cfg, found = agent.cfg, {p.name: torch.ones(p.shape) for p in agent.layout.parameters}
    bucket = [number for number, size in enumerate(cfg.buckets) for _ in range(size)]
    inner = cfg.hidden * cfg.ssd_expand
    for c, own in enumerate(bucket):
        for other in range(cfg.hidden):
            if bucket[other] != own:
                found["cfc.recurrent"][other, c :: cfg.hidden] = 0
        for horizon in range(len(cfg.buckets)):
            if horizon != own:
                width = found["labels.weight"].shape[1] // len(cfg.buckets)
                found["labels.weight"][c, horizon * width : (horizon + 1) * width] = 0
                width = cfg.head_hidden
                found["returns.hidden"][c, horizon * width : (horizon + 1) * width] = 0
    for block in range(cfg.ssd_blocks):
        found[f"ssd{block}.in"][:, 2 * inner + 2 * cfg.ssd_state + cfg.ssd_heads :] = 0
    return found


@pytest.mark.parametrize("rules", RULES)
def test_a_loss_reaches_every_tensor_of_its_parts_and_no_element_of_another(
    rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(monkeypatch, *RULES[rules])
    for loss, grads in gradients(case).items():
        expected = {name for name in grads if part_of(name) in reach_of(case)[loss]}
        assert {name for name, grad in grads.items() if grad.any()} == expected, loss


@pytest.mark.parametrize("rules", RULES)
def test_every_element_of_the_agent_that_is_used_is_trained_by_some_loss(
    rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(monkeypatch, *RULES[rules], samples=96)
    for name, view in case.learner.agent.layout.unflatten(case.params).items():
        if name.endswith("hidden_bias"):
            view.fill_(2.0)  # eight lanes would leave a hidden unit shut here and there
    grads = gradients(case)
    for name, live in live_elements(case.learner.agent).items():
        trained = torch.stack([found[name] for found in grads.values()]).any(0)
        assert torch.equal(trained, live.bool()), (name, (trained != live.bool()).nonzero().tolist()[:9])


def test_padding_between_the_weights_has_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(monkeypatch, *RULES["into the encoder"])
    layout, params = case.learner.agent.layout, case.params.clone().requires_grad_()
    fresh, losses = losses_at(case, params)
    total = fresh.supervised.total() + fresh.distill + sum(getattr(losses, name) for name in REPLAYED)
    (grad,) = torch.autograd.grad(total, params)
    used = torch.zeros_like(params)
    for view in layout.unflatten(used).values():
        view.fill_(1.0)
    assert 0 < int((used == 0).sum()) < layout.size
    assert not grad[used == 0].any()


@pytest.mark.parametrize("rules", RULES)
def test_what_a_loss_takes_as_given_gets_no_gradient_at_all(
    rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(monkeypatch, *RULES[rules])
    params, given = case.params.clone().requires_grad_(), {
        "target network": case.target.clone().requires_grad_(),
        "successor": case.batch.next_x.clone().requires_grad_(),
        "returns": case.batch.returns.clone().requires_grad_(),
        "discount": case.batch.discount.clone().requires_grad_(),
    }  # fmt: skip
    batch = case.batch._replace(
        next_x=given["successor"], returns=given["returns"], discount=given["discount"]
    )
    moved = case._replace(target=given["target network"], batch=batch)
    _, losses = losses_at(moved, params)
    total = torch.stack([getattr(losses, name) for name in REPLAYED]).sum()
    found = torch.autograd.grad(total, list(given.values()), allow_unused=True)
    assert {name for name, grad in zip(given, found, strict=True) if grad is not None} == set()
    _, plain = losses_at(case, params)
    measured = [name for name in plain._fields if name not in REPLAYED]
    assert not [name for name in measured if getattr(plain, name).requires_grad], "controllers only look"


def test_the_stored_probability_and_all_that_acting_makes_hold_no_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = make_case(monkeypatch, *RULES["into the encoder"])
    monkeypatch.undo()  # whole steps: the lanes' own context, float32
    config = case.learner.config
    runner = new_runner(config, INSTRUMENTS["ES"], random_walk_tape(config, 600, torch.device("cpu")))
    params = runner.state.params.clone().requires_grad_()
    fresh = forward(runner.learner, params, runner.state.lanes, runner.state.bus)
    assert fresh.supervised.labels.requires_grad
    assert not fresh.h.requires_grad, "the state that is stored"
    acted = act(runner.learner, runner.state, params, fresh)
    assert not [name for name, tensor in leaves(acted) if tensor.requires_grad]


def test_the_next_state_holds_no_graph_of_the_step_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(monkeypatch, *RULES["into the encoder"])
    monkeypatch.undo()
    config = case.learner.config
    runner = new_runner(config, INSTRUMENTS["ES"], random_walk_tape(config, 600, torch.device("cpu")))
    state: Any = runner.state
    for _ in range(4):
        state = step(runner.learner, state, Parts())
    assert not [name for name, tensor in leaves(state) if tensor.requires_grad]
