"""Values of the workflow template, drawn from all that its model accepts."""

from typing import Any, get_args

from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from pipelines.settings import ChartValues

# What breaks naive text templates: quotes, braces of both languages, percent, a comment, a line break.
TEXTS = st.one_of(
    st.sampled_from(
        ["a", "a b", '"', "'", "{{", "{{ .Values.image }}", "%s", "x: y", "#x", "a\nb", "true", "é<&>"]
    ),
    st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=12),
)
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
QUANTITIES = {"cpu": ["1", "16", "250m"], "memory": ["1Gi", "512Mi", "24Gi"]}


def template_values() -> st.SearchStrategy[ChartValues]:
    """Valid values, every field drawn."""
    return st.fixed_dictionaries(_fields(ChartValues)).map(ChartValues.model_validate)


def _fields(model: type[BaseModel]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: _drawn(name, field) for name, field in model.model_fields.items()}


def _drawn(name: str, field: FieldInfo) -> st.SearchStrategy[Any]:
    options = get_args(field.annotation)
    if isinstance(field.default, bool):
        return st.booleans()
    if isinstance(field.default, BaseModel):
        return st.fixed_dictionaries(_fields(type(field.default)))
    if name in QUANTITIES:
        return st.sampled_from(QUANTITIES[name])
    if isinstance(field.default, tuple):
        return st.lists(TEXTS, max_size=3).map(tuple)
    if isinstance(field.default, int):
        return st.sampled_from(options) if options else st.integers(1, 3_000_000)
    if type(None) in options:
        return st.none() | NAMES
    if options:
        return st.sampled_from(options)
    return NAMES if _is_name(field) else _text(field)


def _is_name(field: FieldInfo) -> bool:
    return any(getattr(rule, "pattern", None) for rule in field.metadata)


def _text(field: FieldInfo) -> st.SearchStrategy[str]:
    return TEXTS | st.just("") if field.default == "" or "empty" in (field.description or "") else TEXTS
