"""Optimizer sections of a checkpoint: AdamW's state of one parameter group (SYSTEM.md section 9).

n u64 | step i32 | lr, beta1, beta2, eps, weight decay f32 | m f32[n] | v f32[n]      (little-endian)
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.errors import InputError

_HEAD = struct.Struct("<Qi5f")


@dataclass(frozen=True)
class OptimizerState:
    """AdamW's state of a flattened parameter group: `m`, `v` are `[n] float32`, first and second moments."""

    step: int
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    m: NDArray[np.float32]
    v: NDArray[np.float32]


def optimizer_section(
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    m: NDArray[Any],
    v: NDArray[Any],
) -> bytes:
    """The bytes of an optimizer section; `m` and `v` are `[n] float32` and of equal sizes (ValueError).

    The scalars are stored as float32, so only a float32 value reads back unchanged.
    """
    if m.size != v.size:
        raise ValueError(f"m has {m.size} values, v has {v.size}")
    if m.dtype != np.float32 or v.dtype != np.float32:
        raise TypeError(f"moments must be float32, not {m.dtype} and {v.dtype}")
    head = _HEAD.pack(m.size, step, lr, beta1, beta2, eps, weight_decay)
    return head + m.astype("<f4").tobytes() + v.astype("<f4").tobytes()


def parse_optimizer(section: bytes | NDArray[np.uint8], *, where: str) -> OptimizerState:
    """Read an optimizer section; `where` names file and section in the InputError for a wrong size."""
    data = section if isinstance(section, bytes) else section.tobytes()
    if len(data) < _HEAD.size:
        raise InputError(f"found {len(data)} bytes, expected at least {_HEAD.size}", where=where)
    n, step, lr, beta1, beta2, eps, weight_decay = _HEAD.unpack_from(data)
    expected = _HEAD.size + 8 * n
    if len(data) != expected:
        raise InputError(f"found {len(data):,} bytes, expected {expected:,} for n = {n:,}", where=where)
    # Copied, because an array over bytes is read-only and the moments are updated in place.
    moments = np.frombuffer(data, "<f4", offset=_HEAD.size).astype(np.float32)
    return OptimizerState(step, lr, beta1, beta2, eps, weight_decay, moments[:n], moments[n:])
