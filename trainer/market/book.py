"""Walking the visible book: exact integer fills, and memory of the size a lane has already taken.

Replay has no market impact: the recorded book does not react to a lane's orders. What a lane took from
a level is therefore remembered until that level's size or price is seen to change (DATA.md, "Execution
realism").
"""

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.market.tape import Tape


class Depth(NamedTuple):
    """One side of the book of each lane, best level first."""

    px: Tensor  # [B, L] int64, ticks
    left: Tensor  # [B, L] int64, lots still there for this lane
    key: Tensor  # [B, L] int64, price and size of the level in one word
    used: Tensor  # [B, L] int64, lots this lane took from the level since it last changed


def take(sizes: Tensor, lots: Tensor) -> Tensor:
    """Lots taken from each slot of `sizes [B, S] int64`, first slot first, `lots [B] int64` in all."""
    slot = torch.arange(sizes.shape[1], device=sizes.device)
    # A masked sum, not `cumsum`: Triton 3.6 fails on a 64-bit scan fused with what surrounds it here.
    before = torch.where(slot[:, None] > slot, sizes[:, None, :], 0).sum(2)
    return torch.minimum((lots[:, None] - before).clamp(min=0), sizes)


def walk(px: Tensor, sz: Tensor, lots: Tensor) -> tuple[Tensor, Tensor]:
    """Fill `lots [B] int64` from levels `px, sz [B, L]`: (filled lots, notional in tick lots), `[B] int64`.

    Exact integers; what exceeds the visible size is not filled.
    """
    taken = take(sz.long(), lots)
    return taken.sum(1), (taken * px.long()).sum(1)


def look(tape: Tape, row: Tensor, side: Tensor, used_keys: Tensor, used_lots: Tensor) -> Depth:
    """The levels of `side [B]` (0 bid, 1 ask) at `row [B]`, less what the lane has taken of them.

    `used_keys, used_lots [B, 2, L] int64` are the lane's memory. Reads row `row` only.
    """
    levels = tape.book[row, side].long()
    px, sz = levels[:, 0], levels[:, 1]
    key = (px << 32) | sz
    pick = side[:, None, None].expand(-1, 1, used_keys.shape[2])
    same = key[:, :, None] == used_keys.gather(1, pick)
    used = (same * used_lots.gather(1, pick)).sum(2)
    return Depth(px, sz - used, key, used)


def remember(
    depth: Depth, taken: Tensor, any_taken: Tensor, side: Tensor, used_keys: Tensor, used_lots: Tensor
) -> tuple[Tensor, Tensor]:
    """The memory after `taken [B, L]` lots left `depth` on `side [B]`; kept where not `any_taken [B]`."""
    both = torch.arange(2, device=side.device)
    touched = ((side[:, None] == both) & any_taken[:, None])[:, :, None]
    keys = torch.where(touched, depth.key[:, None], used_keys)
    return keys, torch.where(touched, (depth.used + taken)[:, None], used_lots)
