"""Rings and buffer driven as a step drives them, beside a loop over lanes that says what must come out."""

from dataclasses import dataclass, field

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from trainer.config import Config
from trainer.learn.replay import Replay, empty_replay, write
from trainer.learn.ring import SCALARS, Now, completed, entered, flushed, pack_mask, unpack_mask
from trainer.presets import demo
from trainer.types import NUM_ACTIONS, NUM_CONTEXT

CPU = torch.device("cpu")
GAMMA = 0.9
D = 8


def configured(n_step: int = 3, lanes: int = 4, capacity: int = 64, **rules: object) -> Config:
    learn = {"n_step": n_step, "n_backtests": lanes, "per_capacity": capacity, **rules}
    return demo().replaced(agent={"hidden": D, "buckets": (4, 2, 2)}, learn=learn)


@dataclass
class Expected:
    """What a loop over one lane says: (decided step, return, discount, next step or None)."""

    n: int
    pending: list[tuple[int, float]] = field(default_factory=list)
    out: list[tuple[int, float, float, int | None]] = field(default_factory=list)

    def advance(self, step: int, reward: float, truncated: bool) -> None:
        if len(self.pending) == self.n:
            total = sum(GAMMA**k * r for k, (_, r) in enumerate(self.pending))
            self.out.append((self.pending.pop(0)[0], total, GAMMA**self.n, step))
        self.pending.append((step, reward))
        while truncated and self.pending:
            total = sum(GAMMA**k * r for k, (_, r) in enumerate(self.pending))
            self.out.append((self.pending.pop(0)[0], total, 0.0, None))


def mask_of(step: int, lane: int) -> int:
    return (step * 37 + lane * 11) % (1 << NUM_ACTIONS)


def row_of(step: int, lane: int) -> int:
    """Rows that no float32 holds exactly."""
    return 2**31 + 2**24 * step + 2 * lane + 1


def observed(step: int, lanes: int) -> Now:
    """What lanes stand at in a step; it names step and lane."""
    h, context = torch.zeros(lanes, D), torch.zeros(lanes, NUM_CONTEXT)
    h[:, 0], h[:, 1] = step, torch.arange(lanes)
    context[:, 0], context[:, 1] = step, torch.arange(lanes)
    feasible = unpack_mask(torch.tensor([float(mask_of(step, lane)) for lane in range(lanes)]))
    return Now(h, context, feasible, torch.tensor([row_of(step, lane) for lane in range(lanes)]))


def play(
    config: Config, truncated: np.ndarray, rewards: np.ndarray, done: np.ndarray | None = None
) -> tuple[Replay, list[Tensor], list[Expected]]:
    """Drives rings and buffer as a step does; also all transitions in order, and the loop's answer."""
    learn, gamma = config.learn, torch.tensor(GAMMA)
    replay, ring = empty_replay(config, CPU)
    written, expected = [], [Expected(learn.n_step) for _ in range(learn.n_backtests)]
    for t in range(len(truncated)):
        step, now = torch.tensor(t), observed(t, learn.n_backtests)
        ready_rows, ready = completed(ring, step, now, gamma, learn)
        reward = torch.tensor(rewards[t], dtype=torch.float32)
        action = torch.full_like(reward, float(t % NUM_ACTIONS))
        closed = torch.ones_like(reward) if done is None else torch.tensor(done[t], dtype=torch.float32)
        scalars = torch.stack([reward, -reward, action, pack_mask(now.feasible), closed], -1)
        ring = entered(ring, step, now, scalars, learn)
        flush_rows, flush, ring = flushed(ring, step, torch.tensor(truncated[t]), gamma, learn)
        rows = torch.cat([ready_rows, flush_rows]).flatten(0, 1)
        valid = torch.cat([ready, flush]).flatten()
        before = int(replay.filled)
        replay = write(replay, rows, valid)
        assert int(replay.filled) == min(before + int(valid.sum()), learn.per_capacity)
        written += list(rows[valid])
        for lane, loop in enumerate(expected):
            loop.advance(t, float(rewards[t, lane]), bool(truncated[t, lane]))
    return replay, written, expected


def column(row: Tensor, name: str, names: tuple[str, ...] = SCALARS) -> float:
    return row[len(row) - len(names) + names.index(name)].item()


@st.composite
def games(draw: st.DrawFn) -> tuple[Config, np.ndarray, np.ndarray]:
    n_step, lanes, steps = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 20))
    seed, share = draw(st.integers(0, 10_000)), draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    rng = np.random.default_rng(seed)
    config = configured(n_step, lanes, draw(st.sampled_from([4, 16, 64])))
    return config, rng.random((steps, lanes)) < share, rng.normal(size=(steps, lanes))
