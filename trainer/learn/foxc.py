"""Checkpoints as typed arrays over the flat binary of `frames` (SYSTEM.md section 9). No pickle.

The extra section `meta` is JSON: dtype and shape of each array, and the caller's own dictionary.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.errors import InputError
from trainer.learn.atomic import Buffer
from trainer.learn.frames import CRC, MAGIC, VERSION, read_frames, write_frames
from trainer.learn.moments import OptimizerState, optimizer_section, parse_optimizer

__all__ = [
    "MAGIC",
    "VERSION",
    "Checkpoint",
    "OptimizerState",
    "optimizer_section",
    "parse_optimizer",
    "read_foxc",
    "write_foxc",
]

META = "meta"

Array = NDArray[Any]
SectionData = bytes | memoryview | Array | np.generic


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint: completed steps, its sections and the caller's `meta`.

    `arrays` own their memory and are writable. Sections that were written as bytes, or that `meta` does not
    describe, appear as `[num_bytes] uint8`.
    """

    path: Path
    step: int
    arrays: dict[str, Array]
    meta: dict[str, Any] = field(default_factory=dict)

    def array(self, name: str, *, dtype: Any = None, shape: tuple[int, ...] | None = None) -> Array:
        """The section `name`; InputError with file, found and expected if it is not as asked."""
        where = f"{self.path} section {name!r}"
        if name not in self.arrays:
            raise InputError(f"missing section, found {', '.join(self.arrays) or 'none'}", where=where)
        found = self.arrays[name]
        if dtype is not None and found.dtype != np.dtype(dtype):
            raise InputError(f"found dtype {found.dtype}, expected {np.dtype(dtype)}", where=where)
        if shape is not None and found.shape != shape:
            raise InputError(f"found shape {list(found.shape)}, expected {list(shape)}", where=where)
        return found

    def optimizer(self, name: str) -> OptimizerState:
        """The optimizer section `name`, parsed; InputError if it is missing or mis-sized."""
        return parse_optimizer(self.array(name, dtype=np.uint8), where=f"{self.path} section {name!r}")


def write_foxc(
    path: Path, step: int, sections: Mapping[str, SectionData], meta: Mapping[str, Any] | None = None
) -> int:
    """Write a checkpoint atomically, read it back to verify every CRC, and return its size in bytes.

    Arrays and numpy scalars may have any bool, integer or float dtype; they are stored little-endian and
    C-contiguous. `meta` is the caller's dictionary (JSON values, no NaN): config digest, data fingerprint,
    versions.

    Raises InputError when the disk is full, the path unwritable or the file reads back differently; nothing
    is left behind and an existing file stays. ValueError or TypeError for sections no file can hold.
    """
    if reserved := {META, CRC} & set(sections):
        raise ValueError(f"section names {sorted(reserved)} are reserved")
    raw: dict[str, Buffer] = {}
    described: dict[str, dict[str, Any]] = {}
    for name, value in sections.items():
        if isinstance(value, np.ndarray | np.generic):
            stored = _storable(name, np.asarray(value))
            described[name] = {"dtype": stored.dtype.str, "shape": list(value.shape)}
            raw[name] = stored.reshape(-1).view(np.uint8).data
        else:
            raw[name] = bytes(value)
    body = {"arrays": described, "caller": dict(meta or {})}
    raw[META] = json.dumps(body, sort_keys=True, allow_nan=False).encode()
    return write_frames(path, step, raw)


def read_foxc(path: Path) -> Checkpoint:
    """Read and verify a checkpoint.

    Raises InputError naming file, found and expected: unreadable, wrong magic or version, truncated, bad CRC,
    a missing section, or one whose size contradicts its shape.
    """
    step, raw = read_frames(path)
    described, caller = _parse_meta(path, raw.pop(META, None))
    if missing := described.keys() - raw.keys():
        raise InputError(f"missing section, found {', '.join(raw)}", where=f"{path} section {min(missing)!r}")
    arrays = {name: _shaped(path, name, data, described.get(name)) for name, data in raw.items()}
    return Checkpoint(path, step, arrays, caller)


def _storable(name: str, value: Array) -> Array:
    if value.dtype.kind not in "biuf":
        raise TypeError(f"section {name!r}: dtype {value.dtype} cannot be stored")
    return np.ascontiguousarray(value, value.dtype.newbyteorder("<"))


def _parse_meta(path: Path, data: bytearray | None) -> tuple[dict[str, Any], dict[str, Any]]:
    where = f"{path} section {META!r}"
    if data is None:
        raise InputError("missing section", where=where)
    try:
        body = json.loads(data)
        return dict(body["arrays"]), dict(body["caller"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"found no JSON with 'arrays' and 'caller': {error}", where=where) from error


def _shaped(path: Path, name: str, data: bytearray, described: Mapping[str, Any] | None) -> Array:
    if described is None:
        return np.frombuffer(data, np.uint8)
    dtype, shape = np.dtype(described["dtype"]), tuple(described["shape"])
    expected = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if len(data) != expected:
        what = f"found {len(data):,} bytes, expected {expected:,} for {dtype} {list(shape)}"
        raise InputError(what, where=f"{path} section {name!r}")
    return np.frombuffer(data, dtype).reshape(shape)
