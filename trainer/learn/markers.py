"""Completion markers `<stage>.DONE.json`: what a stage finished, so that a rerun can skip exactly that.

A marker names what it completed (SYSTEM.md section 9): a longer run under the same id has other steps and
another checkpoint digest, so it is never answered with the old result.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainer.errors import InputError
from trainer.learn.atomic import write_json

Stage = Literal["prepare", "train", "evaluate", "gate"]
MARKER_SUFFIX = ".DONE.json"


class Marker(BaseModel):
    """What a stage completed. A field that the stage does not know stays None."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: Stage
    fold: int | None = None
    config_digest: str
    data_fingerprint: str
    steps: int | None = None
    checkpoint: str | None = None
    checkpoint_sha256: str | None = None

    def matches(self, expected: dict[str, Any]) -> bool:
        """Whether every expected field has its value; KeyError for a field markers do not have."""
        body = self.model_dump()
        return all(body[key] == value for key, value in expected.items())


def marker_path(directory: Path, stage: Stage) -> Path:
    """`<directory>/<stage>.DONE.json`."""
    return directory / f"{stage}{MARKER_SUFFIX}"


def write_marker(directory: Path, marker: Marker) -> Path:
    """Write the marker atomically; InputError if the directory cannot be written."""
    path = marker_path(directory, marker.stage)
    try:
        write_json(path, marker.model_dump(mode="json"))
    except OSError as error:
        raise InputError(f"cannot write the marker: {error.strerror or error}", where=str(path)) from error
    return path


def read_marker(directory: Path, stage: Stage) -> Marker | None:
    """The stage's marker or None; InputError for a file that is not a marker of this stage."""
    path = marker_path(directory, stage)
    try:
        marker = Marker.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read the marker: {error.strerror or error}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise InputError(
            f"not a completion marker: {field}: {first['msg']}",
            where=str(path),
            do="delete it",
        ) from error
    if marker.stage != stage:
        raise InputError(f"found stage {marker.stage}, expected {stage}", where=str(path), do="delete it")
    return marker


def is_done(directory: Path, stage: Stage, expected: dict[str, Any]) -> bool:
    """Whether the stage completed exactly what is expected."""
    marker = read_marker(directory, stage)
    return marker is not None and marker.matches(expected)
