"""Stand-ins for the chart's values that can be found again in a rendered template."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from pipelines.settings import ChartValues

# Numbers and words that no template holds; all of one length, so that none is the beginning of another.
FIRST_NUMBER = 77_300_001
QUANTITY = re.compile(r"[0-9.]+([a-zA-Z]*)")


@dataclass(frozen=True)
class Mark:
    """A value within a text or number: its field names from the top, and the factor of a number."""

    path: tuple[str, ...]
    kind: type
    factor: int = 1


class Markers:
    """One marker for every field of `ChartValues`; switches and choices are values that turn all parts on."""

    def __init__(self) -> None:
        self.choices: dict[str, tuple[str, ...]] = {}
        self._texts: dict[str, Mark] = {}
        self._numbers: dict[int, Mark] = {}
        self.values = dict(self._fields(ChartValues, ()))
        self._pattern = re.compile("|".join(map(re.escape, (*self._texts, *map(str, self._numbers)))))

    def _fields(self, model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name, field in model.model_fields.items():
            yield name, self._marker((*above, name), field.annotation, field.default)

    def _marker(self, path: tuple[str, ...], kind: Any, default: Any) -> Any:
        options = get_args(kind)
        if isinstance(default, bool):
            return True
        if isinstance(default, BaseModel):
            return type(default).model_construct(**dict(self._fields(type(default), path)))
        if options and all(isinstance(option, str) for option in options):
            self.choices[path[0]] = options
            return default
        if 0 in options:
            return max(options)
        number = FIRST_NUMBER + len(self._texts) + len(self._numbers)
        if isinstance(default, int):
            self._numbers[number] = Mark(path, int)
            return number
        if not isinstance(default, str | tuple | None):
            raise TypeError(f"{'.'.join(path)}: no marker for a {type(default).__name__}")
        text = self._text(number, default)
        self._texts[text] = Mark(path, type(default) if isinstance(default, tuple) else str)
        return (text,) if isinstance(default, tuple) else text

    def _text(self, number: int, default: Any) -> str:
        """A word, or where the default is a quantity (which Hera checks) another quantity of its unit."""
        quantity = QUANTITY.fullmatch(default) if isinstance(default, str) else None
        return f"{number}{quantity[1]}" if quantity else f"z{number}z"

    def rendered(
        self, render: Callable[[ChartValues], dict[str, Any]], changed: dict[str, Any]
    ) -> dict[str, Any]:
        """The tree of marked values but for `changed`; a choice among words becomes a marker here."""
        values = self.values | changed
        tree = render(ChartValues.model_construct(**values))
        for name, options in self.choices.items():
            other = next(option for option in options if option != values[name])
            again = render(ChartValues.model_construct(**values | {name: other}))
            word = f"z{name}z"
            if word not in self._texts:
                self._texts[word] = Mark((name,), str)
                self._pattern = re.compile(f"{self._pattern.pattern}|{re.escape(word)}")
            tree = _replaced(tree, again, word)
        return tree

    def pieces(self, text: str) -> list[str | Mark]:
        """The text cut at its markers; without empty pieces."""
        found: list[str | Mark] = []
        end = 0
        for match in self._pattern.finditer(text):
            found += [text[end : match.start()], self._texts.get(match[0]) or self._numbers[int(match[0])]]
            end = match.end()
        return [piece for piece in (*found, text[end:]) if piece != ""]

    def number(self, value: int) -> Mark | None:
        """What a whole number is made of: a marker times a factor, or nothing."""
        for number, mark in self._numbers.items():
            if value and value % number == 0:
                return Mark(mark.path, int, value // number)
        return None

    def repeated(self, node: Any) -> Mark | None:
        """The list value whose every item repeats this node; None for a node that stands once."""
        if isinstance(node, dict):
            return next(filter(None, map(self.repeated, node.values())), None)
        if isinstance(node, str):
            return next(
                (piece for piece in self.pieces(node) if isinstance(piece, Mark) and piece.kind is tuple),
                None,
            )
        return None

    def substituted(self, node: Any, values: dict[str, Any]) -> Any:
        """The tree with the markers of `values` (by field) replaced by them; other markers stay."""
        if isinstance(node, dict):
            return {self.substituted(key, values): self.substituted(v, values) for key, v in node.items()}
        if isinstance(node, list):
            return [made for item in node for made in self._items(item, values)]
        if isinstance(node, str):
            return self._pattern.sub(lambda match: self._value_text(match[0], values), node)
        mark = self.number(node) if type(node) is int else None
        return looked_up(values, mark.path) * mark.factor if mark and mark.path[0] in values else node

    def _items(self, item: Any, values: dict[str, Any]) -> list[Any]:
        mark = self.repeated(item)
        if mark is None or mark.path[0] not in values:
            return [self.substituted(item, values)]
        name = mark.path[0]
        return [self.substituted(item, values | {name: (each,)}) for each in values[name]]

    def _value_text(self, word: str, values: dict[str, Any]) -> str:
        mark = self._texts.get(word) or self._numbers[int(word)]
        if mark.path[0] not in values:
            return word
        value = looked_up(values, mark.path)
        return str(value[0] if mark.kind is tuple else value)


def looked_up(values: dict[str, Any], path: tuple[str, ...]) -> Any:
    """A value by its field names from the top."""
    value = values[path[0]]
    for name in path[1:]:
        value = getattr(value, name)
    return value


def _replaced(tree: Any, again: Any, word: str) -> Any:
    """The tree with `word` where the two differ; they differ in single texts only."""
    if isinstance(tree, dict):
        return {key: _replaced(item, again[key], word) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_replaced(item, other, word) for item, other in zip(tree, again, strict=True)]
    return tree if tree == again else word
