"""Prioritized replay on the device (SYSTEM.md section 5).

A transition is one packed float32 row (`ring.py`), so storing and sampling are one scatter and one gather.
Rows are written in place; everything else is functional. Priorities are int64: their sums are exact, so
sampling has no drift and no order dependence.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import Config
from trainer.learn.ring import Ring, empty_ring, join_row, row_width, scalar_names, unpack_mask
from trainer.types import NUM_ACTIONS, NUM_CONTEXT

PRIORITY_ONE = 1 << 16
"""Fixed-point unit of a stored priority^alpha."""
_PRIORITY_MAX = 1 << 31


class Replay(NamedTuple):
    """`N` transitions and their bookkeeping."""

    rows: Tensor  # [N + spare, W] float32; written in place; spare rows take the writes that are not wanted
    priority: Tensor  # [N] int64 fixed-point priority^alpha, 0 = empty
    max_priority: Tensor  # [] int64
    head: Tensor  # [] int64 next slot
    filled: Tensor  # [] int64


class Nothing(NamedTuple):
    """Stands where the rules of a run read no such columns: a tree without tensors."""


class StepClose(NamedTuple):
    """Of the sampled step alone (`learn.advantage = "done_only"`)."""

    reward: Tensor  # [S] as stored
    done: Tensor  # [S] bool: it closed a trade


class UntilClose(NamedTuple):
    """The return that ends with the first close (`learn.td_cut = "done"`)."""

    returns: Tensor  # [S]
    closes: Tensor  # [S] bool: a trade closed within the n decisions


class Origin(NamedTuple):
    """Where the states came from (`learn.encoder_rl > 0`)."""

    row: Tensor  # [S] int64 tape row of s_t
    next_row: Tensor  # [S] int64 tape row of s_{t+n}, 0 without one


class Batch(NamedTuple):
    """Sampled transitions; `x` is the heads' input [h, context]."""

    slot: Tensor  # [S] int64 where in the replay
    weight: Tensor  # [S] importance weight, 0 when the buffer is empty
    x: Tensor  # [S, D + C]
    next_x: Tensor  # [S, D + C]
    feasible: Tensor  # [S, A] bool
    next_feasible: Tensor  # [S, A] bool
    action: Tensor  # [S] int64
    returns: Tensor  # [S] raw ticks; reward units with `learn.reward = "at_close"`
    discount: Tensor  # [S] gamma^n
    log_prob: Tensor  # [S]
    cut: Tensor  # [S] bool: no successor
    step_close: StepClose | Nothing = Nothing()
    until_close: UntilClose | Nothing = Nothing()
    origin: Origin | Nothing = Nothing()


def empty_replay(config: Config, device: torch.device) -> tuple[Replay, Ring]:
    """An empty buffer and empty rings."""
    learn, b = config.learn, config.learn.n_backtests
    spare = (learn.n_step + 1) * b
    count = torch.zeros((), dtype=torch.int64, device=device)
    replay = Replay(
        rows=torch.zeros(learn.per_capacity + spare, row_width(config), device=device),
        priority=torch.zeros(learn.per_capacity, dtype=torch.int64, device=device),
        max_priority=count + int(learn.initial_priority * PRIORITY_ONE),
        head=count.clone(),
        filled=count.clone(),
    )
    return replay, empty_ring(config, device)


def write_slots(head: Tensor, rank: Tensor, valid: Tensor, capacity: int) -> Tensor:
    """`[M] int64` distinct rows of the buffer from the inclusive prefix sum `rank [M]` of `valid [M]`.

    Invalid rows go to spare ones behind the buffer, and so do the oldest when more than N are valid (all
    lanes of a small buffer truncated at once): two writers of one slot would race.
    """
    kept = valid & (rank > rank[-1] - capacity)
    spare = capacity + torch.arange(rank.shape[0], device=rank.device)
    return torch.where(kept, (head + rank - 1) % capacity, spare)


def write(replay: Replay, rows: Tensor, valid: Tensor) -> Replay:
    """Appends the valid of `rows [M, W]` in order; slots come from a prefix sum, one writer per slot.

    `replay.rows` is updated in place. The buffer grows by exactly the number of valid rows and caps at N.
    """
    capacity = replay.priority.shape[0]
    rank = valid.to(torch.int64).cumsum(0)
    slot = write_slots(replay.head, rank, valid, capacity)
    replay.rows.index_copy_(0, slot, rows)
    touched = torch.zeros(replay.rows.shape[0], dtype=torch.bool, device=rows.device)
    touched = touched.index_copy(0, slot, valid)[:capacity]
    return replay._replace(
        priority=torch.where(touched, replay.max_priority, replay.priority),
        head=(replay.head + rank[-1]) % capacity,
        filled=(replay.filled + rank[-1]).clamp(max=capacity),
    )


def sample(replay: Replay, draws: Tensor, beta: Tensor, config: Config) -> Batch:
    """Stratified proportional sampling with exact integer sums; `draws [S] float32` in (0, 1)."""
    priority = replay.priority if config.learn.prioritized else (replay.priority > 0).to(torch.int64)
    sums = priority.cumsum(0)
    total = sums[-1]
    slot = _drawn(sums, draws)
    share = priority[slot].to(torch.float32) / total.clamp(min=1)
    weight = (replay.filled * share).clamp(min=1e-12) ** -beta
    weight = torch.where(total > 0, weight / weight.max(), 0.0)
    return _unpack(replay.rows[slot], slot, weight, config)


def _drawn(sums: Tensor, draws: Tensor) -> Tensor:
    """`[S] int64` slots, one from each of S equal strata of the inclusive sums `[N] int64`."""
    count = draws.shape[0]
    part, total = torch.arange(count + 1, device=draws.device), sums[-1]
    # part * total // count, without the product: N priorities at their maximum times S would leave int64.
    stratum = part * (total // count) + part * (total % count) // count
    width = (stratum[1:] - stratum[:-1]).to(torch.float64)
    target = stratum[:-1] + (draws.to(torch.float64) * width).to(torch.int64)
    return torch.searchsorted(sums, target, right=True).clamp(max=sums.shape[0] - 1)


def _unpack(rows: Tensor, slot: Tensor, weight: Tensor, config: Config) -> Batch:
    """The batch of packed `rows [S, W]`; the inverse of `ring._pack`."""
    hidden, learn, names = config.agent.hidden, config.learn, scalar_names(config)
    h, next_h, context, next_context, scalars = rows.split(
        [hidden, hidden, NUM_CONTEXT, NUM_CONTEXT, len(names)], -1
    )
    column = dict(zip(names, scalars.unbind(-1), strict=True))
    hold = torch.arange(NUM_ACTIONS, device=rows.device) == 0  # an empty mask would have no best action
    return Batch(
        slot=slot,
        weight=weight,
        x=torch.cat([h, context], -1),
        next_x=torch.cat([next_h, next_context], -1),
        feasible=unpack_mask(column["feasible"]) | hold,
        next_feasible=unpack_mask(column["next_feasible"]) | hold,
        action=column["action"].to(torch.int64),
        returns=column["returns"],
        discount=column["discount"],
        log_prob=column["log_prob"],
        cut=column["cut"] > 0.5,
        step_close=_step_close(column) if learn.advantage == "done_only" else Nothing(),
        until_close=_until_close(column) if learn.td_cut == "done" else Nothing(),
        origin=_origin(column) if learn.encoder_rl > 0 else Nothing(),
    )


def _step_close(column: dict[str, Tensor]) -> StepClose:
    return StepClose(column["reward"], column["done"] > 0.5)


def _until_close(column: dict[str, Tensor]) -> UntilClose:
    return UntilClose(column["close_returns"], column["closes"] > 0.5)


def _origin(column: dict[str, Tensor]) -> Origin:
    row = join_row(column["row_high"], column["row_low"])
    return Origin(row, join_row(column["next_row_high"], column["next_row_low"]))


def reprioritized(replay: Replay, slot: Tensor, error: Tensor, alpha: Tensor) -> Replay:
    """Stores error^alpha at `slot [S]`; duplicates agree by integer maximum, so order cannot matter."""
    fixed = ((error.clamp(min=1e-4) ** alpha) * PRIORITY_ONE).clamp(max=float(_PRIORITY_MAX))
    fixed = torch.where(torch.isfinite(error), fixed, float(PRIORITY_ONE)).to(torch.int64).clamp(min=1)
    known = replay.priority[slot] > 0  # an empty buffer stays empty
    fixed = torch.where(known, fixed, 0)
    return replay._replace(
        priority=replay.priority.scatter_reduce(0, slot, fixed, "amax", include_self=False),
        max_priority=torch.maximum(replay.max_priority, fixed.max()),
    )
