"""The flat weight vector: contiguous groups, views by name, initial values independent of each other."""

import math
from itertools import pairwise

import pytest
import torch

from trainer.agent.agent import Agent
from trainer.agent.layout import GROUPS, Layout, Parameter
from trainer.config import Config
from trainer.presets import PRESETS

CPU = torch.device("cpu")
PARAMETERS = (
    Parameter("pi.w", (3, 5), "pi", "head"),
    Parameter("enc.w", (7, 11), "bce", "xavier"),
    Parameter("q.w", (3, 70), "q", "head"),
    Parameter("enc.one", (4,), "bce", "ones"),
    Parameter("v.w", (3, 1), "v", "xavier"),
    Parameter("aux.steps", (2, 2), "aux", "values", (1.0, 2.0, 3.0, 4.0)),
)


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(PARAMETERS)


def test_groups_are_contiguous_in_order_and_cover_everything(layout: Layout) -> None:
    ranges = [layout.group_range(group) for group in GROUPS]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == layout.size
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    index = layout.group_index(CPU)
    for number, (start, end) in enumerate(ranges):
        assert (index[start:end] == number).all()
    assert index.bincount().tolist() == [end - start for start, end in ranges]


def test_every_parameter_is_a_view_at_an_aligned_place_of_its_group(layout: Layout) -> None:
    flat = torch.arange(layout.size, dtype=torch.float32)
    views = layout.unflatten(flat)
    assert set(views) == {p.name for p in PARAMETERS}
    taken: set[int] = set()
    for p in PARAMETERS:
        view = views[p.name]
        first, (start, end) = int(view.flatten()[0]), layout.group_range(p.group)
        assert view.shape == p.shape
        assert first % 64 == 0, f"{p.name} is not aligned to 256 bytes"
        assert start <= first
        assert first + p.numel <= end
        places = set(map(int, view.flatten().tolist()))
        assert places == set(range(first, first + p.numel))
        assert not places & taken, f"{p.name} overlaps another parameter"
        taken |= places
        view.zero_()
    # The zeros written through the views are in the vector itself; padding is as it was (element 0 began 0).
    assert (flat == 0).nonzero().flatten().tolist() == sorted(taken)


def test_unflatten_of_one_group_equals_that_part_of_the_whole(layout: Layout) -> None:
    flat = torch.randn(layout.size)
    whole = layout.unflatten(flat)
    for group in GROUPS:
        start, end = layout.group_range(group)
        part = layout.unflatten(flat[start:end], only=group)
        assert set(part) == {p.name for p in PARAMETERS if p.group == group}
        assert all(torch.equal(part[name], whole[name]) for name in part)


def test_a_gradient_through_the_views_lands_in_the_flat_vector(layout: Layout) -> None:
    flat = torch.zeros(layout.size, requires_grad=True)
    (grad,) = torch.autograd.grad(layout.unflatten(flat)["q.w"].sum() * 2, flat)
    assert (layout.unflatten(grad)["q.w"] == 2).all()
    assert grad.sum().item() == 2 * 210


def test_initial_values_follow_their_rule(layout: Layout) -> None:
    flat = layout.initial(0)
    views = layout.unflatten(flat)
    assert views["enc.one"].tolist() == [1.0] * 4
    assert views["aux.steps"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    bound = math.sqrt(6.0 / 18)
    assert 0.8 * bound < views["enc.w"].abs().max() <= bound
    head = 0.01 * math.sqrt(6.0 / 73)
    assert 0.8 * head < views["q.w"].abs().max() <= head
    used = sum(int(view.count_nonzero()) for view in views.values())
    assert flat.count_nonzero() == used, "padding must be zero"


def test_adding_removing_or_moving_a_parameter_changes_no_other_initial_value(layout: Layout) -> None:
    before = layout.unflatten(layout.initial(3))
    more = (Parameter("enc.new", (9, 9), "bce", "xavier"), *reversed(PARAMETERS[1:]))
    larger = Layout(more)
    after = larger.unflatten(larger.initial(3))
    assert set(after) - set(before) == {"enc.new"}
    for name in set(before) & set(after):
        assert torch.equal(before[name], after[name]), name


def test_equal_shapes_and_other_seeds_give_other_values() -> None:
    twins = Layout((Parameter("a", (8, 8), "bce", "xavier"), Parameter("b", (8, 8), "bce", "xavier")))
    one, two = twins.unflatten(twins.initial(0)), twins.unflatten(twins.initial(1))
    assert torch.equal(one["a"], twins.unflatten(twins.initial(0))["a"])
    assert not torch.equal(one["a"], one["b"])
    assert not torch.equal(one["a"], two["a"])


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        Layout((PARAMETERS[0], PARAMETERS[0]))


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_presets_agent_has_all_groups_and_finite_weights(preset: str) -> None:
    config: Config = PRESETS[preset]()
    layout = Agent.build(config, CPU).layout
    assert {p.group for p in layout.parameters} == set(GROUPS)
    flat = layout.initial(config.learn.seed)
    assert torch.isfinite(flat).all()
    heads = [p for p in layout.parameters if p.name in ("q.weight", "pi.weight", "v.weight", "labels.weight")]
    assert [p.init for p in heads] == ["head"] * 4
    assert all(
        p.init == "zeros" for p in layout.parameters if p.name.endswith("bias") and "dt_" not in p.name
    )
