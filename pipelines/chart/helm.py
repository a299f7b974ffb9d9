"""Writes a symbolic tree as the YAML of a Helm template.

Argo's own `{{ }}` go through Helm as raw strings. Values are always written by toJson, whose output is a YAML
scalar whatever they contain: a value cannot add a line or a field.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from pipelines.chart.markers import Mark, Markers
from pipelines.chart.symbolic import MISSING, Choice
from pipelines.chart.values import value_name
from trainer.errors import InputError

# Words that YAML reads as the text they are, and that need no quotes.
PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[A-Za-z/][A-Za-z0-9_./-]*", re.IGNORECASE)


def template_text(tree: dict[str, Any], markers: Markers) -> str:
    """The lines of the template; InputError where a text holds what Helm's raw strings cannot."""
    return "\n".join(_Writer(markers).mapping(tree, "")) + "\n"


class _Writer:
    def __init__(self, markers: Markers) -> None:
        self._markers = markers

    def mapping(self, items: dict[str, Any], indent: str) -> Iterator[str]:
        for key in sorted(items, key=lambda key: key != "name"):  # the name first, for the reader
            yield from self._entry(key, items[key], indent)

    def _entry(self, key: str, item: Any, indent: str) -> Iterator[str]:
        if isinstance(item, Choice):
            yield from self._choice(item, lambda part: self._entry(key, part, indent))
        elif isinstance(item, dict | list) and item:
            yield f"{indent}{self._scalar(key)}:"
            yield from self._block(item, indent)
        else:
            yield f"{indent}{self._scalar(key)}: {self._scalar(item)}"

    def _block(self, item: dict[str, Any] | list[Any], indent: str) -> Iterator[str]:
        if isinstance(item, dict):
            yield from self.mapping(item, indent + "  ")
            return
        for element in item:
            yield from self._element(element, indent)

    def _element(self, item: Any, indent: str) -> Iterator[str]:
        mark = None if isinstance(item, Choice) else self._markers.repeated(item)
        if isinstance(item, Choice):
            yield from self._choice(item, lambda part: self._element(part, indent))
        elif mark is not None:
            yield f"{{{{- range {_path(mark)} }}}}"
            yield from self._plain_element(item, indent)
            yield "{{- end }}"
        else:
            yield from self._plain_element(item, indent)

    def _plain_element(self, item: Any, indent: str) -> Iterator[str]:
        if not (isinstance(item, dict) and item):
            yield f"{indent}- {self._scalar(item)}"
            return
        first, *rest = self.mapping(item, indent + "  ")
        if first.startswith("{{"):
            yield f"{indent}-"
            yield first
        else:
            yield f"{indent}- {first.lstrip()}"
        yield from rest

    def _choice(self, choice: Choice, written: Any) -> Iterator[str]:
        name = f"$.Values.{value_name(choice.switch)}"
        on, off = choice.on, choice.off
        yield f"{{{{- if {name} }}}}" if on is not MISSING else f"{{{{- if not {name} }}}}"
        yield from written(off if on is MISSING else on)
        if on is not MISSING and off is not MISSING:
            yield "{{- else }}"
            yield from written(off)
        yield "{{- end }}"

    def _scalar(self, item: Any) -> str:
        if isinstance(item, str):
            return self._text(item)
        mark = self._markers.number(item) if type(item) is int else None
        if mark is None:
            return json.dumps(item)
        number = f"int64 {_path(mark)}"
        return f"{{{{ {number} }}}}" if mark.factor == 1 else f"{{{{ mul ({number}) {mark.factor} }}}}"

    def _text(self, text: str) -> str:
        pieces = self._markers.pieces(text)
        marks = [piece for piece in pieces if isinstance(piece, Mark)]
        if not marks:
            written = text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
            return f"{{{{ {_raw(written)} }}}}" if "{{" in written else written
        if len(pieces) == 1 and marks[0].kind is not int:
            return f"{{{{ {_reference(marks[0])} | toJson }}}}"
        form = "".join(
            _verb(piece) if isinstance(piece, Mark) else piece.replace("%", "%%") for piece in pieces
        )
        return f"{{{{ printf {_raw(form)} {' '.join(map(_reference, marks))} | toJson }}}}"


def _raw(text: str) -> str:
    if "`" in text:
        raise InputError(f"a backtick in {text!r}", where="pipelines/workflow.py", do="leave it out")
    return f"`{text}`"


def _verb(mark: Mark) -> str:
    return "%d" if mark.kind is int else "%s"


def _path(mark: Mark) -> str:
    """`.Values.graceSeconds`; the namespace is Helm's own."""
    if mark.path == ("namespace",):
        return "$.Release.Namespace"
    return "$.Values." + ".".join(map(value_name, mark.path))


def _reference(mark: Mark) -> str:
    # Helm reads numbers of values as floating point.
    return "." if mark.kind is tuple else f"(int64 {_path(mark)})" if mark.kind is int else _path(mark)
