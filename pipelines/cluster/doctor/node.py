"""Nodes as the scheduler sees them: labels, taints, room; and label selectors."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.cluster.api import Body

if TYPE_CHECKING:
    from pipelines.cluster.doctor.demand import Pod

GPU = "nvidia.com/gpu"
# Kubernetes sets and clears these taints itself: they tell the state of a node, not who may use it.
STATE_TAINTS = "node.kubernetes.io/"
SUFFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([a-zA-Z]*))")


def quantity(text: str | float) -> float:
    """A Kubernetes quantity as a number: `500m` -> 0.5, `8Gi` -> 2**33; ValueError for anything else."""
    found = QUANTITY.fullmatch(str(text).strip())
    if found is None or (found[3] or "") not in SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity")
    return float(found[1]) * (10.0 ** int(found[2]) if found[2] else SUFFIXES[found[3] or ""])


def gib(size: float) -> str:
    """`24 GiB` of a size in bytes."""
    return f"{size / 2**30:.3g} GiB"


@dataclass(frozen=True)
class Toleration:
    """A taint that a pod accepts."""

    key: str
    operator: str
    value: str
    effect: str

    @classmethod
    def of(cls, body: Body) -> "Toleration":
        """From its JSON, with Kubernetes' defaults."""
        return cls(
            body.get("key") or "",
            body.get("operator") or "Equal",
            body.get("value") or "",
            body.get("effect") or "",
        )

    def accepts(self, taint: Body) -> bool:
        """An empty key or effect accepts all of them."""
        if self.effect and self.effect != taint.get("effect"):
            return False
        if not self.key:
            return self.operator == "Exists"
        same = self.operator == "Exists" or self.value == (taint.get("value") or "")
        return self.key == taint.get("key") and same


class Node:
    """One node."""

    def __init__(self, body: Body):
        self.name: str = body["metadata"]["name"]
        self.labels: dict[str, str] = body["metadata"].get("labels") or {}
        self._spec: Body = body.get("spec") or {}
        self._status: Body = body.get("status") or {}

    @property
    def ready(self) -> bool:
        """Whether the kubelet says so."""
        listed = self._status.get("conditions") or []
        return any(item.get("type") == "Ready" and item.get("status") == "True" for item in listed)

    @property
    def cordoned(self) -> bool:
        """Marked unschedulable, as by a drain."""
        return bool(self._spec.get("unschedulable"))

    @property
    def architecture(self) -> str:
        """amd64, arm64, ...; empty where the node does not say."""
        return (self._status.get("nodeInfo") or {}).get("architecture") or ""

    def has(self, resource: str) -> float:
        """Amount that pods may use in all."""
        return quantity((self._status.get("allocatable") or {}).get(resource) or 0)

    def images(self) -> set[str]:
        """Full names of the images on it that the kubelet reports."""
        listed = self._status.get("images") or []
        return {full_name(name) for image in listed for name in image.get("names") or []}

    @property
    def reported_images(self) -> int:
        """How many images the kubelet reports: it stops at a limit, usually 50."""
        return len(self._status.get("images") or [])

    def unmatched(self, pod: "Pod") -> bool:
        """Whether a label that the pod asks for is absent or another, or one that it avoids is there."""
        if any(self.labels.get(key) != value for key, value in pod.selector.items()):
            return True
        terms = pod.node_terms
        return bool(terms) and not any(expressions_match(term, self.labels) for term in terms)

    def hindrance(self, pod: "Pod") -> str:
        """Why this pod can never be placed here, even on an empty node; empty where it can.

        Being down or cordoned is not looked at: that may pass.
        """
        if self.unmatched(pod):
            return "has other labels"
        for taint in self.refusing(pod):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"has the taint {taint.get('key')}{value}:{taint.get('effect')}, which is not tolerated"
        if self.has("memory") < pod.asks("memory"):
            return f"has {gib(self.has('memory'))} memory, {pod.stage} asks for {gib(pod.asks('memory'))}"
        if self.has("cpu") < pod.asks("cpu"):
            return f"has {self.has('cpu'):g} CPUs, {pod.stage} asks for {pod.asks('cpu'):g}"
        if self.has(GPU) < pod.gpus:
            return f"announces {self.has(GPU):g} {GPU}, {pod.stage} asks for {pod.gpus}"
        return ""

    def refusing(self, pod: "Pod") -> list[Body]:
        """Taints that keep the pod away, those of the node's own state left out."""
        hard = [
            taint for taint in self._spec.get("taints") or [] if taint.get("effect") != "PreferNoSchedule"
        ]
        return [
            taint
            for taint in hard
            if not str(taint.get("key")).startswith(STATE_TAINTS)
            and not any(toleration.accepts(taint) for toleration in pod.tolerations)
        ]


def full_name(image: str) -> str:
    """An image name as a node reports it: `alpha-rl:main` -> `docker.io/library/alpha-rl:main`."""
    first, slash, _ = image.partition("/")
    if not slash:
        return f"docker.io/library/{image}"
    named = "." in first or ":" in first or first == "localhost"
    return image if named else f"docker.io/{image}"


def selects(selector: Body, labels: Mapping[str, str]) -> bool:
    """Whether a Kubernetes label selector chooses these labels; an empty one chooses all."""
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and expressions_match(selector.get("matchExpressions") or [], labels)


def expressions_match(expressions: Sequence[Body], labels: Mapping[str, str]) -> bool:
    """Whether all expressions hold; one of an operator unknown here counts as not holding."""
    return all(_holds(expression, labels) for expression in expressions)


def _holds(expression: Body, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    found: Any = labels.get(key)
    match expression["operator"]:
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return found is not None and int(found) > int(values[0])
        case "Lt":
            return found is not None and int(found) < int(values[0])
    return False
