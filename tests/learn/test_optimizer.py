"""AdamW on the flat vector equals torch's, and skips what is not finite."""

import math

import pytest
import torch
from torch import Tensor

from trainer.config import LearnConfig
from trainer.learn.optimizer import Moments, adamw, polyak

SIZE = 37


def fresh(size: int = SIZE) -> Moments:
    return Moments(torch.zeros(size), torch.zeros(size), torch.zeros((), dtype=torch.int64))


def values(seed: int, size: int = SIZE) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_50_steps_equal_torchs_adamw_after_a_global_norm_clip(scale: float) -> None:
    cfg = LearnConfig()
    params, moments = values(0), fresh()
    theirs = torch.nn.Parameter(values(0))
    optimizer = torch.optim.AdamW(
        [theirs], lr=1e-2, betas=cfg.adam_betas, eps=cfg.adam_eps, weight_decay=cfg.weight_decay
    )
    for step in range(50):
        grad = values(step + 1) * scale
        update = adamw(params, grad, moments, torch.full((SIZE,), 1e-2), cfg)
        params, moments = update.params, update.moments
        theirs.grad = grad.clone()
        torch.nn.utils.clip_grad_norm_([theirs], cfg.max_grad_norm)
        optimizer.step()
        torch.testing.assert_close(params, theirs.detach(), rtol=2e-5, atol=2e-6)
    assert int(moments.step) == 50
    assert (params - values(0)).abs().min() > 0


def test_the_clip_bounds_the_norm_and_reports_the_raw_one() -> None:
    cfg = LearnConfig(max_grad_norm=0.5)
    large = adamw(values(0), torch.full((SIZE,), 3.0), fresh(), torch.zeros(SIZE), cfg)
    assert large.grad_norm.item() == pytest.approx(3.0 * math.sqrt(SIZE))
    assert (large.moments.m / 0.1).norm().item() == pytest.approx(0.5, rel=1e-5)
    small_grad = torch.full((SIZE,), 1e-3)
    small = adamw(values(0), small_grad, fresh(), torch.zeros(SIZE), cfg)
    torch.testing.assert_close(small.moments.m, small_grad * 0.1)


def test_each_element_moves_at_its_own_rate() -> None:
    rate = torch.linspace(0.0, 1e-2, SIZE)
    cfg = LearnConfig(weight_decay=0.0)
    moved = values(0) - adamw(values(0), torch.ones(SIZE), fresh(), rate, cfg).params
    # Adam's first step is the rate itself, whatever the gradient's size.
    torch.testing.assert_close(moved, rate, rtol=1e-3, atol=1e-6)
    assert moved[0] == 0


def test_weight_decay_is_decoupled_from_the_gradient() -> None:
    cfg = LearnConfig(weight_decay=0.1)
    found = adamw(values(0), torch.zeros(SIZE), fresh(), torch.full((SIZE,), 1e-2), cfg)
    torch.testing.assert_close(found.params, values(0) * (1 - 1e-3))


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_a_non_finite_gradient_moves_nothing(poison: float) -> None:
    cfg, rate = LearnConfig(), torch.full((SIZE,), 1e-2)
    before = adamw(values(0), values(1), fresh(), rate, cfg)
    grad = values(2)
    grad[5] = poison
    after = adamw(before.params, grad, before.moments, rate, cfg)
    assert not after.applied
    assert torch.equal(after.params, before.params)
    for old, new in zip(before.moments, after.moments, strict=True):
        assert torch.equal(old, new)
    resumed = adamw(after.params, values(3), after.moments, rate, cfg)
    straight = adamw(before.params, values(3), before.moments, rate, cfg)
    assert resumed.applied
    assert torch.equal(resumed.params, straight.params)


def test_a_gradient_whose_norm_overflows_counts_as_not_finite() -> None:
    update = adamw(values(0), torch.full((SIZE,), 1e30), fresh(), torch.full((SIZE,), 1e-2), LearnConfig())
    assert not update.applied
    assert torch.equal(update.params, values(0))
    assert torch.equal(update.moments.v, torch.zeros(SIZE))


def test_padding_without_gradient_stays_zero() -> None:
    params, grad = values(0), values(1)
    params[10:20], grad[10:20] = 0.0, 0.0
    update = adamw(params, grad, fresh(), torch.full((SIZE,), 1e-2), LearnConfig())
    assert (update.params[10:20] == 0).all()


def test_polyak_keeps_at_0_copies_at_1_and_mixes_between() -> None:
    target, online = values(0), values(1)
    assert torch.equal(polyak(target, online, torch.tensor(0.0)), target)
    assert torch.equal(polyak(target, online, torch.tensor(1.0)), online)
    mixed = polyak(target, online, torch.tensor(0.25))
    torch.testing.assert_close(mixed, 0.75 * target + 0.25 * online)
