"""The adapting half of a step: optimizer, target network, controllers and the step's record."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.agent.layout import GROUPS
from trainer.learn.controllers import (
    LR_BOUNDS,
    Observations,
    update_averages,
    update_learning_rates,
    update_outputs,
)
from trainer.learn.learner import Learner
from trainer.learn.objective import ReplayLosses
from trainer.learn.optimizer import Moments, Update, adamw, polyak
from trainer.learn.reward import update_close_scale
from trainer.learn.rollout import Acted, Fresh
from trainer.learn.state import TrainState
from trainer.learn.telemetry import SHARE_NAMES, action_shares, record_row


def observations(fresh: Fresh, acted: Acted, losses: ReplayLosses, learned: Tensor) -> Observations:
    """This step's inputs of the controllers."""
    trades = acted.outcome.trades
    closed, num_trades = trades.closed, trades.closed.sum()
    wins = (closed & (trades.pnl_ticks > 0)).sum()
    limit = fresh.feasible.sum(-1).float().log()
    choice = limit > 0
    each, choices = num_trades.clamp(min=1), choice.sum().clamp(min=1)
    return Observations(
        trade_duration=_mean_of(trades.age, closed, each).float(),
        abs_trade_ticks=_mean_of(trades.pnl_ticks.abs(), closed, each).float(),
        win_rate=(wins / each).float(),
        num_trades=num_trades,
        num_wins=wins,
        order_share=acted.outcome.ordered.float().mean(),
        entropy=_mean_of(acted.entropy, choice, choices),
        entropy_limit=_mean_of(limit, choice, choices),
        entropy_share=_mean_of(acted.entropy / limit.clamp(min=1e-6), choice, choices),
        q_divergence=losses.divergence,
        policy_kl=losses.policy_kl,
        td_kurtosis=losses.td_kurtosis,
        return_square=losses.return_square,
        learned=learned,
    )


def _mean_of(values: Tensor, chosen: Tensor, count: Tensor) -> Tensor:
    """Sum of `values` where `chosen`, over `count`; `where`, as the log of no choice at all is infinite."""
    return torch.where(chosen, values, 0).sum() / count


class Adapted(NamedTuple):
    """Weights, optimizer and bus after the update."""

    params: Tensor
    target: Tensor
    moments: Moments
    bus: Tensor
    counts: Tensor
    record: Tensor


@torch.no_grad()
def adapt(
    learner: Learner,
    state: TrainState,
    grad: Tensor,
    fresh: Fresh,
    acted: Acted,
    losses: ReplayLosses,
    filled: Tensor,
) -> Adapted:
    """Learning rates, optimizer, target, then all other controllers; also the step's record."""
    slots, counts = learner.slots.read(state.bus), learner.slots.read_counts(state.counts)
    learn = learner.config.learn
    slots, counts = update_learning_rates(slots, counts, _group_losses(fresh, losses), learn)
    update, target = _optimized(learner, state, grad, slots)
    seen = observations(fresh, acted, losses, filled > 0)
    slots = update_averages(slots, seen, learn)
    slots = update_outputs(slots, counts, filled >= learn.per_capacity, learn)
    if learn.reward == "at_close":
        slots = update_close_scale(slots, acted.outcome.trades)
    counts = _counted(counts, seen, update.applied)
    record = record_row(
        _market_metrics(acted, seen)
        | _loss_metrics(fresh, losses)
        | _adaptive_metrics(slots, seen)
        | {"grad_norm": update.grad_norm, "skipped": counts["skipped_updates"], "filled": filled}
    )
    bus, tally = learner.slots.write(slots), learner.slots.write_counts(counts)
    return Adapted(update.params, target, update.moments, bus, tally, record)


def _group_losses(fresh: Fresh, losses: ReplayLosses) -> Tensor:
    """`[5]` in the order of GROUPS: what each group's learning rate is judged by."""
    own = fresh.supervised
    return torch.stack([own.labels, own.sizes + own.returns, losses.q, losses.policy, losses.value]).detach()


def _optimized(
    learner: Learner, state: TrainState, grad: Tensor, slots: dict[str, Tensor]
) -> tuple[Update, Tensor]:
    """AdamW with each group's own rate, then the target network `[P_q]` after the new weights of Q."""
    rates = torch.stack([slots[f"lr.{group}"] for group in GROUPS]).clamp(*LR_BOUNDS)[learner.group_index]
    if learner.rate_scale is not None:
        rates = rates * learner.rate_scale
    moments = Moments(state.adam_m, state.adam_v, state.adam_step)
    update = adamw(state.params, grad, moments, rates, learner.config.learn)
    start, end = learner.agent.layout.group_range("q")
    return update, polyak(state.target, update.params[start:end], slots["target_tau"].clamp(0.0, 1.0))


def _counted(counts: dict[str, Tensor], seen: Observations, applied: Tensor) -> dict[str, Tensor]:
    return counts | {
        "updates": counts["updates"] + 1,
        "skipped_updates": counts["skipped_updates"] + (~applied).to(torch.int64),
        "trades": counts["trades"] + seen.num_trades,
        "wins": counts["wins"] + seen.num_wins,
    }


def _market_metrics(acted: Acted, seen: Observations) -> dict[str, Tensor]:
    """What the lanes did in this step, over all of them."""
    outcome = acted.outcome
    return dict(zip(SHARE_NAMES, action_shares(outcome.executed), strict=True)) | {
        "trades": seen.num_trades,
        "wins": seen.num_wins,
        "pnl_ticks": outcome.reward_ticks.sum(),
        "reward_mean": outcome.reward_ticks.mean(),
        "in_market": (acted.lanes.lots != 0).float().mean(),
        "forced": outcome.trades.closed[:, 1].sum(),
        "defects": acted.lanes.defects.sum(),
    }


def _loss_metrics(fresh: Fresh, losses: ReplayLosses) -> dict[str, Tensor]:
    """Losses before their weights, and the size of the state that acts."""
    found = {
        "l_label": fresh.supervised.labels,
        "l_size": fresh.supervised.sizes,
        "l_return": fresh.supervised.returns,
        "l_q": losses.q,
        "l_pi": losses.policy,
        "l_v": losses.value,
        "l_distill": losses.distill,
        "l_ent": losses.entropy,
    }
    sizes = zip(("h_short", "h_medium", "h_long"), fresh.bucket_size.unbind(0), strict=True)
    return {name: loss.detach() for name, loss in found.items()} | dict(sizes)


def _adaptive_metrics(slots: dict[str, Tensor], seen: Observations) -> dict[str, Tensor]:
    """The controllers' outputs and averages after this step, and the readings behind them."""
    plain = ("gamma", "target_tau", "ppo_clip", "entropy_coef", "per_alpha", "reward_scale", "atom_span")
    return {name: slots[name] for name in plain} | {
        "wr": slots["ema.win"],
        "hold": 1.0 - slots["ema.order_share"],
        "ent": slots["ema.entropy"],
        "ent_share": slots["ema.entropy_share"],
        "mean_abs_trade": slots["ema.abs_trade"],
        "trade_duration": slots["ema.trade_duration"],
        "q_divergence": seen.q_divergence,
        "policy_kl": seen.policy_kl,
        "td_kurtosis": seen.td_kurtosis,
        **{f"lr_{group}": slots[f"lr.{group}"] for group in GROUPS},
    }
