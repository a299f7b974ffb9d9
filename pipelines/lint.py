"""`walkforward lint`: Argo YAML checked for schema, references and our rules, and by a server where asked."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from pipelines.cluster.api import AbsentError, DeniedError, UnreachableError, WorkflowApi
from pipelines.finding import Finding, document_of
from pipelines.references import check_references
from pipelines.render import render
from pipelines.rules import RULES
from pipelines.schema import check_schema
from pipelines.settings import ChartValues
from trainer.errors import InputError

FRESH = "template"
# libyaml's loader where it is built in: ten times faster.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def lint_files(files: list[Path], api: WorkflowApi | None = None) -> list[Finding]:
    """Findings of the files, of the freshly rendered template where none is given.

    api: asked about each text that has no finding here. Raises InputError for a file that cannot be read, and
    where the server cannot be asked.
    """
    return [finding for name, text in _texts(files, api) for finding in _of_text(name, text, api)]


def _of_text(name: str, text: str, api: WorkflowApi | None) -> list[Finding]:
    return lint_text(text, name) or ([] if api is None else lint_by_server(text, name, api))


def _texts(files: list[Path], api: WorkflowApi | None) -> Iterator[tuple[str, str]]:
    if not files:
        yield FRESH, render(ChartValues() if api is None else ChartValues(namespace=api.namespace))
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise InputError(f"cannot read: {reason}", where=str(file), do="give a YAML file") from error


def lint_text(text: str, file: str) -> list[Finding]:
    """Findings of every document of a YAML text."""
    return [replace(finding, file=file) for finding in _findings(text)]


def lint_by_server(text: str, file: str, api: WorkflowApi) -> list[Finding]:
    """What a server would refuse of a text that is well-formed here; nothing is stored.

    Raises InputError where it cannot be asked.
    """
    found = []
    for body in filter(None, yaml.load_all(text, Loader=LOADER)):
        try:
            api.admit(body)
        except (AbsentError, DeniedError, UnreachableError):
            raise
        except InputError as error:
            found.append(Finding((), "server", error.what, "correct it as the server asks", file))
    return found


def _findings(text: str) -> Iterator[Finding]:
    try:
        bodies: list[Any] = [body for body in yaml.load_all(text, Loader=LOADER) if body is not None]
    except yaml.YAMLError as error:
        yield Finding((), "yaml", " ".join(str(error).split()), "correct the syntax")
        return
    if not bodies:
        yield Finding((), "yaml", "no document", "give an Argo document")
    for body in bodies:
        faults = check_schema(body)
        yield from faults
        if not any(fault.rule == "schema" for fault in faults):
            # Rules read a document whose known fields have their types; unknown fields do not disturb them.
            document = document_of(body)
            yield from check_references(document)
            for rule in RULES:
                yield from rule(document)
