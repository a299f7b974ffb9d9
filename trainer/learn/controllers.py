"""The controllers: pure functions from this step's observations to the next bus (SYSTEM.md section 7).

Each follows one pattern: exponential average of its input, a bounded multiplicative step when the input is
far from its target, a blend with the old value, a clamp. A non-finite observation changes nothing, an
observation that did not happen preserves the average, and an input that is still exactly zero holds its
controller.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.agent.layout import GROUPS
from trainer.config import LearnConfig
from trainer.types import NUM_ACTIONS

ALPHA = 0.05
STEP_FACTOR = 1.5
STEP_EVERY = 50
BLEND = 0.4
ENTROPY_SHARE = 0.7
# The documents' pair is a ratchet: lowering starts above 1.05 ln 11, which no policy over 11 actions reaches.
ENTROPY_TOLERANCE = {"feasible": 1.2, "all_actions": 1.5}
LR_WARMUP, LR_PATIENCE, LR_MIN_GAIN, LR_BOUNDS = 2000, 1000, 0.01, (1e-4, 1e-2)

Values = dict[str, Tensor]


class Observations(NamedTuple):
    """What one step saw, float32 scalars; `num_*` say how many samples stand behind an average."""

    trade_duration: Tensor
    abs_trade_ticks: Tensor
    win_rate: Tensor
    num_trades: Tensor
    num_wins: Tensor
    order_share: Tensor
    entropy: Tensor
    entropy_limit: Tensor  # mean ln(#feasible) over lanes that had a choice
    entropy_share: Tensor  # mean entropy / ln(#feasible)
    q_divergence: Tensor
    policy_kl: Tensor
    td_kurtosis: Tensor
    return_square: Tensor  # mean squared raw n-step return of replayed transitions, ticks^2
    learned: Tensor  # bool: the replay held something to learn from


def blend_ema(old: Tensor, new: Tensor, observed: Tensor, alpha: float = ALPHA) -> Tensor:
    """Average that starts at its first non-zero observation and ignores non-finite or missing ones."""
    moved = torch.where(old == 0.0, new, old + alpha * (new - old))
    # The average, not the observation: the gap of two finite ones can overflow, and would never leave again.
    return torch.where(observed & torch.isfinite(moved), moved, old)


def bounded_step(
    output: Tensor,
    reading: Tensor,
    target: Tensor | float,
    rising: bool,
    bounds: tuple[float, float],
    due: Tensor,
    tolerance: float = STEP_FACTOR,
) -> Tensor:
    """One multiplicative step of `output`; `rising`: a reading above its target raises the output.

    Nothing happens unless `due`, or while the reading is exactly 0 (no signal yet).
    """
    up, down = (STEP_FACTOR, 1.0 / STEP_FACTOR) if rising else (1.0 / STEP_FACTOR, STEP_FACTOR)
    above, below = reading > target * tolerance, reading < target / tolerance
    factor = torch.where(above, up, torch.where(below, down, 1.0))
    moved = (1.0 - BLEND) * output + BLEND * output * factor
    live = due & (reading != 0.0) & torch.isfinite(reading)
    return torch.where(live, moved, output).clamp(*bounds)


def update_averages(slots: Values, seen: Observations, learn: LearnConfig) -> Values:
    """Input averages of all controllers but the learning rates'."""
    entropy_target = ENTROPY_SHARE * seen.entropy_limit
    if learn.entropy_target == "all_actions":
        entropy_target = torch.full_like(seen.entropy_limit, ENTROPY_SHARE * math.log(NUM_ACTIONS))
    traded, always = seen.num_trades > 0, torch.ones_like(seen.learned)
    chose = seen.entropy_limit > 0  # with every order in flight no lane had a choice: nothing was observed
    readings = {
        "trade_duration": (seen.trade_duration, traded),
        "abs_trade": (seen.abs_trade_ticks, traded),
        "win": (seen.win_rate, traded),
        "order_share": (seen.order_share, always),
        "entropy": (seen.entropy, chose),
        "entropy_target": (entropy_target, chose),
        "entropy_share": (seen.entropy_share, chose),
        "q_divergence": (seen.q_divergence, seen.learned),
        "policy_kl": (seen.policy_kl, seen.learned),
        "td_kurtosis": (seen.td_kurtosis.clamp(1.0, 30.0), seen.learned),
        "return_square": (seen.return_square, seen.learned),
    }
    out = dict(slots)
    for name, (value, observed) in readings.items():
        out[f"ema.{name}"] = blend_ema(slots[f"ema.{name}"], value, observed)
    return out


def update_outputs(slots: Values, counts: Values, warm: Tensor, learn: LearnConfig) -> Values:
    """All outputs from the averages; `warm`: the buffer is full, from where scale and span stay frozen.

    With `learn.reward = "at_close"` scale and span are `reward.update_close_scale`'s.
    """
    due = (counts["updates"] > 0) & (counts["updates"] % STEP_EVERY == 0)
    out = dict(slots)
    duration = slots["ema.trade_duration"]
    wanted_gamma = torch.exp2(-1.0 / duration.clamp(min=1.0)).clamp(0.90, 0.999)
    out["gamma"] = torch.where(duration == 0.0, slots["gamma"], _blend(slots["gamma"], wanted_gamma))
    # The target follows faster when it lags behind; clip and entropy bonus give way to their readings.
    out["target_tau"] = bounded_step(
        slots["target_tau"], slots["ema.q_divergence"], 0.01, True, (0.001, 0.02), due
    )
    out["ppo_clip"] = bounded_step(slots["ppo_clip"], slots["ema.policy_kl"], 0.01, False, (0.05, 0.5), due)
    out["entropy_coef"] = bounded_step(
        slots["entropy_coef"], slots["ema.entropy"], slots["ema.entropy_target"], False, (1e-3, 1.0), due,
        ENTROPY_TOLERANCE[learn.entropy_target],
    )  # fmt: skip
    kurtosis = slots["ema.td_kurtosis"]
    alpha = (0.4 + 0.2 * (kurtosis - 3.0) / 7.0).clamp(0.2, 0.8)
    out["per_alpha"] = torch.where(kurtosis == 0.0, slots["per_alpha"], _blend(slots["per_alpha"], alpha))
    return _update_scale(out, warm, learn.n_step) if learn.reward == "marked_equity" else out


def _blend(old: Tensor, new: Tensor) -> Tensor:
    return old + BLEND * (new - old)


def _update_scale(slots: Values, warm: Tensor, n_step: int) -> Values:
    """Reward scale = root mean square n-step return; atom span covers a sum of such returns at gamma^n.

    Both are frozen once the buffer is full: a moving support would move every stored distribution's meaning.
    """
    square = slots["ema.return_square"]
    frozen = warm | (square == 0.0)
    out = dict(slots)
    out["reward_scale"] = torch.where(frozen, slots["reward_scale"], square.clamp(min=1e-6).sqrt())
    remaining = 1.0 - slots["gamma"].square() ** n_step
    span = (1.0 + 3.0 * torch.rsqrt(remaining.clamp(min=1e-3))).clamp(4.0, 12.0)
    out["atom_span"] = torch.where(frozen, slots["atom_span"], span)
    return out


def update_learning_rates(
    slots: Values, counts: Values, losses: Tensor, learn: LearnConfig
) -> tuple[Values, Values]:
    """Plateau rule of the groups (`losses [5]`, order of GROUPS), before the optimizer of the same step.

    After a warm-up, no gain of 1 % on the best average loss for 1,000 observations halves the rate, for ever.
    A loss of exactly zero is no observation. The rate of a group outside `learn.decaying_rates` stays.
    """
    out, tally = dict(slots), dict(counts)
    tally["lr_observations"] = counts["lr_observations"] + 1
    warm = tally["lr_observations"] > LR_WARMUP
    for group, loss in zip(GROUPS, losses.unbind(0), strict=True):
        seen = (loss != 0.0) & torch.isfinite(loss)
        average = blend_ema(slots[f"ema.loss.{group}"], loss, seen)
        best = slots[f"loss_best.{group}"]
        gained = average < best - LR_MIN_GAIN * best.abs()
        stale = torch.where(gained, 0, counts[f"lr_stale.{group}"] + 1)
        stale = torch.where(seen & warm, stale, counts[f"lr_stale.{group}"])
        halve = seen & warm & (stale >= LR_PATIENCE)
        out[f"ema.loss.{group}"] = average
        out[f"loss_best.{group}"] = torch.where(seen & (~warm | gained), average, best)
        if group not in learn.decaying_rates:
            tally[f"lr_stale.{group}"] = stale
            continue
        rate = slots[f"lr.{group}"]
        out[f"lr.{group}"] = torch.where(halve, rate * 0.5, rate).clamp(*LR_BOUNDS)
        tally[f"lr_stale.{group}"] = torch.where(halve, 0, stale)
    return out, tally
