"""The gradient of a training step against finite differences in float64, stop-gradients included.

The product's own `forward`, `learn` and `total_loss` run in float64 on a real tape. What they must owe comes
from central differences: of the loops in `tests/oracles/objective.py` for the replayed losses, which keep
apart what a step may move and what it takes as given, and of the product's own supervised losses, which take
nothing as given.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.learn.doubled import F64, RULES, B, Case, losses_at, make_case
from tests.oracles.objective import Point, Rules, replayed
from trainer.config import Config
from trainer.learn.objective import total_loss
from trainer.learn.reencode import encoded_again
from trainer.learn.replay import Batch, StepClose, UntilClose
from trainer.learn.rollout import forward

HEADS = ("q", "pi", "v")
Number = Callable[[Tensor], float]


def arrays(case: Case, flat: Tensor, only: str | None = None) -> dict[str, Any]:
    return {n: v.numpy() for n, v in case.learner.agent.layout.unflatten(flat.detach(), only).items()}


def columns_of(batch: Batch) -> dict[str, Any]:
    """The batch as the oracle reads it."""
    found = {name: getattr(batch, name) for name in Batch._fields[1:11]}
    if isinstance(batch.step_close, StepClose):
        found |= {"reward": batch.step_close.reward, "done": batch.step_close.done}
    if isinstance(batch.until_close, UntilClose):
        found |= {"close_returns": batch.until_close.returns, "closes": batch.until_close.closes}
    return {name: column.numpy() for name, column in found.items()}


def rules_of(config: Config) -> Rules:
    learn = config.learn
    return Rules(
        at_close=learn.reward == "at_close",
        done_only=learn.advantage == "done_only",
        cut_at_close=learn.td_cut == "done",
        target_all=learn.target_max == "all",
    )


def encoded(case: Case, params: Tensor) -> Batch:
    """The batch with states of these weights; as stored without `encoder_rl`."""
    return encoded_again(case.learner, case.learner.agent.layout.unflatten(params.detach()), case.batch)


def replayed_at(case: Case, heads: Tensor, x: Tensor) -> dict[str, float]:
    """The loops' losses with live heads and states; what they take as given is the case's own."""
    given = encoded(case, case.params)
    live = Point(arrays(case, heads), x.numpy())
    fixed = Point(arrays(case, case.params), given.x.numpy())
    target = arrays(case, case.target, "q")
    return replayed(live, fixed, target, columns_of(given), rules_of(case.learner.config))


def weighted(case: Case, heads: Tensor, x: Tensor) -> float:
    """The replayed losses with their weights of the total."""
    cfg = case.learner.config.learn
    weights = {"q": 1.0, "policy": cfg.policy_weight, "value": cfg.value_weight, "distill": 0.8}
    weights["entropy"] = -0.035
    return sum(weights[name] * value for name, value in replayed_at(case, heads, x).items())


def fresh_distillation_at(case: Case, heads: Tensor, encoder: Tensor) -> float:
    """KL from the case's own Q to the live policy on the lanes' states."""

    def states(params: Tensor) -> tuple[Any, Any]:
        fresh = forward(case.learner, params, case.lanes, case.bus)
        return torch.cat([fresh.h, fresh.context], -1).numpy(), fresh.feasible.numpy()

    (live_x, feasible), (fixed_x, _) = states(encoder), states(case.params)
    batch = {name: column[:B] for name, column in columns_of(case.batch).items()}
    batch |= {"feasible": feasible, "action": np.zeros(B, np.int64)}  # Hold: always feasible
    live, fixed = Point(arrays(case, heads), live_x), Point(arrays(case, case.params), fixed_x)
    target = arrays(case, case.target, "q")
    return replayed(live, fixed, target, batch, rules_of(case.learner.config))["distill"]


def owed_to_heads(case: Case, moved: Tensor) -> float:
    """What a step may differentiate by the weights of Q, policy and value."""
    weight = case.learner.config.learn.encoder_distill
    fresh = weight * fresh_distillation_at(case, moved, case.params) if weight else 0.0
    return fresh + weighted(case, moved, encoded(case, case.params).x)


def owed_to_encoder(case: Case, moved: Tensor) -> float:
    """What it may differentiate by all other weights: the replayed losses only times `encoder_rl`."""
    cfg = case.learner.config.learn
    supervised = forward(case.learner, moved, case.lanes, case.bus).supervised.total()
    total = cfg.supervised_weight * float(supervised)
    if cfg.encoder_distill:
        total += cfg.encoder_distill * fresh_distillation_at(case, case.params, moved)
    if cfg.encoder_rl:
        total += cfg.encoder_rl * weighted(case, case.params, encoded(case, moved).x.detach())
    return total


def total_of(case: Case, params: Tensor) -> Tensor:
    fresh, losses = losses_at(case, params)
    slots = case.learner.slots.read(case.bus)
    return total_loss(fresh.supervised, losses, slots, case.learner.config.learn) + fresh.distill


def slope(function: Number, at: Tensor, direction: Tensor, size: float = 1e-6) -> float:
    """Central difference."""
    return (function(at + size * direction) - function(at - size * direction)) / (2 * size)


def directions(case: Case) -> dict[str, Tensor]:
    """A random unit direction inside every weight tensor `[P]`, by its name."""
    generator, layout, found = torch.Generator().manual_seed(9), case.learner.agent.layout, {}
    for parameter in layout.parameters:
        flat = torch.zeros_like(case.params)
        view = layout.unflatten(flat)[parameter.name]
        view.copy_(torch.randn(parameter.shape, generator=generator, dtype=F64))
        found[parameter.name] = flat / flat.norm()
    return found


def owed_along(case: Case, weight: str, direction: Tensor) -> float:
    """The slope that the product owes along a direction inside one weight tensor."""
    owed = owed_to_heads if weight.split(".")[0] in HEADS else owed_to_encoder
    return slope(lambda moved: owed(case, moved), case.params, direction)


@pytest.mark.parametrize("name", RULES)
def test_replayed_losses_equal_plain_loops_over_samples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(monkeypatch, *RULES[name])
    _, found = losses_at(case, case.params)
    expected = replayed_at(case, case.params, encoded(case, case.params).x)
    assert {loss: getattr(found, loss).item() for loss in expected} == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("name", RULES)
def test_the_gradient_of_a_step_is_the_slope_of_what_it_may_move(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(monkeypatch, *RULES[name])
    params = case.params.clone().requires_grad_()
    (grad,) = torch.autograd.grad(total_of(case, params), params)
    wrong = {}
    for weight, direction in directions(case).items():
        expected, found = owed_along(case, weight, direction), float(grad @ direction)
        if found != pytest.approx(expected, rel=2e-5, abs=2e-8):
            wrong[weight] = (found, expected)
    assert wrong == {}


def test_the_slope_of_the_whole_loss_is_another_one_where_something_is_held_fixed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the test above would pass without a single stop-gradient."""
    case = make_case(monkeypatch, *RULES["into the encoder"])
    for weight in ("q.weight", "v.weight", "cfc.in"):
        direction = directions(case)[weight]
        naive = slope(lambda p: float(total_of(case, p)), case.params, direction)
        expected = owed_along(case, weight, direction)
        assert abs(naive - expected) > 1e-2 * abs(expected), weight
