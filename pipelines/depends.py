"""Argo's `depends` expressions: `(a.Succeeded || a.Failed) && !b.Skipped`."""

import re
from collections.abc import Callable

STATUSES = ("Succeeded", "Failed", "Errored", "Skipped", "Omitted", "Daemoned", "AnySucceeded", "AllFailed")
TOKEN = re.compile(r"\s*(&&|\|\||!|\(|\)|[A-Za-z0-9_-]+(?:\.[A-Za-z]+)?)")


def parse_depends(text: str) -> list[tuple[str, str]]:
    """Tasks that the expression names, each with its status ("" where none is written).

    Raises ValueError that says what is wrong with the expression.
    """
    parser = _Parser(_tokens(text))
    parser.alternatives()
    if parser.rest:
        raise ValueError(f"{parser.rest[0]!r} does not belong there")
    return parser.found


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"cannot read {text[at:].strip()[:20]!r}")
        tokens.append(match[1])
        at = match.end()
    return tokens


class _Parser:
    """alternatives: both || both...; both: term && term...; term: !term, (alternatives) or a task."""

    def __init__(self, tokens: list[str]) -> None:
        self.rest = tokens
        self.found: list[tuple[str, str]] = []

    def alternatives(self) -> None:
        self._chain("||", lambda: self._chain("&&", self._term))

    def _chain(self, operator: str, part: Callable[[], None]) -> None:
        part()
        while self.rest and self.rest[0] == operator:
            self.rest = self.rest[1:]
            part()

    def _term(self) -> None:
        if not self.rest:
            raise ValueError("it ends too early")
        token, self.rest = self.rest[0], self.rest[1:]
        if token == "!":
            self._term()
        elif token == "(":
            self.alternatives()
            if not self.rest or self.rest[0] != ")":
                raise ValueError("a parenthesis is not closed")
            self.rest = self.rest[1:]
        elif token in ("&&", "||", ")"):
            raise ValueError(f"{token!r} where a task is expected")
        else:
            self._task(token)

    def _task(self, token: str) -> None:
        name, _, status = token.partition(".")
        if status and status not in STATUSES:
            raise ValueError(f"{status!r} is no task result; use one of {', '.join(STATUSES)}")
        self.found.append((name, status))
