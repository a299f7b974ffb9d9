"""Prioritized replay and the n-step rings that feed it, on the device (SYSTEM.md section 5).

A transition is one packed float32 row, so storing and sampling are one scatter and one gather. Feasibility
masks are 11-bit integers, exact in float32. Rows are written in place; everything else is functional.
Priorities are int64: their sums are exact, so sampling has no drift and no order dependence.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import Config
from trainer.types import NUM_ACTIONS, NUM_CONTEXT

PRIORITY_ONE = 1 << 16
"""Fixed-point unit of a stored priority^alpha."""
_PRIORITY_MAX = 1 << 31
SCALARS = ("returns", "reward", "discount", "log_prob", "action", "feasible", "next_feasible", "cut", "done")
"""Scalar columns of a packed row, after [h, next_h, context, next_context]."""


class Replay(NamedTuple):
    """`N` transitions and their bookkeeping."""

    rows: Tensor  # [N + spare, W] float32; written in place; spare rows take the writes that are not wanted
    priority: Tensor  # [N] int64 fixed-point priority^alpha, 0 = empty
    max_priority: Tensor  # [] int64
    head: Tensor  # [] int64 next slot
    filled: Tensor  # [] int64


class Ring(NamedTuple):
    """The last n decisions of every lane, slot = step mod n."""

    h: Tensor  # [n, B, D]
    context: Tensor  # [n, B, C]
    scalars: Tensor  # [n, B, 5] reward, log_prob, action, feasible, done
    length: Tensor  # [B] int64 decisions since the lane was last anchored, at most n


class Batch(NamedTuple):
    """Sampled transitions; `x` is the heads' input [h, context]."""

    slot: Tensor  # [S] int64 where in the replay
    weight: Tensor  # [S] importance weight, 0 when the buffer is empty
    x: Tensor  # [S, D + C]
    next_x: Tensor  # [S, D + C]
    feasible: Tensor  # [S, A] bool
    next_feasible: Tensor  # [S, A] bool
    action: Tensor  # [S] int64
    returns: Tensor  # [S] raw ticks
    discount: Tensor  # [S] gamma^n
    log_prob: Tensor  # [S]
    cut: Tensor  # [S] bool: no successor


def pack_mask(mask: Tensor) -> Tensor:
    """`[..., A] bool -> [...] float32` bit pattern."""
    bits = 1 << torch.arange(NUM_ACTIONS, device=mask.device)
    return torch.where(mask, bits, 0).sum(-1).to(torch.float32)


def unpack_mask(packed: Tensor) -> Tensor:
    """`[...] float32 -> [..., A] bool`."""
    bits = torch.arange(NUM_ACTIONS, device=packed.device)
    return ((packed.to(torch.int64)[..., None] >> bits) & 1).bool()


def row_width(config: Config) -> int:
    """W, columns of a packed transition."""
    return 2 * (config.agent.hidden + NUM_CONTEXT) + len(SCALARS)


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
    ring = Ring(
        h=torch.zeros(learn.n_step, b, config.agent.hidden, device=device),
        context=torch.zeros(learn.n_step, b, NUM_CONTEXT, device=device),
        scalars=torch.zeros(learn.n_step, b, 5, device=device),
        length=torch.zeros(b, dtype=torch.int64, device=device),
    )
    return replay, ring


def discounted_returns(rewards: Tensor, gamma: Tensor) -> Tensor:
    """`rewards [n, B]` oldest first -> `[n, B]`: row i sums gamma^k r_{i+k} to the end."""
    total = torch.zeros_like(rewards[0])
    out = []
    for reward in reversed(rewards.unbind(0)):
        total = reward + gamma * total
        out.append(total)
    return torch.stack(out[::-1])


def completed(
    ring: Ring, step: Tensor, h: Tensor, context: Tensor, feasible: Tensor, gamma: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows `[1, B, W]` and `[1, B] bool` of the decisions whose n rewards are in, bootstrapped from s_t."""
    n = ring.h.shape[0]
    oldest = (step % n)[None]
    order = (step + torch.arange(n, device=h.device)) % n
    returns = discounted_returns(ring.scalars[order, :, 0], gamma)[:1]
    scalars = ring.scalars[oldest]
    rest = (returns, gamma**n, pack_mask(feasible)[None], torch.zeros_like(returns))
    rows = _pack(ring.h[oldest], ring.context[oldest], h[None], context[None], scalars, rest)
    return rows, (ring.length == n)[None]


def flushed(ring: Ring, step: Tensor, truncated: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor, Ring]:
    """Rows `[n, B, W]` of all pending decisions of truncated lanes, without successor, and the emptied rings.

    Called after this step's decision was entered: a forced close has charged all its costs, so the rewards up
    to it are the whole return of a finite episode.
    """
    n = ring.h.shape[0]
    order = (step + 1 + torch.arange(n, device=truncated.device)) % n
    returns = discounted_returns(ring.scalars[order, :, 0], gamma)
    none = torch.zeros_like(returns)
    rest = (returns, gamma * 0.0, none, none + 1.0)
    h, context = ring.h[order], ring.context[order]
    rows = _pack(h, context, torch.zeros_like(h), torch.zeros_like(context), ring.scalars[order], rest)
    age = torch.arange(n - 1, -1, -1, device=truncated.device)[:, None]
    valid = truncated & (age < ring.length)
    return rows, valid, Ring(ring.h, ring.context, ring.scalars, torch.where(truncated, 0, ring.length))


def _pack(
    h: Tensor,
    context: Tensor,
    next_h: Tensor,
    next_context: Tensor,
    scalars: Tensor,
    rest: tuple[Tensor, Tensor, Tensor, Tensor],
) -> Tensor:
    """`[m, B, W]` rows of m decisions a lane; successors broadcast over m, columns go as in SCALARS."""
    returns, discount, next_feasible, cut = rest
    reward, log_prob, action, feasible, done = scalars.unbind(-1)
    gained = (returns, reward, discount.expand_as(returns), log_prob)
    columns = torch.stack((*gained, action, feasible, next_feasible, cut, done), -1)
    expand = h.shape[:2]
    return torch.cat([h, next_h.expand(*expand, -1), context, next_context.expand(*expand, -1), columns], -1)


def entered(ring: Ring, step: Tensor, h: Tensor, context: Tensor, scalars: Tensor) -> Ring:
    """The rings with this step's decision of every lane; `scalars [B, 5]`."""
    n = ring.h.shape[0]
    here = torch.arange(n, device=h.device)[:, None, None] == step % n
    return Ring(
        h=torch.where(here, h, ring.h),
        context=torch.where(here, context, ring.context),
        scalars=torch.where(here, scalars, ring.scalars),
        length=(ring.length + 1).clamp(max=n),
    )


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
    return _unpack(replay.rows[slot], slot, weight, config.agent.hidden)


def _drawn(sums: Tensor, draws: Tensor) -> Tensor:
    """`[S] int64` slots, one from each of S equal strata of the inclusive sums `[N] int64`."""
    count = draws.shape[0]
    stratum = torch.arange(count + 1, device=draws.device) * sums[-1] // count
    width = (stratum[1:] - stratum[:-1]).to(torch.float64)
    target = stratum[:-1] + (draws.to(torch.float64) * width).to(torch.int64)
    return torch.searchsorted(sums, target, right=True).clamp(max=sums.shape[0] - 1)


def _unpack(rows: Tensor, slot: Tensor, weight: Tensor, hidden: int) -> Batch:
    """The batch of packed `rows [S, W]`; the inverse of `_pack`."""
    widths = [hidden, hidden, NUM_CONTEXT, NUM_CONTEXT, len(SCALARS)]
    h, next_h, context, next_context, scalars = rows.split(widths, -1)
    column = dict(zip(SCALARS, scalars.unbind(-1), strict=True))
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
    )


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
