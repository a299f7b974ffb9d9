"""Parameters of a run, each with its unit and reason, and how a person gives them: as options and words.

They become the workflow template's parameters: name, default, description, choices. Loads no torch, no Hera.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from pipelines.settings import RUN_ID_PATTERN, Tag, Values, first_error
from trainer.errors import InputError
from trainer.location import S3_SCHEME, S3Url
from trainer.presets import PRESETS

WHERE = "parameters"


def _sizes(preset: str) -> dict[str, int]:
    """Parameters in which presets differ."""
    config = PRESETS[preset]()
    return {
        "n_steps": config.run.n_steps,
        "checkpoint_every": config.run.checkpoint_every,
        "n_backtests": config.learn.n_backtests,
        "per_capacity": config.learn.per_capacity,
    }


USUAL = _sizes("default")  # a template has one default of each


def _wanted_sizes() -> str:
    """What a person who types parameters for Argo's own command has to add."""
    others = {preset: _sizes(preset).items() - USUAL.items() for preset in PRESETS if preset != "default"}
    return "; ".join(
        f"{preset} wants {', '.join(f'{parameter_name(name)} {size}' for name, size in sorted(sizes))}"
        for preset, sizes in others.items()
    )


def _path_in_the_pod(path: str) -> str:
    if path and not path.startswith("/"):
        raise ValueError("a path in the pod begins with '/'; files of this machine are not there")
    return path


def parameter_name(field: str) -> str:
    """Workflow parameter of a field: `n_steps` -> `n-steps`."""
    return field.replace("_", "-")


class RunParameters(Values):
    """Parameters of one submitted run (PIPELINE.md, "Shape"), complete with defaults: none must be given."""

    git_branch: Tag = Field(
        default="main",
        description="tag of the image that holds this code; nothing is fetched or built in the pod",
    )
    folds: int = Field(
        default=3, ge=1, le=100, description="walk-forward folds; the data is cut in folds + 1 windows"
    )
    fold_idx: int = Field(
        default=-1, ge=-1, description="0 or more: train and judge that fold only, no verdict; -1: all"
    )
    n_steps: int = Field(
        default=USUAL["n_steps"], ge=1, description="training steps of a fold, resumed ones included"
    )
    n_backtests: int = Field(
        default=USUAL["n_backtests"], ge=1, description="lanes: market replays trained on in parallel"
    )
    per_capacity: int = Field(
        default=USUAL["per_capacity"],
        ge=1,
        description="transitions the replay keeps; a power of two, at least n-backtests",
    )
    checkpoint_every: int = Field(
        default=USUAL["checkpoint_every"], ge=0, description="steps between checkpoints; 0: only at the end"
    )
    seed: int = Field(default=0, ge=0, description="of weights, sampling and anchors")
    preset: Literal["default", "demo", "seed"] = Field(
        default="default",
        description=f"named starting point of the config; {_wanted_sizes()}: `walkforward submit --preset` "
        "sends them by itself",
    )
    market: Literal["files", "planted", "martingale"] = Field(
        default="files", description="files: mbp10-data-dir; else a synthetic market with or without a signal"
    )
    mbp10_data_dir: str = Field(default="/data", description="mbp-10 file or directory, a path in the pod")
    trades_data_dir: str = Field(
        default="", description="separate trades directory; empty: trades of the mbp-10 files"
    )
    config: str = Field(default="", description="config file, a path in the pod; empty: the preset as it is")
    instrument: str = Field(default="", description="instrument preset; empty: inferred from the file")
    mirror: str = Field(
        default="",
        description="s3://bucket/prefix: results go to <prefix>/<run-id>/, and a run that is there goes on; "
        "empty: none",
    )
    gpu_pool: str = Field(default="ci-training-h100", description="node pool of the training pods")
    run_id: str = Field(
        default="",
        pattern=RUN_ID_PATTERN,
        description="submit the same id again to resume; empty: a new id from git-branch and workflow name",
    )

    @field_validator("mbp10_data_dir", "trades_data_dir")
    @classmethod
    def _names_a_place(cls, location: str) -> str:
        if location.startswith(S3_SCHEME):
            S3Url.parse(location)  # here, not in the pod; and a URL with a password never enters a Workflow
            return location
        return _path_in_the_pod(location)

    @field_validator("config")
    @classmethod
    def _is_in_the_pod(cls, path: str) -> str:
        return _path_in_the_pod(path)

    @field_validator("mirror")
    @classmethod
    def _is_a_bucket(cls, location: str) -> str:
        return str(S3Url.parse(location)) if location else location

    @model_validator(mode="before")
    @classmethod
    def _of_the_preset(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Sizes that nobody gave are the preset's own: the template's defaults are those of `default`."""
        preset = values.get("preset", "default")
        return values if preset == "default" or preset not in PRESETS else {**_sizes(preset), **values}

    @model_validator(mode="after")
    def _agree(self) -> "RunParameters":
        if self.fold_idx >= self.folds:
            raise ValueError(f"fold_idx {self.fold_idx} must be below folds {self.folds}")
        if self.per_capacity & (self.per_capacity - 1) or self.per_capacity < self.n_backtests:
            raise ValueError(
                f"per_capacity {self.per_capacity} must be a power of two >= n_backtests {self.n_backtests}"
            )
        return self


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
