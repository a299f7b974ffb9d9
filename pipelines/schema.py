"""Strict check against Argo's models: Hera's ignore unknown fields, Argo's API server refuses them."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from hera.workflows import models
from pydantic import BaseModel, RootModel, ValidationError

from pipelines.finding import Finding, Path

MODELS: dict[str, type[BaseModel]] = {
    "Workflow": models.Workflow,
    "WorkflowTemplate": models.WorkflowTemplate,
    "ClusterWorkflowTemplate": models.ClusterWorkflowTemplate,
    "CronWorkflow": models.CronWorkflow,
}
API_VERSION = "argoproj.io/v1alpha1"
# Fields that older Argo knew; the reader needs the successor, not "unknown".
SUCCESSORS = {
    "mutex": "use synchronization.mutexes, a list",
    "semaphore": "use synchronization.semaphores, a list",
    "schedule": "use schedules, a list",
    "onExit": "write it at the workflow or as a lifecycle hook",
}


def check_schema(body: Any) -> list[Finding]:
    """Findings of kind, unknown fields, missing fields and wrong types."""
    kind = body.get("kind") if isinstance(body, dict) else type(body).__name__
    if not isinstance(kind, str) or kind not in MODELS:
        return [
            Finding(("kind",), "schema", f"not an Argo document: {kind}", f"use one of {', '.join(MODELS)}")
        ]
    if body.get("apiVersion") != API_VERSION:
        return [Finding(("apiVersion",), "schema", f"{body.get('apiVersion')}", f"write {API_VERSION}")]
    model = MODELS[kind]
    return [*_unknown(model, body, ()), *_mistyped(model, body)]


def _mistyped(model: type[BaseModel], body: Any) -> Iterator[Finding]:
    try:
        model.model_validate(body)
    except ValidationError as error:
        for fault in error.errors():
            yield Finding(tuple(fault["loc"]), "schema", fault["msg"], "correct the field")


def _unknown(annotation: Any, value: Any, path: Path) -> Iterator[Finding]:
    model = _model(annotation)
    if model is not None and isinstance(value, dict):
        yield from _unknown_fields(model, value, path)
    elif isinstance(value, list):
        inner = _argument(annotation, list, 0)
        for i, item in enumerate(value):
            yield from _unknown(inner, item, (*path, i))
    elif isinstance(value, dict):
        inner = _argument(annotation, dict, 1)
        for key, item in value.items():
            yield from _unknown(inner, item, (*path, str(key)))


def _unknown_fields(model: type[BaseModel], value: dict[str, Any], path: Path) -> Iterator[Finding]:
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for key, item in value.items():
        if key in fields:
            yield from _unknown(fields[key], item, (*path, key))
        else:
            do = SUCCESSORS.get(key, "remove it or correct its spelling")
            yield Finding((*path, str(key)), "unknown-field", f"{model.__name__} has no field {key}", do)


def _options(annotation: Any) -> Iterator[Any]:
    """The alternatives of Optional, Union and Annotated, flattened."""
    if get_origin(annotation) is Annotated:
        yield from _options(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for option in get_args(annotation):
            yield from _options(option)
    else:
        yield annotation


def _model(annotation: Any) -> type[BaseModel] | None:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel) and not issubclass(option, RootModel):
            return option
    return None


def _argument(annotation: Any, container: type, index: int) -> Any:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, RootModel):
            return _argument(option.model_fields["root"].annotation, container, index)
        if get_origin(option) is container:
            return get_args(option)[index]
    return None
