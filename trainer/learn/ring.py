"""The n-step rings: every lane's last n decisions, and the packed transitions that they become.

A transition is one float32 row (SYSTEM.md section 5): [h, next_h, context, next_context] and named scalars.
Feasibility masks are 11-bit integers, exact in float32; tape rows are split in two such. Columns that only
some rules read (`scalar_names`) exist only under those rules.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.config import Config, LearnConfig
from trainer.types import NUM_ACTIONS, NUM_CONTEXT

SCALARS = ("returns", "reward", "discount", "log_prob", "action", "feasible", "next_feasible", "cut", "done")
"""Scalar columns that every packed row has, after [h, next_h, context, next_context]."""
CLOSE_SCALARS = ("close_returns", "closes")
"""Rewards summed to the first close, and whether one lies within n decisions (`learn.td_cut = "done"`)."""
ORIGIN_SCALARS = ("row_high", "row_low", "next_row_high", "next_row_low")
"""Tape rows of s_t and s_{t+n} (`learn.encoder_rl > 0`)."""
_RING_SCALARS = 5  # reward, log_prob, action, feasible, done
_ROW_BITS = 20  # of the lower part: both parts stay under 2^24, where float32 counts exactly, up to row 2^44


class Ring(NamedTuple):
    """The last n decisions of every lane, slot = step mod n."""

    h: Tensor  # [n, B, D]
    context: Tensor  # [n, B, C]
    scalars: Tensor  # [n, B, 5] reward, log_prob, action, feasible, done; with ORIGIN_SCALARS also the row
    length: Tensor  # [B] int64 decisions since the lane was last anchored, at most n


class Now(NamedTuple):
    """What the lanes stand at: the state that this step's decision is taken in."""

    h: Tensor  # [B, D]
    context: Tensor  # [B, C]
    feasible: Tensor  # [B, A] bool
    row: Tensor  # [B] int64 tape row


def scalar_names(config: Config) -> tuple[str, ...]:
    """Scalar columns of a packed row under `config`, in order."""
    learn = config.learn
    close = CLOSE_SCALARS if learn.td_cut == "done" else ()
    return SCALARS + close + (ORIGIN_SCALARS if learn.encoder_rl > 0 else ())


def row_width(config: Config) -> int:
    """W, columns of a packed transition."""
    return 2 * (config.agent.hidden + NUM_CONTEXT) + len(scalar_names(config))


def empty_ring(config: Config, device: torch.device) -> Ring:
    """Rings that hold nothing."""
    n, b = config.learn.n_step, config.learn.n_backtests
    width = _RING_SCALARS + (2 if config.learn.encoder_rl > 0 else 0)
    return Ring(
        h=torch.zeros(n, b, config.agent.hidden, device=device),
        context=torch.zeros(n, b, NUM_CONTEXT, device=device),
        scalars=torch.zeros(n, b, width, device=device),
        length=torch.zeros(b, dtype=torch.int64, device=device),
    )


def pack_mask(mask: Tensor) -> Tensor:
    """`[..., A] bool -> [...] float32` bit pattern."""
    bits = 1 << torch.arange(NUM_ACTIONS, device=mask.device)
    return torch.where(mask, bits, 0).sum(-1).to(torch.float32)


def unpack_mask(packed: Tensor) -> Tensor:
    """`[...] float32 -> [..., A] bool`."""
    bits = torch.arange(NUM_ACTIONS, device=packed.device)
    return ((packed.to(torch.int64)[..., None] >> bits) & 1).bool()


def split_row(row: Tensor) -> tuple[Tensor, Tensor]:
    """Upper and lower part of `row [...] int64 < 2^44`, float32, each exact."""
    return (row >> _ROW_BITS).to(torch.float32), (row & ((1 << _ROW_BITS) - 1)).to(torch.float32)


def join_row(high: Tensor, low: Tensor) -> Tensor:
    """The inverse of `split_row`, int64."""
    return (high.to(torch.int64) << _ROW_BITS) | low.to(torch.int64)


def discounted_returns(rewards: Tensor, gamma: Tensor) -> Tensor:
    """`rewards [n, B]` oldest first -> `[n, B]`: row i sums gamma^k r_{i+k} to the end."""
    total = torch.zeros_like(rewards[0])
    out = []
    for reward in reversed(rewards.unbind(0)):
        total = reward + gamma * total
        out.append(total)
    return torch.stack(out[::-1])


def returns_until_close(rewards: Tensor, done: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    """As `discounted_returns`, but row i ends with its first `done [n, B] bool`; and whether it has one."""
    total, closes = torch.zeros_like(rewards[0]), torch.zeros_like(done[0])
    sums, ends = [], []
    for reward, closed in zip(reversed(rewards.unbind(0)), reversed(done.unbind(0)), strict=True):
        total = reward + torch.where(closed, 0.0, gamma * total)
        closes = closes | closed
        sums.append(total)
        ends.append(closes)
    return torch.stack(sums[::-1]), torch.stack(ends[::-1])


def completed(ring: Ring, step: Tensor, now: Now, gamma: Tensor, learn: LearnConfig) -> tuple[Tensor, Tensor]:
    """Rows `[1, B, W]` and `[1, B] bool` of the decisions whose n rewards are in, bootstrapped from `now`."""
    n = ring.h.shape[0]
    oldest = (step % n)[None]
    order = (step + torch.arange(n, device=now.h.device)) % n
    returns = discounted_returns(ring.scalars[order, :, 0], gamma)[:1]
    rest = (returns, gamma**n, pack_mask(now.feasible)[None], torch.zeros_like(returns))
    close = tuple(value[:1] for value in _close_columns(ring, order, gamma, learn))
    next_row = tuple(part[None] for part in split_row(now.row)) if learn.encoder_rl > 0 else ()
    states = (ring.h[oldest], ring.context[oldest], now.h[None], now.context[None])
    return _pack(states, ring.scalars[oldest], rest, close, next_row), (ring.length == n)[None]


def flushed(
    ring: Ring, step: Tensor, truncated: Tensor, gamma: Tensor, learn: LearnConfig
) -> tuple[Tensor, Tensor, Ring]:
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
    close = _close_columns(ring, order, gamma, learn)
    next_row = (none, none) if learn.encoder_rl > 0 else ()
    states = (h, context, torch.zeros_like(h), torch.zeros_like(context))
    rows = _pack(states, ring.scalars[order], rest, close, next_row)
    age = torch.arange(n - 1, -1, -1, device=truncated.device)[:, None]
    valid = truncated & (age < ring.length)
    return rows, valid, Ring(ring.h, ring.context, ring.scalars, torch.where(truncated, 0, ring.length))


def _close_columns(ring: Ring, order: Tensor, gamma: Tensor, learn: LearnConfig) -> tuple[Tensor, ...]:
    """`CLOSE_SCALARS` of the decisions in `order [n]`, each `[n, B]`; nothing unless a rule reads them."""
    if learn.td_cut != "done":
        return ()
    scalars = ring.scalars[order]
    returns, closes = returns_until_close(scalars[..., 0], scalars[..., 4] > 0.5, gamma)
    return returns, closes.float()


def _pack(
    states: tuple[Tensor, Tensor, Tensor, Tensor],
    scalars: Tensor,
    rest: tuple[Tensor, Tensor, Tensor, Tensor],
    close: tuple[Tensor, ...],
    next_row: tuple[Tensor, ...],
) -> Tensor:
    """`[m, B, W]` rows of m decisions a lane; successors broadcast over m, columns as in `scalar_names`."""
    h, context, next_h, next_context = states
    returns, discount, next_feasible, cut = rest
    reward, log_prob, action, feasible, done, *row = scalars.unbind(-1)
    gained = (returns, reward, discount.expand_as(returns), log_prob)
    columns = torch.stack((*gained, action, feasible, next_feasible, cut, done, *close, *row, *next_row), -1)
    expand = h.shape[:2]
    return torch.cat([h, next_h.expand(*expand, -1), context, next_context.expand(*expand, -1), columns], -1)


def entered(ring: Ring, step: Tensor, now: Now, scalars: Tensor, learn: LearnConfig) -> Ring:
    """The rings with this step's decision of every lane; `scalars [B, 5]`."""
    n = ring.h.shape[0]
    if learn.encoder_rl > 0:
        scalars = torch.cat([scalars, torch.stack(split_row(now.row), -1)], -1)
    here = torch.arange(n, device=now.h.device)[:, None, None] == step % n
    return Ring(
        h=torch.where(here, now.h, ring.h),
        context=torch.where(here, now.context, ring.context),
        scalars=torch.where(here, scalars, ring.scalars),
        length=(ring.length + 1).clamp(max=n),
    )
