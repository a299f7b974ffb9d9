"""The run directory: what `prepare` fixed and every later stage reads (`run.json`)."""

import json
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from trainer.config import Config
from trainer.errors import InputError, MismatchError
from trainer.learn.atomic import write_json

RUN_FILE = "run.json"
METRICS_FILE = "metrics.json"  # of a fold, written by evaluate and read by the gate


class WindowRows(BaseModel):
    """Half-open row and time range of a window in the cache."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start_row: int
    end_row: int
    start_ns: int
    end_ns: int


class FoldRows(BaseModel):
    """Train and test window of one fold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: WindowRows
    test: WindowRows


class Run(BaseModel):
    """A prepared run. Frozen: a changed configuration or other data is another run id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: Config
    config_digest: str
    data_fingerprint: str
    code_sha: str
    cache_dir: Path
    folds: tuple[FoldRows, ...]

    @classmethod
    def load(cls, run_dir: Path) -> Self:
        """Reads `run.json`; InputError when it is absent or damaged."""
        path = run_dir / RUN_FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError as error:
            raise InputError(
                "no prepared run here", where=str(path), do="run `python -m trainer prepare --run-dir` first"
            ) from error
        except (OSError, ValidationError) as error:
            raise InputError(
                f"unreadable: {str(error).splitlines()[0]}", where=str(path), do="prepare again"
            ) from error

    def save(self, run_dir: Path) -> None:
        """Writes `run.json` atomically; refuses to replace that of another configuration or other data."""
        path = run_dir / RUN_FILE
        if path.exists():
            self.require_same(Run.load(run_dir), path)
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
            write_json(path, json.loads(self.model_dump_json()))
        except OSError as error:
            raise InputError(
                f"cannot write: {error.strerror or error}", where=str(path), do="choose a writable --run-dir"
            ) from error

    def require_same(self, stored: "Run", path: Path) -> None:
        """MismatchError unless `stored` was made by this configuration on this data."""
        for name, label in (("config_digest", "config digest"), ("data_fingerprint", "data fingerprint")):
            mine, theirs = getattr(self, name), getattr(stored, name)
            if mine != theirs:
                raise MismatchError(
                    f"{label} is {theirs}, this run's is {mine}", where=str(path), do="use another --run-id"
                )

    def with_run_options(self, changes: dict[str, Any]) -> "Run":
        """The same run with fields of `RunConfig` replaced: they are outside the digest."""
        return self.model_copy(update={"config": self.config.replaced(run=changes)}) if changes else self

    def fold(self, index: int) -> FoldRows:
        """The windows of a fold; InputError when there is no such fold."""
        if not 0 <= index < len(self.folds):
            raise InputError(
                f"there is no fold {index}", where="--fold-idx", do=f"give 0 to {len(self.folds) - 1}"
            )
        return self.folds[index]


def fold_dir(run_dir: Path, index: int) -> Path:
    """`<run-dir>/fold<k>`."""
    return run_dir / f"fold{index}"
