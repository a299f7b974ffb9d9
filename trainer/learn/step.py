"""One learning step: observe, encode, act, replay the market, store, learn, adapt (SYSTEM.md section 8).

`step(state) -> state` reads and writes device tensors only. The forward that acts is the forward that trains:
h of step t+1 is the successor state of step t, so there is one encoder forward and one backward per step
(GPU.md lever 1). On a GPU the whole function is captured in one CUDA graph; on a CPU it runs as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainer.learn.adapt import adapt
from trainer.learn.learner import Learner
from trainer.learn.objective import ReplayLosses, replay_losses, total_loss
from trainer.learn.random import Stream, uniform
from trainer.learn.reencode import encoded_again
from trainer.learn.replay import Batch, Replay, reprioritized, sample, write
from trainer.learn.rollout import Acted, act, forward
from trainer.learn.state import TrainState
from trainer.learn.telemetry import RECORD_RING
from trainer.learn.tree import CompiledTree


def learn(learner: Learner, params: Tensor, target: Tensor, batch: Batch, bus: Tensor) -> ReplayLosses:
    """The replayed losses; their gradient stays in the heads unless `encoder_rl` lets it into the encoder."""
    layout, cfg = learner.agent.layout, learner.config.learn
    weights, old = layout.unflatten(params), layout.unflatten(target, only="q")
    batch = encoded_again(learner, weights, batch)
    return replay_losses(learner.agent, weights, old, batch, learner.slots.read(bus), cfg)


@torch.no_grad()
def draw(learner: Learner, state: TrainState, replay: Replay) -> Batch:
    """The batch of this step."""
    draws = uniform(state.seed, state.step, Stream.REPLAY, (learner.config.learn.batch_size,))
    beta = learner.slots.read(state.bus)["per_beta"].clamp(0.0, 1.0)
    return sample(replay, draws, beta, learner.config)


@dataclass(frozen=True)
class Parts:
    """The functions a step is made of, plain or compiled; each its own graph, as gradients cross between."""

    forward: Callable[..., Any] = forward
    act: Callable[..., Any] = act
    draw: Callable[..., Any] = draw
    learn: Callable[..., Any] = learn
    adapt: Callable[..., Any] = adapt

    def compiled(self, backend: str = "inductor") -> "Parts":
        """All parts through torch.compile, without its own CUDA graphs: ours captures the whole step."""
        options: dict[str, Any] = {"fullgraph": True, "dynamic": False, "backend": backend}
        return Parts(
            forward=CompiledTree(self.forward, differentiated=True, **options),
            act=CompiledTree(self.act, **options),
            draw=CompiledTree(self.draw, **options),
            learn=CompiledTree(self.learn, differentiated=True, **options),
            adapt=CompiledTree(self.adapt, **options),
        )


def step(learner: Learner, state: TrainState, parts: Parts) -> TrainState:
    """The next state. `replay.rows` is updated in place; every other tensor of `state` is left as it was."""
    params = state.params.detach().requires_grad_()
    fresh = parts.forward(learner, params, state.lanes, state.bus)
    acted: Acted = parts.act(learner, state, params.detach(), fresh)
    replay = write(state.replay, acted.rows, acted.valid)
    batch: Batch = parts.draw(learner, state, replay)
    losses: ReplayLosses = parts.learn(learner, params, state.target, batch, state.bus)
    slots = learner.slots.read(state.bus)
    loss = total_loss(fresh.supervised, losses, slots, learner.config.learn) + fresh.distill
    (grad,) = torch.autograd.grad(loss, params)
    new = parts.adapt(learner, state, grad, fresh, acted, losses, replay.filled)
    replay = reprioritized(replay, batch.slot, losses.error, slots["per_alpha"].clamp(0.0, 1.0))
    row = (state.step % RECORD_RING)[None]
    return TrainState(
        seed=state.seed,
        step=state.step + 1,
        params=new.params,
        target=new.target,
        adam_m=new.moments.m,
        adam_v=new.moments.v,
        adam_step=new.moments.step,
        bus=new.bus,
        counts=new.counts,
        lanes=acted.lanes,
        ring=acted.ring,
        replay=replay,
        records=state.records.index_copy(0, row, new.record[None]),
    )
