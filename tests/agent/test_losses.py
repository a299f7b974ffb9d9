"""Losses against textbook loops, finite differences and their behaviour on invalid labels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor

from trainer.agent.heads import NEGATIVE
from trainer.agent.losses import (
    categorical_loss,
    clipped_surrogate,
    distillation_loss,
    label_loss,
    policy_entropy,
    return_loss,
)
from trainer.types import NUM_ACTIONS, NUM_LABEL_SOURCES

F64 = torch.float64
ATOMS = torch.linspace(-4.0, 4.0, 21, dtype=F64)
fast = settings(deadline=None, max_examples=60, derandomize=True)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def test_categorical_loss_is_least_at_the_target_itself() -> None:
    target = torch.softmax(randn(3, 21), -1)
    entropy = -(target * target.log()).sum(-1)
    torch.testing.assert_close(categorical_loss(target.log(), target), entropy)
    assert (categorical_loss(randn(3, 21, seed=5), target) > entropy).all()


@pytest.mark.parametrize("advantage", [-2.0, -0.1, 0.0, 0.5, 3.0])
@pytest.mark.parametrize("log_ratio", [-5.0, -0.4, -0.1, 0.0, 0.1, 0.3, 5.0])
def test_the_surrogate_equals_the_textbook(advantage: float, log_ratio: float) -> None:
    clip = 0.2
    ratio = math.exp(min(max(log_ratio, -2.0), 2.0))
    expected = -min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage)
    old = torch.tensor([-1.3], dtype=F64)
    found = clipped_surrogate(
        old + log_ratio, old, torch.tensor([advantage], dtype=F64), torch.tensor(clip, dtype=F64)
    )
    assert found.item() == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("advantage", "log_ratio", "moves"),
    [(1.0, 0.5, False), (-1.0, -0.5, False), (1.0, -0.5, True), (-1.0, 0.5, True)],
)
def test_the_surrogate_stops_only_moves_that_went_too_far(
    advantage: float, log_ratio: float, moves: bool
) -> None:
    log_prob = torch.tensor([log_ratio], dtype=F64, requires_grad=True)
    loss = clipped_surrogate(
        log_prob,
        torch.zeros(1, dtype=F64),
        torch.tensor([advantage], dtype=F64),
        torch.tensor(0.2, dtype=F64),
    )
    (grad,) = torch.autograd.grad(loss.sum(), log_prob)
    assert (grad.item() != 0) == moves
    if moves:  # against the advantage: a positive one raises the probability
        assert math.copysign(1.0, grad.item()) == -math.copysign(1.0, advantage)


def test_an_impossible_old_probability_gives_a_finite_surrogate() -> None:
    log_prob = torch.tensor([NEGATIVE, 0.0], requires_grad=True)
    loss = clipped_surrogate(log_prob, torch.tensor([0.0, NEGATIVE]), torch.ones(2), torch.tensor(0.2))
    (grad,) = torch.autograd.grad(loss.sum(), log_prob)
    assert torch.isfinite(loss).all()
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("num_feasible", range(1, NUM_ACTIONS + 1))
def test_a_uniform_policy_has_the_entropy_of_its_feasible_actions(num_feasible: int) -> None:
    feasible = (torch.arange(NUM_ACTIONS) < num_feasible)[None]
    log_policy = torch.log_softmax(torch.where(feasible, torch.zeros(1, NUM_ACTIONS), NEGATIVE), -1)
    assert policy_entropy(log_policy, feasible).item() == pytest.approx(math.log(num_feasible), abs=1e-6)


def test_distillation_is_zero_where_the_policy_is_the_teacher() -> None:
    q, temperature = randn(5, NUM_ACTIONS), torch.tensor(0.3, dtype=F64)
    feasible = randn(5, NUM_ACTIONS, seed=2) > -0.5
    feasible[:, 0] = True
    log_policy = torch.log_softmax(torch.where(feasible, q / temperature, NEGATIVE), -1)
    found = distillation_loss(log_policy, q, feasible, temperature, NEGATIVE)
    torch.testing.assert_close(found, torch.zeros(5, dtype=F64), rtol=0, atol=1e-12)
    other = distillation_loss(log_policy, q + randn(5, NUM_ACTIONS, seed=3), feasible, temperature, NEGATIVE)
    assert (other[feasible.sum(-1) > 1] > 0).all()


def test_distillation_equals_the_kl_divergence_by_loop() -> None:
    q, logits, feasible = [1.0, 2.0, -1.0], [0.3, -0.2, 0.9], [True, True, False]
    teacher = [math.exp(v / 0.5) for v, ok in zip(q, feasible, strict=True) if ok]
    student = [math.exp(v) for v, ok in zip(logits, feasible, strict=True) if ok]
    expected = sum(
        t / sum(teacher) * math.log(t / sum(teacher) / (s / sum(student)))
        for t, s in zip(teacher, student, strict=True)
    )
    mask = torch.tensor([feasible])
    log_policy = torch.log_softmax(torch.where(mask, torch.tensor([logits], dtype=F64), NEGATIVE), -1)
    found = distillation_loss(
        log_policy, torch.tensor([q], dtype=F64), mask, torch.tensor(0.5, dtype=F64), NEGATIVE
    )
    assert found.item() == pytest.approx(expected)


def test_distillation_teaches_the_policy_and_not_q() -> None:
    q, logits = randn(2, NUM_ACTIONS).requires_grad_(), randn(2, NUM_ACTIONS, seed=1).requires_grad_()
    every = torch.ones(2, NUM_ACTIONS, dtype=torch.bool)
    loss = distillation_loss(
        torch.log_softmax(logits, -1), q, every, torch.tensor(1.0, dtype=F64), NEGATIVE
    ).sum()
    found = torch.autograd.grad(loss, (logits, q), allow_unused=True)
    assert (found[0] != 0).all()
    assert found[1] is None


def labels_case() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    logits = randn(2, 3, 3, NUM_LABEL_SOURCES)
    labels = torch.cat([(randn(2, 3, 3, 3, seed=1) > 0).double(), randn(2, 3, 3, 2, seed=2).abs() * 6], -1)
    valid = randn(2, 3, 3, seed=3) > -0.3
    return logits, labels, valid, torch.tensor([1.0, 2.0, 5.0], dtype=F64)


def test_label_losses_equal_the_loop_over_valid_labels() -> None:
    logits, labels, valid, move_sd = labels_case()
    crossed, huber = [], []
    for b, k, h in valid.nonzero().tolist():
        chances = torch.sigmoid(logits[b, k, h]).tolist()
        for s in range(3):
            y = labels[b, k, h, s].item()
            crossed.append(-y * math.log(chances[s]) - (1 - y) * math.log(1 - chances[s]))
        for s in (3, 4):
            gap = abs(logits[b, k, h, s].item() - labels[b, k, h, s].item() / move_sd[h].item())
            huber.append(0.5 * gap**2 if gap < 1 else gap - 0.5)
    found = label_loss(logits, labels, valid, move_sd)
    assert found[0].item() == pytest.approx(np.mean(crossed))
    assert found[1].item() == pytest.approx(np.mean(huber))


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf, 1e30])
def test_invalid_labels_change_neither_loss_nor_gradient(poison: float) -> None:
    logits, labels, valid, move_sd = labels_case()
    assert 0 < valid.sum() < valid.numel()
    found = []
    for labelled in (labels, torch.where(valid[..., None], labels, poison)):
        leaf = logits.clone().requires_grad_()
        losses = label_loss(leaf, labelled, valid, move_sd)
        (grad,) = torch.autograd.grad(losses[0] + losses[1], leaf)
        found.append((*(loss.detach() for loss in losses), grad))
    for clean, poisoned in zip(*found, strict=True):
        assert torch.isfinite(poisoned).all()
        assert torch.equal(clean, poisoned)
    assert (found[1][2][~valid] == 0).all()
    assert (found[1][2][valid] != 0).all()


def test_no_valid_label_gives_zero_loss_and_zero_gradient() -> None:
    logits, labels, valid, move_sd = labels_case()
    leaf = logits.requires_grad_()
    losses = label_loss(leaf, labels * math.nan, torch.zeros_like(valid), move_sd)
    (grad,) = torch.autograd.grad(losses[0] + losses[1], leaf)
    assert [loss.item() for loss in losses] == [0.0, 0.0]
    assert (grad == 0).all()


def test_return_loss_is_the_cross_entropy_of_the_labelled_rows() -> None:
    logits, target = randn(3, 2, 9), torch.tensor([[0, 8], [-1, 4], [-1, -1]])
    labelled = [(0, 0, 0), (0, 1, 8), (1, 1, 4)]
    expected = np.mean([-torch.log_softmax(logits[b, h], 0)[c].item() for b, h, c in labelled])
    leaf = logits.requires_grad_()
    loss = return_loss(leaf, target)
    (grad,) = torch.autograd.grad(loss, leaf)
    assert loss.item() == pytest.approx(expected)
    assert (grad[target < 0] == 0).all()
    assert (grad[target >= 0] != 0).all()
    assert return_loss(logits, torch.full((3, 2), -1)).item() == 0.0
