"""The workflow template as a tree that still holds the chart's values, found by rendering it many times.

Every value is replaced by a marker that can be found again in the rendered template. What a value switches on
and off (metrics, the data claim, the GPU) is found by switching each off alone and comparing the two
trees; `prove` then compares every pair of switches. So pipelines/workflow.py needs no Helm expressions, and a
new value of `ChartValues` appears in the chart by itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, get_args

from pipelines.chart.markers import Markers
from pipelines.settings import ChartValues
from trainer.errors import InputError

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING"})()


@dataclass(frozen=True)
class Choice:
    """A part that depends on whether a value is set: `on` or `off`, either of which may be MISSING."""

    switch: str
    on: Any
    off: Any


Render = Callable[[ChartValues], dict[str, Any]]


@dataclass(frozen=True)
class Symbolic:
    """A rendered template with Choice nodes and marked values; `switches` are the values that can be off."""

    tree: dict[str, Any]
    markers: Markers
    switches: dict[str, Any]

    def evaluated(self, values: ChartValues) -> Any:
        """The plain tree of these values: what Helm must make of the chart's template."""
        given = {name: getattr(values, name) for name in ChartValues.model_fields}
        return self.markers.substituted(_chosen(self.tree, given), given)


def symbolic(render: Render) -> Symbolic:
    """What `render` makes of all values at once; it is called about twice for every value."""
    markers = Markers()
    base = markers.rendered(render, {})
    switches = dict(_switches(markers.values))
    variants = {name: markers.rendered(render, {name: off}) for name, off in switches.items()}
    structural = {
        name: variant
        for name, variant in variants.items()
        if variant != markers.substituted(base, {name: switches[name]})
    }
    return Symbolic(_merge(base, structural), markers, switches)


def prove(found: Symbolic, render: Render) -> None:
    """InputError where two values off together make something else than the tree says."""
    markers, names = found.markers, list(found.switches)
    words = {name: markers.values[name] for name in markers.choices}
    for off in (*combinations(names, 1), *combinations(names, 2), tuple(names)):
        changed = words | {name: found.switches[name] for name in off}
        values = markers.values | changed
        made = markers.substituted(_chosen(found.tree, values), changed)
        if made != render(ChartValues.model_construct(**values)):
            what = f"the template cannot be written for Helm: {' and '.join(off)} depend on each other"
            raise InputError(what, where="pipelines/workflow.py", do="let one value decide one part")


def _chosen(node: Any, values: dict[str, Any]) -> Any:
    if isinstance(node, Choice):
        return _chosen(node.on if values[node.switch] else node.off, values)
    if isinstance(node, dict):
        items = {key: _chosen(item, values) for key, item in node.items()}
        return {key: item for key, item in items.items() if item is not MISSING}
    if isinstance(node, list):
        return [item for item in (_chosen(item, values) for item in node) if item is not MISSING]
    return node


def _switches(everything: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values with a meaning of "off", and how it is written: false, 0, null or an empty text."""
    for name, field in ChartValues.model_fields.items():
        kinds = get_args(field.annotation)
        if isinstance(everything[name], bool):
            yield name, False
        elif 0 in kinds:
            yield name, 0
        elif type(None) in kinds:
            yield name, None
        elif isinstance(everything[name], str) and _valid(name, ""):
            yield name, ""


def _valid(name: str, value: Any) -> bool:
    try:
        ChartValues.model_validate({name: value})
    except ValueError:
        return False
    return True


def _merge(base: Any, variants: dict[str, Any]) -> Any:
    """One tree of the tree with all switches on and those with one switch off."""
    differing = {name: variant for name, variant in variants.items() if variant != base}
    if not differing:
        return base
    for name, variant in differing.items():
        if not _alike(base, variant):
            rest = {other: item for other, item in differing.items() if other != name}
            return Choice(name, _merge(base, rest), variant)
    if isinstance(base, dict):
        keys = dict.fromkeys([*base, *(key for variant in differing.values() for key in variant)])
        return {
            key: _merge(base.get(key, MISSING), {n: v.get(key, MISSING) for n, v in differing.items()})
            for key in keys
        }
    return _merge_lists(base, differing)


def _alike(base: Any, variant: Any) -> bool:
    return any(isinstance(base, kind) and isinstance(variant, kind) for kind in (dict, list))


def _merge_lists(base: list[Any], variants: dict[str, list[Any]]) -> list[Any]:
    if all(len(variant) == len(base) for variant in variants.values()):
        return [_merge(item, {name: v[i] for name, v in variants.items()}) for i, item in enumerate(base)]
    own = _by_identity(base)
    others = {name: _by_identity(variant) for name, variant in variants.items()}
    keys = dict.fromkeys([*own, *(key for other in others.values() for key in other)])
    return [
        _merge(own.get(key, MISSING), {name: o.get(key, MISSING) for name, o in others.items()})
        for key in keys
    ]


def _by_identity(items: list[Any]) -> dict[str, Any]:
    """Items by their name or key, which lists of Kubernetes have; else by their whole content."""
    return {
        str((item.get("name") or item.get("key") or item) if isinstance(item, dict) else item): item
        for item in items
    }
