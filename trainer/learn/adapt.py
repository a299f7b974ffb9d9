"""The adapting half of a step: optimizer, target network, controllers and the step's record."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.agent.layout import GROUPS
from trainer.learn.controllers import Observations, update_averages, update_learning_rates, update_outputs
from trainer.learn.learner import Learner
from trainer.learn.objective import ReplayLosses
from trainer.learn.optimizer import Moments, adamw, polyak
from trainer.learn.rollout import Acted, Fresh
from trainer.learn.state import TrainState
from trainer.learn.telemetry import SHARE_NAMES, action_shares, record_row


def observations(fresh: Fresh, acted: Acted, losses: ReplayLosses, learned: Tensor) -> Observations:
    """This step's inputs of the controllers."""
    trades = acted.outcome.trades
    closed, count = trades.closed, trades.closed.sum()
    each = count.clamp(min=1)
    wins = (closed & (trades.pnl_ticks > 0)).sum()
    limit = fresh.feasible.sum(-1).float().log()
    choice = limit > 0
    choices = choice.sum().clamp(min=1)

    def over_choices(values: Tensor) -> Tensor:
        return torch.where(choice, values, 0.0).sum() / choices

    return Observations(
        trade_duration=(torch.where(closed, trades.age, 0).sum() / each).float(),
        abs_trade_ticks=(torch.where(closed, trades.pnl_ticks.abs(), 0.0).sum() / each).float(),
        win_rate=(wins / each).float(),
        num_trades=count,
        num_wins=wins,
        order_share=acted.outcome.ordered.float().mean(),
        entropy=over_choices(acted.entropy),
        entropy_limit=over_choices(limit),
        entropy_share=over_choices(acted.entropy / limit.clamp(min=1e-6)),
        q_divergence=losses.divergence,
        policy_kl=losses.policy_kl,
        td_kurtosis=losses.td_kurtosis,
        return_square=losses.return_square,
        learned=learned,
    )


class Adapted(NamedTuple):
    """Weights, optimizer and bus after the update."""

    params: Tensor
    target: Tensor
    moments: Moments
    bus: Tensor
    counts: Tensor
    record: Tensor


def adapt(
    learner: Learner, state: TrainState, grad: Tensor, fresh: Fresh, acted: Acted, losses: ReplayLosses, filled: Tensor
) -> Adapted:
    """Learning rates, optimizer, target, then all other controllers; also the step's record."""
    slots, counts = learner.slots.read(state.bus), learner.slots.read_counts(state.counts)
    by_group = torch.stack(
        [fresh.supervised.labels.detach(), (fresh.supervised.sizes + fresh.supervised.returns).detach(),
         losses.q.detach(), losses.policy.detach(), losses.value.detach()]
    )  # fmt: skip
    slots, counts = update_learning_rates(slots, counts, by_group)
    rates = torch.stack([slots[f"lr.{group}"] for group in GROUPS])[learner.group_index]
    moments = Moments(state.adam_m, state.adam_v, state.adam_step)
    update = adamw(state.params, grad, moments, rates, learner.config.learn)
    start, end = learner.agent.layout.group_range("q")
    target = polyak(state.target, update.params[start:end], slots["target_tau"].clamp(0.0, 1.0))

    seen = observations(fresh, acted, losses, filled > 0)
    slots = update_averages(slots, seen)
    slots = update_outputs(slots, counts, filled >= learner.config.learn.per_capacity)
    counts["updates"] = counts["updates"] + 1
    counts["skipped_updates"] = counts["skipped_updates"] + (~update.applied).to(torch.int64)
    counts["trades"], counts["wins"] = counts["trades"] + seen.num_trades, counts["wins"] + seen.num_wins
    record = _record(slots, counts, seen, fresh, acted, losses, update.grad_norm, filled)
    bus, tally = learner.slots.write(slots), learner.slots.write_counts(counts)
    return Adapted(update.params, target, update.moments, bus, tally, record)


def _record(
    slots: dict[str, Tensor], counts: dict[str, Tensor], seen: Observations, fresh: Fresh, acted: Acted,
    losses: ReplayLosses, grad_norm: Tensor, filled: Tensor,
) -> Tensor:
    outcome = acted.outcome
    shares = dict(
        zip(SHARE_NAMES, action_shares(outcome.executed), strict=True)
    )
    return record_row({
        "wr": slots["ema.win"], "hold": 1.0 - slots["ema.order_share"], "ent": slots["ema.entropy"],
        "ent_share": slots["ema.entropy_share"], "trades": seen.num_trades, "wins": seen.num_wins,
        "pnl_ticks": outcome.reward_ticks.sum(), "reward_mean": outcome.reward_ticks.mean(),
        "in_market": (acted.lanes.lots != 0).float().mean(), "forced": outcome.trades.closed[:, 1].sum(),
        "l_label": fresh.supervised.labels.detach(), "l_size": fresh.supervised.sizes.detach(),
        "l_return": fresh.supervised.returns.detach(), "l_q": losses.q.detach(), "l_pi": losses.policy.detach(),
        "l_v": losses.value.detach(), "l_distill": losses.distill.detach(), "l_ent": losses.entropy.detach(),
        **{f"lr_{group}": slots[f"lr.{group}"] for group in GROUPS},
        "grad_norm": grad_norm, "skipped": counts["skipped_updates"], "gamma": slots["gamma"],
        "target_tau": slots["target_tau"], "ppo_clip": slots["ppo_clip"], "entropy_coef": slots["entropy_coef"],
        "per_alpha": slots["per_alpha"], "reward_scale": slots["reward_scale"], "atom_span": slots["atom_span"],
        "q_divergence": seen.q_divergence, "policy_kl": seen.policy_kl, "td_kurtosis": seen.td_kurtosis,
        "mean_abs_trade": slots["ema.abs_trade"], "trade_duration": slots["ema.trade_duration"], "filled": filled,
        "defects": acted.lanes.defects.sum(), "h_short": fresh.bucket_size[0], "h_medium": fresh.bucket_size[1],
        "h_long": fresh.bucket_size[2], **shares,
    })  # fmt: skip
