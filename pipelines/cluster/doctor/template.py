"""The installed WorkflowTemplate: there, the one of this code, and whole in this cluster's schema."""

from collections.abc import Iterator
from typing import Any

from pipelines.cluster.api import AbsentError, Body
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning
from pipelines.cluster.doctor.values import values_of
from pipelines.parameters import RunParameters, parameter_name

SCHEMAS = "/openapi/v3/apis/argoproj.io/v1alpha1"
SCHEMA = "io.argoproj.v1alpha1.WorkflowTemplate"
SHOWN = 3
EMPTY: tuple[Any, ...] = (None, "", {}, [])
Place = tuple[str, ...]


def installed(cluster: Cluster) -> Iterator[Result]:
    """There is a template to submit."""
    name, namespace = cluster.asked.template, cluster.namespace
    try:
        cluster.installed()
    except AbsentError:
        render = f"walkforward render -n {namespace}"
        yield error(
            f"no WorkflowTemplate {name} in namespace {namespace}",
            f"helm install walkforward charts/walkforward -n {namespace}, or: {render} | kubectl apply -f -",
        )
        return
    yield ok(f"WorkflowTemplate {name} is in namespace {namespace}")


def current(cluster: Cluster) -> Iterator[Result]:
    """The installed template is what this code renders from the same chart values."""
    template = _installed(cluster)
    if template is None:
        return
    values = cluster.asked.values or values_of(template)
    found = list(differences(template["spec"], cluster.rendered(values)["spec"]))
    source = "the given values" if cluster.asked.values else "its own values"
    if not found:
        yield ok(f"the template is what this code renders from {source}")
        return
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    yield warning(
        f"the template is not what this code renders from {source}: {'; '.join(found[:SHOWN])}{more}",
        "upgrade the chart or render and apply it again, or use the release that it came from",
    )


def parameters(cluster: Cluster) -> Iterator[Result]:
    """The parameters that `submit` sends are those of the template."""
    template = _installed(cluster)
    if template is None:
        return
    listed = (template["spec"].get("arguments") or {}).get("parameters") or []
    theirs = {each["name"]: each for each in listed}
    ours = {parameter_name(name) for name in RunParameters.model_fields}
    if missing := sorted(ours - set(theirs)):
        yield warning(
            f"the template has no parameter {', '.join(missing)}: submit cannot set them",
            "upgrade the chart or render and apply the template again",
        )
    without = [name for name, each in theirs.items() if "value" not in each and "valueFrom" not in each]
    if without:
        yield error(
            f"parameters without default: {', '.join(without)}; a plain submit is refused",
            "render and apply the template again",
        )
    if added := sorted(set(theirs) - ours):
        yield warning(
            f"the template has parameters this version does not know: {', '.join(added)}",
            "set them with -p name=value, or update this package",
        )
    if not (missing or without or added):
        yield ok(f"its {len(ours)} parameters are those of this version")
    yield from _unknown(cluster, set(theirs))


def _unknown(cluster: Cluster, known: set[str]) -> Iterator[Result]:
    for name in sorted(set(cluster.asked.parameters) - known):
        yield error(
            f"the template has no parameter {name}, which was asked for",
            f"use one of {', '.join(sorted(known))}",
        )


def schema(cluster: Cluster) -> Iterator[Result]:
    """Every field of the template is known to the cluster's schema: others vanish without a word."""
    body = cluster.get(SCHEMAS)
    kind = ((body.get("components") or {}).get("schemas") or {}).get(SCHEMA) or {}
    if not kind:
        yield warning(
            "the cluster does not tell the schema of Argo's kinds",
            "try again in a moment, or install its CRDs",
        )
        return
    spec = (kind.get("properties") or {}).get("spec") or {}
    if "properties" not in spec:
        yield ok(
            "the cluster has Argo's minimal schema: it stores every field, right or wrong (lint checks them)"
        )
        return
    values = cluster.asked.values
    template = _installed(cluster)
    if values is None and template is not None:
        values = values_of(template)
    wanted = cluster.rendered(values) if values else cluster.demand().body
    lost = sorted(set(unknown_fields(wanted["spec"], spec, ("spec",))))
    if lost:
        yield error(
            f"the cluster's schema of Argo does not know {', '.join(lost[:SHOWN])}: it drops them silently",
            "upgrade Argo's CRDs; 3.6 to 4.1 are supported",
        )
    else:
        yield ok("the cluster has Argo's full schema, which knows every field of the template")


def differences(theirs: Any, ours: Any, place: Place = ("spec",)) -> Iterator[str]:
    """Places where two documents differ, each as `place is A, this code makes B`.

    Lists of named things are compared by name. Empty and absent are the same: an Argo server writes `""` and
    `{}` for what is not set.
    """
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(set(theirs) | set(ours)):
            here = (*place, str(key))
            if theirs.get(key) in EMPTY or ours.get(key) in EMPTY:
                if theirs.get(key) not in EMPTY:
                    yield f"{_dotted(here)} is extra"
                elif ours.get(key) not in EMPTY:
                    yield f"{_dotted(here)} is missing"
            else:
                yield from differences(theirs[key], ours[key], here)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if _named(theirs) and _named(ours):
            yield from differences(_by_name(theirs), _by_name(ours), place)
        elif len(theirs) != len(ours):
            yield f"{_dotted(place)} has {len(theirs)} entries, this code makes {len(ours)}"
        else:
            for i, pair in enumerate(zip(theirs, ours, strict=True)):
                yield from differences(*pair, (*place, str(i)))
    elif theirs != ours:
        yield f"{_dotted(place)} is {_short(theirs)}, this code makes {_short(ours)}"


def unknown_fields(value: Any, schema: Body, place: Place) -> Iterator[str]:
    """Fields of a document that a structural schema does not have, and so prunes."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list):
        for each in value:
            yield from unknown_fields(each, schema.get("items") or {}, place)
    elif isinstance(value, dict):
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, inner in value.items():
            if key in properties:
                yield from unknown_fields(inner, properties[key], (*place, key))
            elif isinstance(others, dict):
                yield from unknown_fields(inner, others, (*place, key))
            elif properties and not others:
                yield _dotted((*place, key))


def _installed(cluster: Cluster) -> Body | None:
    try:
        return cluster.installed()
    except AbsentError:
        return None


def _named(items: list[Any]) -> bool:
    """Whether every entry has a name of its own."""
    names = [each.get("name") for each in items if isinstance(each, dict)]
    return len(names) == len(items) and None not in names and len(set(names)) == len(names)


def _by_name(items: list[Body]) -> dict[str, Body]:
    return {each["name"]: each for each in items}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _dotted(place: Place) -> str:
    return ".".join(place)


CHECKS = [
    Check("template", "installed", installed),
    Check("template", "current", current),
    Check("template", "parameters", parameters),
    Check("template", "schema", schema),
]
