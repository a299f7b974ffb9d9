"""Trees of named tuples with tensors as leaves: names, flattening, and compiling functions of them."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Shape = tuple[type, tuple[Any, ...]] | None
"""Structure of a tree: its class and the structures of its fields; None for a tensor."""


def leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """All tensors of a tree with their dotted names, in a fixed order."""
    if isinstance(tree, Tensor):
        yield prefix, tree
        return
    for name, child in zip(tree._fields, tree, strict=True):
        yield from leaves(child, f"{prefix}.{name}" if prefix else name)


def structure(tree: Any) -> Shape:
    """The tree without its tensors."""
    return None if isinstance(tree, Tensor) else (type(tree), tuple(structure(child) for child in tree))


def flatten(tree: Any) -> list[Tensor]:
    """All tensors of a tree, in the order of `leaves`."""
    if isinstance(tree, Tensor):
        return [tree]
    return [tensor for child in tree for tensor in flatten(child)]


def rebuild(shape: Shape, tensors: list[Tensor]) -> Any:
    """The tree of `shape` from the front of `tensors`, which are consumed."""
    if shape is None:
        return tensors.pop(0)
    kind, children = shape
    return kind(*[rebuild(child, tensors) for child in children])


def copy_into(old: Any, new: Any) -> None:
    """Copies every tensor of `new` into the same place of `old`; shared ones are left alone."""
    for kept, fresh in zip(flatten(old), flatten(new), strict=True):
        if kept.data_ptr() != fresh.data_ptr():
            kept.copy_(fresh)


class CompiledTree:
    """`function(learner, *trees) -> tree` through torch.compile, with flat tensors at the boundary.

    torch 2.11 rebuilds nested named tuples wrongly where a compiled function returns them, so it only ever
    sees tensors. The first call runs the function once eagerly to learn the structure of its result.
    Without `differentiated` it is given its inputs cut from the gradient's graph: it has no use for that, and
    a tensor in the middle of one warns when it is looked at.
    """

    def __init__(self, function: Callable[..., Any], *, differentiated: bool = False, **options: Any) -> None:
        self._function, self._options, self._differentiated = function, options, differentiated
        self._compiled: Callable[..., tuple[Tensor, ...]] | None = None
        self._result: Shape = None

    def __call__(self, learner: Any, *trees: Any) -> Any:
        if self._compiled is None:
            self._result = structure(self._function(learner, *trees))
            self._compiled = self._compile(learner, [structure(tree) for tree in trees])
        inputs = [tensor for tree in trees for tensor in flatten(tree)]
        if not self._differentiated:
            inputs = [tensor.detach() for tensor in inputs]
        return rebuild(self._result, list(self._compiled(*inputs)))

    def _compile(self, learner: Any, shapes: list[Shape]) -> Callable[..., tuple[Tensor, ...]]:
        function = self._function

        def flat(*inputs: Tensor) -> tuple[Tensor, ...]:
            tensors = list(inputs)
            return tuple(flatten(function(learner, *[rebuild(shape, tensors) for shape in shapes])))

        compiled: Callable[..., tuple[Tensor, ...]] = torch.compile(flat, **self._options)
        return compiled
