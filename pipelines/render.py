"""The YAML that a chart or `kubectl` reads: the template, or a Workflow that uses it."""

from pathlib import Path

import yaml
from pydantic import ValidationError

from pipelines.chart.values import InstallValues
from pipelines.settings import ChartValues, RunParameters, first_error, parameters_from
from trainer.errors import InputError

HEADER = "# Rendered by `walkforward render`; change pipelines/ and render again.\n"


def render(values: ChartValues, parameters: RunParameters | None = None) -> str:
    """YAML of the template; with `parameters` of a Workflow that refers to it."""
    from pipelines.workflow import submitted, workflow_template  # Hera: over a second

    made = workflow_template(values) if parameters is None else submitted(values, parameters)
    return HEADER + str(made.to_yaml(width=1_000))


def chart_values(file: Path | None) -> ChartValues:
    """Values of a YAML file, such as the chart's, over the defaults; InputError where it cannot be used."""
    if file is None:
        return ChartValues()
    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(file), do="check the path") from error
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {error}", where=str(file), do="correct the syntax") from error
    try:
        return InstallValues.model_validate(body or {})
    except ValidationError as error:
        raise first_error(error, str(file)) from error


def parameters_of(pairs: list[str]) -> RunParameters:
    """Parameters of `name=value` words of a shell; InputError for an unknown name or a bad value."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{pair!r} has no value", where="--parameter", do="write name=value")
        field = name.replace("-", "_")
        if field not in RunParameters.model_fields:
            known = ", ".join(known.replace("_", "-") for known in RunParameters.model_fields)
            raise InputError(f"unknown parameter {name}", where="--parameter", do=f"use one of {known}")
        values[field] = value
    return parameters_from(values, "--parameter")
