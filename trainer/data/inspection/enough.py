"""What a number of rows is enough for: asks the planner of walk-forward windows itself."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from trainer.config import Config
from trainer.data.cache import MIN_WINDOW_DECISIONS, Cache, rows_needed
from trainer.data.decisions import least_rows
from trainer.data.inspection.book import RowTimes
from trainer.data.inspection.report import WalkForwardReport
from trainer.data.windows import Window, plan_windows, train_test
from trainer.errors import InputError

MOST_FOLDS = 50  # more are not tried


@dataclass(frozen=True)
class Rows:
    """What planning reads of a cache."""

    ts_ns: RowTimes
    segments: npt.NDArray[np.void]  # [G] structured of SEGMENT


def walk_forward(rows: Rows, config: Config) -> WalkForwardReport:
    """Whether `config` fits the rows; else what would."""
    windows, refusal = _plan(rows, config)
    return WalkForwardReport(
        decision_rows=config.data.decision_rows,
        decisions=len(rows.ts_ns) // config.data.decision_rows,
        folds=config.data.folds,
        enough=bool(windows),
        refusal=refusal,
        window_rows=tuple(window.num_rows for window in windows),
        most_folds=_most_folds(rows, config),
        most_decision_rows=_most_decision_rows(rows, config),
    )


def _plan(rows: Rows, config: Config) -> tuple[list[Window], str]:
    """The windows, or none and why not."""
    needed, words = rows_needed(config)
    if len(rows.ts_ns) < needed:
        return [], f"fewer than the {needed} that {words}"
    cache = cast(Cache, rows)
    try:
        windows = plan_windows(cache, config)
        for fold in range(config.data.folds):
            train_test(cache, windows, fold, config)
    except InputError as error:
        return [], error.what
    return windows, ""


def _most_folds(rows: Rows, config: Config) -> int:
    most = len(rows.ts_ns) // (MIN_WINDOW_DECISIONS * least_rows(config.data)) - 1
    tried = range(min(most, MOST_FOLDS), 0, -1)
    return next((folds for folds in tried if _fits(rows, config, {"folds": folds})), 0)


def _most_decision_rows(rows: Rows, config: Config) -> int:
    """The configured ones, halved until the rows are enough; 0 where they never are."""
    step = config.data.decision_rows
    while step and not _fits(rows, config, {"decision_rows": step}):
        step //= 2
    return step


def _fits(rows: Rows, config: Config, change: dict[str, int]) -> bool:
    return bool(_plan(rows, config.replaced(data=change))[0])
