"""The YAML that a chart or `kubectl` reads: the template, or a Workflow that uses it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from pipelines.chart.values import InstallValues
from pipelines.cluster.submission import Submission, workflow_body
from pipelines.settings import ChartValues, first_error
from trainer.errors import InputError

HEADER = "# Rendered by `walkforward render`; change pipelines/ and render again.\n"


def render(values: ChartValues, parameters: Mapping[str, str] | None = None) -> str:
    """YAML of the template; with `parameters` of a Workflow that refers to it, as submit sends it."""
    if parameters is not None:
        body = workflow_body(Submission(values.template_name, parameters), values.namespace)
        return HEADER + yaml.safe_dump(body, sort_keys=False, width=1_000)
    from pipelines.workflow import workflow_template  # Hera: over a second

    return HEADER + str(workflow_template(values).to_yaml(width=1_000))


def chart_values(file: Path | None, namespace: str | None = None) -> ChartValues:
    """Values of a YAML file, such as the chart's, over the defaults; InputError where it cannot be used.

    namespace: over both, unless None.
    """
    over = {} if namespace is None else {"namespace": namespace}
    if file is None:
        return _validated(over, "--namespace")
    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(file), do="check the path") from error
    except yaml.YAMLError as error:
        raise InputError(f"not YAML: {error}", where=str(file), do="correct the syntax") from error
    if not isinstance(body or {}, dict):
        raise InputError("not a mapping of values", where=str(file), do="write name: value lines")
    return _validated({**(body or {}), **over}, str(file))


def _validated(body: dict[str, Any], where: str) -> ChartValues:
    try:
        return InstallValues.model_validate(body)
    except ValidationError as error:
        raise first_error(error, where) from error
