"""The chart's generated files: workflow template, values and their schema; the rest is written by hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipelines.chart.values import InstallValues, schema, value_name
from pipelines.identity import REPOSITORY
from pipelines.settings import ChartValues

if TYPE_CHECKING:
    from pipelines.chart.symbolic import Symbolic

CHART = REPOSITORY / "charts" / "walkforward"
WIDTH = 110
REWRITE = "python -m pipelines.chart"
WRITTEN = f"# Written by `{REWRITE}`; change pipelines/ and run it again.\n"


def generated(found: "Symbolic") -> dict[Path, str]:
    """Text of every generated file by its path; `found` is what `symbolic` makes of `rendered`."""
    from pipelines.chart.helm import template_text

    return {
        CHART / "templates" / "workflowtemplate.yaml": WRITTEN + template_text(found.tree, found.markers),
        CHART / "values.yaml": values_text(),
        CHART / "values.schema.json": json.dumps(schema(), indent=2) + "\n",
    }


def rendered(values: ChartValues) -> dict[str, Any]:
    """The workflow template as a tree."""
    from pipelines.workflow import workflow_template

    made: dict[str, Any] = workflow_template(values).to_dict()
    return made


def stale(texts: dict[Path, str]) -> list[Path]:
    """Files that differ from what the code writes."""
    return [path for path, text in texts.items() if not path.is_file() or path.read_text("utf-8") != text]


def values_text() -> str:
    """values.yaml: every value with its description above it."""
    head = f"{WRITTEN}# `walkforward render --values` reads this file too.\n"
    return head + "\n".join(_lines(InstallValues(), "")) + "\n"


def _lines(values: BaseModel, indent: str) -> Iterator[str]:
    for name, field in type(values).model_fields.items():
        if (type(values), name) == (InstallValues, "namespace"):
            continue  # Helm's own option --namespace
        if not indent:
            yield ""
        value = getattr(values, name)
        for line in wrap(_comment(field, value), WIDTH - len(indent) - 2):
            yield f"{indent}# {line}"
        if isinstance(value, BaseModel):
            yield f"{indent}{value_name(name)}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{value_name(name)}: {json.dumps(value, default=_plain)}"


def _comment(field: FieldInfo, value: Any) -> str:
    """A section begins with what its model says of itself; a choice ends with its words."""
    description = field.description or ""
    text = description[:1].upper() + description[1:]
    if isinstance(value, BaseModel):
        return f"{(value.__doc__ or '').splitlines()[0]} {text}."
    options = get_args(field.annotation)
    chosen = options and all(isinstance(option, str) for option in options)
    return f"{text} ({', '.join(options)})" if chosen else text


def _plain(value: Any) -> Any:
    return value.model_dump(by_alias=True)
