"""Floats that may be undefined or infinite in JSON: NaN is null, infinities are "inf" and "-inf"."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer


def _to_json(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _from_json(value: Any) -> Any:
    return math.nan if value is None else value


JsonFloat = Annotated[
    float,
    BeforeValidator(_from_json),
    PlainSerializer(_to_json, return_type=float | str | None, when_used="json"),
]
