"""What one experiment leaves: a JSON file with its curve, its metrics, its verdict and what made it."""

import math
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmarks.learning.experiment import Experiment
from trainer.config import Market
from trainer.errors import InputError, MismatchError
from trainer.learn.atomic import write_json
from trainer.learn.gate import Verdict
from trainer.learn.jsonfloat import JsonFloat
from trainer.learn.metrics import FoldMetrics


class Record(BaseModel):
    """Base: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(Record):
    """The agent after so many steps, on the whole test window: what `FoldMetrics` says of it.

    Rates and bounds in ticks per decision; `entropy_share` is that of the policy on the test window.
    """

    step: int
    net_ticks_per_decision: JsonFloat
    net_lower_ticks: JsonFloat
    win_rate: JsonFloat
    hold_percent: JsonFloat
    num_trades: int
    entropy_share: JsonFloat

    @classmethod
    def of(cls, step: int, metrics: FoldMetrics) -> Self:
        """The point of an agent that was evaluated after `step` steps."""
        return cls(
            step=step,
            net_ticks_per_decision=metrics.net_ticks_per_decision,
            net_lower_ticks=metrics.net_lower_ticks,
            win_rate=metrics.win_rate,
            hold_percent=metrics.hold_percent,
            num_trades=metrics.num_trades,
            entropy_share=metrics.entropy_mean_share,
        )


class FoldResult(Record):
    """One fold: its curve in rising steps (the last point is the judged agent), metrics and seconds."""

    fold: int
    untrained_ticks_per_decision: JsonFloat  # net of the agent before step 1
    curve: tuple[Point, ...]
    metrics: FoldMetrics
    train_s: float  # compiling and opening included
    evaluate_s: float


class Yardstick(Record):
    """What a trader who knows the market earns on it (`trainer.data.oracle_trader`)."""

    net_ticks_per_decision: JsonFloat
    win_rate: JsonFloat
    hold_percent: JsonFloat


class Result(Record):
    """A finished experiment.

    verdict: the gate's rule on the folds that were run, which may be fewer than the configuration's
    `planned_folds`. oracle: the optimal trader who sees the planted signal; book: the one who sees the sizes
    of a row only.
    environment: device, versions and commit. digest: `Experiment.digest()`.
    """

    schema_version: Literal[1] = 1
    variant: str
    market: Market
    seed: int
    digest: str
    config_digest: str
    data_fingerprint: str
    config: dict[str, Any]
    n_steps: int
    planned_folds: int
    environment: dict[str, str]
    prepare_s: float
    oracle: Yardstick
    book: Yardstick
    folds: tuple[FoldResult, ...]
    verdict: Verdict

    @property
    def net_ticks_per_decision(self) -> float:
        """Mean over folds."""
        return mean([fold.metrics.net_ticks_per_decision for fold in self.folds])

    @property
    def oracle_share(self) -> float:
        """Net P&L over that of the optimal trader; NaN where there is nothing to earn."""
        return share(self.net_ticks_per_decision, self.oracle.net_ticks_per_decision)


def mean(values: list[float]) -> float:
    """Of the values that are defined; NaN without any."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def share(net: float, best: float) -> float:
    """`net` over `best`; NaN unless `best` > 0."""
    return net / best if best > 0 else math.nan


def result_path(directory: Path, experiment: Experiment) -> Path:
    """Where the result of the experiment is kept."""
    return directory / f"{experiment.name}.json"


def write_result(directory: Path, experiment: Experiment, result: Result) -> Path:
    """Writes it atomically; InputError if the directory cannot be written."""
    path = result_path(directory, experiment)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_json(path, result.model_dump(mode="json"))
    except OSError as error:
        what = f"cannot write the result: {error.strerror or error}"
        raise InputError(what, where=str(path), do="choose a writable --out") from error
    return path


def read_result(path: Path) -> Result:
    """InputError for a file that is no result."""
    try:
        return Result.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read the result: {error.strerror or error}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        what = f"not a result of benchmarks.learn: {field}: {first['msg']}"
        raise InputError(what, where=str(path), do="delete it") from error


def finished(directory: Path, experiment: Experiment) -> Result | None:
    """The result of this very experiment, or None where it is still to be run, or to be run for longer.

    MismatchError where the file holds another configuration: results are never replaced by others' unasked.
    """
    path = result_path(directory, experiment)
    if not path.exists():
        return None
    result = read_result(path)
    if result.config_digest != experiment.config.digest():
        raise MismatchError(
            f"config digest is {result.config_digest}, this one's is {experiment.config.digest()}",
            where=str(path), do="use another --name or --out",
        )  # fmt: skip
    return result if result.digest == experiment.digest() else None
