"""Everything that one step reads and the next one needs: a tree of device tensors."""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.config import Config
from trainer.learn.bus import Slots
from trainer.learn.random import Stream, integers
from trainer.learn.replay import Replay, empty_replay
from trainer.learn.ring import Ring
from trainer.learn.telemetry import METRIC_NAMES, RECORD_RING
from trainer.market.lanes import Lanes, reset_lanes
from trainer.market.tape import Tape


class TrainState(NamedTuple):
    """The whole state of training. A checkpoint is this, nothing else."""

    seed: Tensor  # [] int64
    step: Tensor  # [] int64 completed steps
    params: Tensor  # [P] float32
    target: Tensor  # [P_q] float32 target network of Q
    adam_m: Tensor  # [P]
    adam_v: Tensor  # [P]
    adam_step: Tensor  # [] int64 applied updates
    bus: Tensor  # [M] float32
    counts: Tensor  # [len(COUNTS)] int64
    lanes: Lanes
    ring: Ring
    replay: Replay
    records: Tensor  # [RECORD_RING, len(METRIC_NAMES)] float32, row = step mod ring


def initial_state(config: Config, agent: Agent, tape: Tape) -> TrainState:
    """The state before step 1: fresh weights, empty replay, lanes anchored at random.

    First episodes have random lengths, so that lanes do not end together for ever after.
    """
    device = tape.ts_ns.device
    b, learn = config.learn.n_backtests, config.learn
    seed = torch.tensor(learn.seed, dtype=torch.int64, device=device)
    zero = torch.zeros((), dtype=torch.int64, device=device)
    starts = tape.anchors[integers(seed, zero, Stream.START, b, tape.anchors.shape[0])]
    episodes = config.market.episode_decisions
    least = config.market.entry_guard_decisions + 2
    left = least + integers(seed, zero, Stream.EPISODE, b, max(episodes - least, 1))
    params = agent.layout.initial(learn.seed).to(device)
    start, end = agent.layout.group_range("q")
    bus, counts = Slots(config).initial(device)
    replay, ring = empty_replay(config, device)
    return TrainState(
        seed=seed,
        step=zero,
        params=params,
        target=params[start:end].clone(),
        adam_m=torch.zeros_like(params),
        adam_v=torch.zeros_like(params),
        adam_step=zero.clone(),
        bus=bus,
        counts=counts,
        lanes=reset_lanes(tape, starts, None, left, config.market),
        ring=ring,
        replay=replay,
        records=torch.zeros(RECORD_RING, len(METRIC_NAMES), device=device),
    )
