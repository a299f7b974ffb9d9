"""All weights of the agent in one flat vector, addressed by name.

One buffer makes the gradient norm, AdamW, the target update and the checkpoint one operation each
(GPU.md lever 6). Parameters are grouped; a group has its own learning rate and its own optimizer section in
a checkpoint, and lies contiguously.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

GROUPS = ("bce", "aux", "q", "pi", "v")
"""Learning-rate groups (SYSTEM.md section 7): encoder and label heads, return heads, Q, policy, value."""

Init = Literal["xavier", "head", "zeros", "ones", "values"]

_ALIGN = 64  # floats: every tensor starts on a 256-byte boundary, which vectorised kernels need
_HEAD_GAIN = 0.01  # SYSTEM.md section 4: heads start almost silent


@dataclass(frozen=True)
class Parameter:
    """Name, shape, group and initialisation of one weight."""

    name: str
    shape: tuple[int, ...]
    group: str
    init: Init
    values: tuple[float, ...] = ()

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def padded(self) -> int:
        return -(-self.numel // _ALIGN) * _ALIGN


@dataclass(frozen=True)
class Layout:
    """Where each parameter lies in the flat vector `[P] float32`."""

    parameters: tuple[Parameter, ...]
    size: int = field(init=False)

    def __post_init__(self) -> None:
        order = sorted(self.parameters, key=lambda p: GROUPS.index(p.group))
        if len({p.name for p in order}) != len(order):
            raise ValueError("parameter names must be unique")
        object.__setattr__(self, "parameters", tuple(order))
        object.__setattr__(self, "size", sum(p.padded for p in order))

    def group_range(self, group: str) -> tuple[int, int]:
        """Start and end of a group's contiguous part."""
        start = sum(p.padded for p in self.parameters if GROUPS.index(p.group) < GROUPS.index(group))
        return start, start + sum(p.padded for p in self.parameters if p.group == group)

    def unflatten(self, flat: Tensor, only: str | None = None) -> dict[str, Tensor]:
        """Views into `flat` by name; `only` takes a flat vector of that one group."""
        chosen = [p for p in self.parameters if only in (None, p.group)]
        pieces = flat.split([p.padded for p in chosen])
        return {p.name: piece[: p.numel].view(p.shape) for p, piece in zip(chosen, pieces, strict=True)}

    def group_index(self, device: torch.device) -> Tensor:
        """`[P] int64` group number of every element: turns group learning rates into element rates."""
        index = torch.empty(self.size, dtype=torch.int64, device=device)
        for number, group in enumerate(GROUPS):
            start, end = self.group_range(group)
            index[start:end] = number
        return index

    def encoder_scale(self, scale: float, device: torch.device) -> Tensor:
        """`[P] float32`: `scale` at the elements of the encoder (its group but the label heads), else 1."""
        factors = torch.ones(self.size, dtype=torch.float32, device=device)
        for name, view in self.unflatten(factors[slice(*self.group_range(GROUPS[0]))], GROUPS[0]).items():
            if not name.startswith("labels."):
                view.fill_(scale)
        return factors

    def initial(self, seed: int) -> Tensor:
        """`[P] float32` on the CPU; each parameter has its own generator, so adding one moves no other."""
        flat = torch.zeros(self.size)
        for name, view in self.unflatten(flat).items():
            _initialise(view, next(p for p in self.parameters if p.name == name), seed)
        return flat


def _initialise(view: Tensor, parameter: Parameter, seed: int) -> None:
    if parameter.init == "ones":
        view.fill_(1.0)
    elif parameter.init == "values":
        view.copy_(torch.tensor(parameter.values).view(parameter.shape))
    elif parameter.init != "zeros":
        generator = torch.Generator().manual_seed(_name_seed(parameter.name, seed))
        fan_in, fan_out = parameter.shape[-2:]
        bound = math.sqrt(6.0 / (fan_in + fan_out)) * (_HEAD_GAIN if parameter.init == "head" else 1.0)
        view.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))


def _name_seed(name: str, seed: int) -> int:
    value = seed + 1
    for byte in name.encode():
        value = (value * 1_000_003 ^ byte) & 0x7FFF_FFFF_FFFF
    return value


Weights = Mapping[str, Tensor]
