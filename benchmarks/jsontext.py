"""Figures as JSON."""

import json
from typing import Any


def as_json(body: Any) -> str:
    """The text of dicts, sequences and scalars; an undefined figure (NaN) is null."""
    return json.dumps(_plain(body), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(of) for of in value]
    return None if value != value else value
