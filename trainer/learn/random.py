"""Counter-based random numbers: a pure function of (seed, step, stream, index).

Nothing is stored but the step counter, so a resumed run draws what the uninterrupted one would have drawn,
and CPU and GPU draw the same bits. Mixing is SplitMix64's finaliser (Steele, Lea & Flood 2014), applied to
each input in turn; torch's int64 multiplication wraps, as the algorithm needs.
"""

from enum import IntEnum

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MUL_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MUL_2 = 0x94D049BB133111EB - (1 << 64)


class Stream(IntEnum):
    """Independent uses of randomness within one step."""

    ACTION = 1
    ANCHOR = 2
    REPLAY = 3
    START = 4
    EPISODE = 5


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical (unsigned) right shift of int64; torch's own is arithmetic."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = x + _GOLDEN
    x = (x ^ _shift_right(x, 30)) * _MUL_1
    x = (x ^ _shift_right(x, 27)) * _MUL_2
    return x ^ _shift_right(x, 31)


def uniform(seed: Tensor, step: Tensor, stream: Stream, shape: tuple[int, ...]) -> Tensor:
    """`shape` float32 in (0, 1), 24 bits each; `seed` and `step` are int64 scalars on the device."""
    count = 1
    for size in shape:
        count *= size
    index = torch.arange(count, dtype=torch.int64, device=seed.device)
    key = _mix(_mix(_mix(seed) + step) + int(stream))
    bits = _shift_right(_mix(key + index), 40)
    return ((bits.to(torch.float32) + 0.5) * (1.0 / (1 << 24))).clamp(max=1.0 - 2.0**-24).reshape(shape)


def integers(seed: Tensor, step: Tensor, stream: Stream, count: int, high: int) -> Tensor:
    """`[count] int64` uniform in [0, high)."""
    draw = uniform(seed, step, stream, (count,)).to(torch.float64)
    return (draw * high).to(torch.int64).clamp(max=high - 1)
