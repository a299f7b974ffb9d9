"""Parameters of a run as a person gives them, by options and `name=value` words, checked and as text."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pipelines.settings import RunParameters, first_error, parameter_name
from trainer.errors import InputError

WHERE = "parameters"


def parameters_given(flags: Mapping[str, Any], pairs: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Parameters to send, of options by field name (None: not given) and of `name=value` words.

    Returns those that this version knows, checked, and the others. Raises InputError for a bad value, a word
    without value, or a parameter given twice.
    """
    values = {parameter_name(name): str(value) for name, value in flags.items() if value is not None}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"{pair!r} has no value", where="--parameter", do="write name=value")
        if name in values:
            raise InputError(f"{name} is given twice", where=WHERE, do="give it once")
        values[name] = value
    fields = {parameter_name(name): name for name in RunParameters.model_fields}
    known = checked({fields[name]: value for name, value in values.items() if name in fields}, WHERE)
    # Unset fields stay out; what a preset brings along counts as given.
    sent = {parameter_name(name): str(value) for name, value in known.model_dump(exclude_unset=True).items()}
    return sent, {name: value for name, value in values.items() if name not in fields}


def parameters_of(pairs: list[str]) -> dict[str, str]:
    """Parameters of `name=value` words where no template can know more than this version does.

    Raises InputError as `parameters_given`, and for an unknown name.
    """
    sent, other = parameters_given({}, pairs)
    refuse_unknown(other)
    return sent


def refuse_unknown(other: Mapping[str, str], do: str = "") -> None:
    """InputError unless there is none; do: in place of the list of known names."""
    if other:
        known = ", ".join(map(parameter_name, RunParameters.model_fields))
        names = ", ".join(other)
        raise InputError(f"unknown parameter {names}", where=WHERE, do=do or f"use one of {known}")


def checked(values: Mapping[str, Any], where: str) -> RunParameters:
    """The parameters by field name, validated; InputError with one line for the first bad value."""
    try:
        return RunParameters.model_validate(values)
    except ValidationError as error:
        raise first_error(error, where) from error
