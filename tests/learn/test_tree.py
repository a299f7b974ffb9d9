"""Trees of named tuples: names, order, and a compiled function that gives the same tree."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from trainer.learn.tree import CompiledTree, flatten, leaves, rebuild, structure


class Pair(NamedTuple):
    one: Tensor
    two: Tensor


class Nested(NamedTuple):
    first: Tensor
    pair: Pair
    again: Pair


def tree() -> Nested:
    a, b, c, d, e = (torch.full((2,), float(i)) for i in range(5))
    return Nested(a, Pair(b, c), Pair(d, e))


def test_leaves_are_named_by_their_path_in_a_fixed_order() -> None:
    found = dict(leaves(tree()))
    assert list(found) == ["first", "pair.one", "pair.two", "again.one", "again.two"]
    assert [int(t[0]) for t in found.values()] == [0, 1, 2, 3, 4]


def test_flatten_and_rebuild_are_inverse_and_keep_the_tensors_themselves() -> None:
    original = tree()
    tensors = flatten(original)
    assert [t.data_ptr() for t in tensors] == [t.data_ptr() for _, t in leaves(original)]
    back = rebuild(structure(original), list(tensors))
    assert isinstance(back, Nested)
    assert isinstance(back.again, Pair)
    assert all(x is y for x, y in zip(flatten(back), tensors, strict=True))


def test_rebuild_takes_its_tensors_from_the_front_and_leaves_the_rest() -> None:
    queue = [*flatten(tree()), torch.tensor(9.0)]
    rebuild(structure(tree()), queue)
    assert [int(t) for t in queue] == [9]
    with pytest.raises(IndexError):
        rebuild(structure(tree()), queue)


def test_a_single_tensor_is_a_tree() -> None:
    leaf = torch.ones(3)
    assert structure(leaf) is None
    assert flatten(leaf) == [leaf]
    assert rebuild(None, [leaf]) is leaf


def test_a_compiled_function_returns_the_tree_of_the_plain_one_and_is_traced_once() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., tuple[Tensor, ...]]:
        graphs.append(graph)
        run: Callable[..., tuple[Tensor, ...]] = graph.forward
        return run

    def swap(factor: float, left: Nested, right: Tensor) -> Nested:
        return Nested(left.first * factor, Pair(left.again.two + right, left.again.one), left.pair)

    compiled = CompiledTree(swap, fullgraph=True, backend=backend)
    for right in (torch.ones(2), torch.full((2,), 5.0)):
        found, expected = compiled(3.0, tree(), right), swap(3.0, tree(), right)
        assert isinstance(found.pair, Pair)
        for (name, x), (_, y) in zip(leaves(found), leaves(expected), strict=True):
            assert torch.equal(x, y), name
    assert len(graphs) == 1
