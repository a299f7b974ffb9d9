"""The acting half of a step: observe, encode, act, replay the market, enter the decision."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.agent.layout import Weights
from trainer.agent.losses import policy_entropy
from trainer.config import LearnConfig
from trainer.learn.learner import Learner
from trainer.learn.objective import SupervisedLosses, fresh_distillation, supervised_losses
from trainer.learn.random import Stream, integers, uniform
from trainer.learn.reward import stored_reward
from trainer.learn.ring import Now, Ring, completed, entered, flushed, pack_mask
from trainer.learn.state import TrainState
from trainer.market.context import context_features
from trainer.market.lanes import Lanes, Outcome
from trainer.market.orders import feasible_actions
from trainer.market.step import step_lanes
from trainer.market.stops import risk_stage
from trainer.market.tape import look_back, observe


class Fresh(NamedTuple):
    """The forward pass at the lanes' current rows."""

    h: Tensor  # [B, D] newest state, detached
    context: Tensor  # [B, C]
    feasible: Tensor  # [B, A]
    supervised: SupervisedLosses
    distill: Tensor  # scalar; zero unless `encoder_distill` > 0
    bucket_size: Tensor  # [H] mean |h| per horizon bucket


class Acted(NamedTuple):
    """What acting and the market did."""

    lanes: Lanes
    outcome: Outcome
    entropy: Tensor  # [B] of the policy over feasible actions
    ring: Ring
    rows: Tensor  # [(n + 1) B, W] candidate transitions
    valid: Tensor  # [(n + 1) B] bool


def forward(learner: Learner, params: Tensor, lanes: Lanes, bus: Tensor) -> Fresh:
    """Observes rows up to each lane's cursor and encodes them.

    Labels belong to the same rows; they look ahead, so a learner's tape ends with the train window.
    """
    agent, tape, cfg = learner.agent, learner.tape, learner.config
    slots, w = learner.slots.read(bus), learner.agent.layout.unflatten(params)
    context = context_features(tape, lanes, slots["ema.abs_trade"], cfg.market, learner.instrument)
    feasible = feasible_actions(tape, lanes, cfg.market)
    features, elapsed = observe(tape, lanes.cursor, cfg.data.window_rows)
    h = agent.encode(w, features, elapsed, context)
    losses = _supervised(learner, w, h, lanes.cursor)
    newest = h[:, -1]
    distill = torch.zeros((), device=h.device)
    if cfg.learn.encoder_distill > 0:
        x = torch.cat([newest, context], -1)
        distill = cfg.learn.encoder_distill * fresh_distillation(agent, w, x, feasible, slots)
    sizes = torch.stack([part.detach().abs().mean() for part in newest.split(list(agent.cfg.buckets), -1)])
    return Fresh(newest.detach(), context, feasible, losses, distill, sizes)


def _supervised(learner: Learner, w: Weights, h: Tensor, cursor: Tensor) -> SupervisedLosses:
    """Losses of the label and return heads on `h [B, K, D]`; zero without their weight."""
    tape, cfg = learner.tape, learner.config
    if cfg.learn.supervised_weight == 0:
        return SupervisedLosses(*(torch.zeros((), device=h.device) for _ in range(3)))
    rows = look_back(tape, cursor, cfg.data.window_rows)
    labels = (tape.labels[rows], tape.label_valid[rows], tape.return_class[cursor])
    return supervised_losses(learner.agent, w, h, *labels, learner.move_sd)


@torch.no_grad()
def act(learner: Learner, state: TrainState, params: Tensor, fresh: Fresh) -> Acted:
    """Samples a masked action per lane, applies the risk stage, steps the market and enters the decision."""
    w = learner.agent.layout.unflatten(params)
    log_policy = learner.agent.policy(w, torch.cat([fresh.h, fresh.context], -1), fresh.feasible)
    action = _chosen(learner, state, log_policy)
    anchors = learner.tape.anchors
    anchor = anchors[integers(state.seed, state.step, Stream.ANCHOR, action.shape[0], anchors.shape[0])]
    lanes, outcome = step_lanes(learner.tape, state.lanes, action, anchor, learner.config, learner.instrument)
    slots = learner.slots.read(state.bus)
    ring, rows, valid = _stored(state, fresh, outcome, log_policy, slots, learner.config.learn)
    return Acted(lanes, outcome, policy_entropy(log_policy, fresh.feasible), ring, rows, valid)


def _chosen(learner: Learner, state: TrainState, log_policy: Tensor) -> Tensor:
    """`[B] int64` actions drawn from `log_policy [B, A]`, overruled where the risk stage closes."""
    slots = learner.slots.read(state.bus)
    noise = uniform(state.seed, state.step, Stream.ACTION, tuple(log_policy.shape))
    action = (log_policy - torch.log(-torch.log(noise))).argmax(-1)  # Gumbel-max: one draw per lane
    stop, typical = slots["stop_loss_ratio"], slots["ema.abs_trade"]
    action, _ = risk_stage(learner.tape, state.lanes, action, stop, typical, learner.config.market)
    return action


def _stored(
    state: TrainState,
    fresh: Fresh,
    outcome: Outcome,
    log_policy: Tensor,
    slots: dict[str, Tensor],
    learn: LearnConfig,
) -> tuple[Ring, Tensor, Tensor]:
    """The ring with this decision entered, and the transitions that became whole: `[(n + 1) B, W]`, valid."""
    now = Now(fresh.h, fresh.context, fresh.feasible, state.lanes.cursor)
    gamma = slots["gamma"].clamp(0.0, 1.0)
    ready_rows, ready = completed(state.ring, state.step, now, gamma, learn)
    reward = stored_reward(outcome, slots, learn)
    log_prob = log_policy.gather(1, outcome.executed[:, None])[:, 0]
    scalars = torch.stack(
        [reward, log_prob, outcome.executed.float(), pack_mask(fresh.feasible), outcome.done.float()], -1
    )
    ring = entered(state.ring, state.step, now, scalars, learn)
    flush_rows, flush, ring = flushed(ring, state.step, outcome.truncated, gamma, learn)
    rows = torch.cat([ready_rows, flush_rows]).flatten(0, 1)
    valid = torch.cat([ready, flush]).flatten()
    return ring, rows, valid
