"""The training state as checkpoint sections and back, complete and by name (SYSTEM.md section 9)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainer.agent.layout import GROUPS
from trainer.data.normaliser import Normaliser
from trainer.errors import MismatchError
from trainer.learn.foxc import Checkpoint, optimizer_section
from trainer.learn.learner import Learner
from trainer.learn.state import TrainState
from trainer.learn.tree import leaves

_SPLIT = ("adam_m", "adam_v", "bus", "counts")
"""Fields with a section form of their own; all other leaves are stored under their dotted name."""


def sections(learner: Learner, state: TrainState, normaliser: Normaliser) -> dict[str, bytes | NDArray[Any]]:
    """Everything that the next step reads, and the normaliser that evaluation needs.

    Adam's moments go into one optimizer section per parameter group; bus slots are stored by name.
    """
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in leaves(state)}
    found: dict[str, bytes | NDArray[Any]] = {k: v for k, v in arrays.items() if k not in _SPLIT}
    slots, layout, cfg = learner.slots, learner.agent.layout, learner.config.learn
    for group in GROUPS:
        start, end = layout.group_range(group)
        found[f"optimizer.{group}"] = optimizer_section(
            int(arrays["adam_step"]), float(arrays["bus"][slots.index[f"lr.{group}"]]), *cfg.adam_betas,
            cfg.adam_eps, cfg.weight_decay, arrays["adam_m"][start:end], arrays["adam_v"][start:end],
        )  # fmt: skip
    found |= {f"bus.{name}": np.asarray(arrays["bus"][i]) for name, i in slots.index.items()}
    found |= {f"counts.{name}": np.asarray(arrays["counts"][i]) for name, i in slots.count_index.items()}
    return found | {f"normaliser.{name}": np.asarray(value) for name, value in normaliser.to_arrays().items()}


def restore(checkpoint: Checkpoint, learner: Learner, state: TrainState) -> None:
    """Fills `state` in place from a checkpoint of the same configuration.

    A bus slot that the checkpoint does not know keeps its start. Raises InputError (missing or mis-sized
    section, with file, found and expected).
    """
    for name, tensor in leaves(state):
        if name not in _SPLIT:
            expected = tensor.cpu().numpy()
            stored = checkpoint.array(name, dtype=expected.dtype, shape=expected.shape)
            tensor.copy_(torch.from_numpy(stored))
    for group in GROUPS:
        start, end = learner.agent.layout.group_range(group)
        moments = checkpoint.optimizer(f"optimizer.{group}")
        if len(moments.m) != end - start:
            raise MismatchError(
                f"found {len(moments.m)} elements, expected {end - start}",
                where=f"{checkpoint.path} section 'optimizer.{group}'",
            )
        state.adam_m[start:end] = torch.from_numpy(moments.m)
        state.adam_v[start:end] = torch.from_numpy(moments.v)
    _restore_named(checkpoint.arrays, "bus", learner.slots.index, state.bus)
    _restore_named(checkpoint.arrays, "counts", learner.slots.count_index, state.counts)


def _restore_named(
    arrays: Mapping[str, NDArray[Any]], prefix: str, index: Mapping[str, int], vector: torch.Tensor
) -> None:
    values = vector.cpu().numpy().copy()
    for name, i in index.items():
        if (key := f"{prefix}.{name}") in arrays:
            values[i] = arrays[key]
    vector.copy_(torch.from_numpy(values))


def stored_normaliser(checkpoint: Checkpoint) -> Normaliser:
    """The train window's normaliser."""
    prefix = "normaliser."
    found = {name[len(prefix) :]: a for name, a in checkpoint.arrays.items() if name.startswith(prefix)}
    return Normaliser.from_arrays(found)
