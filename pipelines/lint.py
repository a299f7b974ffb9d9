"""`walkforward lint`: Argo YAML checked without a cluster: schema, references, our rules."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

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


def lint_files(files: list[Path]) -> list[Finding]:
    """Findings of the files, of the freshly rendered template where none is given."""
    if not files:
        return lint_text(render(ChartValues()), FRESH)
    found: list[Finding] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise InputError(f"cannot read: {reason}", where=str(file), do="give a YAML file") from error
        found += lint_text(text, str(file))
    return found


def lint_text(text: str, file: str) -> list[Finding]:
    """Findings of every document of a YAML text."""
    return [replace(finding, file=file) for finding in _findings(text)]


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
