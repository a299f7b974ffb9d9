"""The walk-forward gate: from the folds' metrics to one verdict with every reason (SYSTEM.md section 10)."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from trainer.config import GateConfig
from trainer.errors import ExitCode
from trainer.learn.jsonfloat import JsonFloat
from trainer.learn.metrics import FoldMetrics

Outcome = Literal["pass", "fail", "reject", "inconclusive"]

PRESENT = "present"

EXIT_CODES: dict[Outcome, ExitCode] = {
    "pass": ExitCode.DONE,
    "fail": ExitCode.REJECTED,
    "reject": ExitCode.REJECTED,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


class Criterion(BaseModel):
    """One judged number of a fold: `value` against `threshold` (in words, with the unit)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fold: int
    name: str
    value: JsonFloat
    threshold: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        if self.name == PRESENT:
            return f"fold {self.fold}: {'present' if self.passed else 'missing, it was not evaluated'}"
        shown = "undefined" if math.isnan(self.value) else f"{self.value:.4g}"
        return f"fold {self.fold}: {self.name} is {shown}, needs {self.threshold}" + (
            f" ({self.detail})" if self.detail else ""
        )


class Verdict(BaseModel):
    """The outcome, why, and what was judged.

    reasons: the criteria that decided the outcome; empty for a pass. folds: all criteria of every fold, in
    order; a missing fold has the single criterion `present`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    outcome: Outcome
    exit_code: ExitCode
    reasons: tuple[Criterion, ...]
    folds: tuple[tuple[Criterion, ...], ...]


def judge(folds: Sequence[FoldMetrics | None], cfg: GateConfig) -> Verdict:
    """Judge all folds of a run; `folds[k]` is None where fold k has no metrics.

    The order is the rule: a missing fold (or none at all) fails; then too few trades in a fold are
    inconclusive; then a win rate under `cfg.reject_win_rate` rejects; then every criterion must pass on every
    fold, and NaN passes none. A run of a single fold out of several is not for this function: it gives no
    verdict.
    """
    rows = tuple(
        (_present(number, False),) if fold is None else fold_criteria(number, fold, cfg)
        for number, fold in enumerate(folds)
    )
    missing = tuple(row[0] for row, fold in zip(rows, folds, strict=True) if fold is None)
    if missing or not rows:
        return _verdict("fail", missing or (_present(0, False),), rows)
    if few := _failed(rows, "trades"):
        return _verdict("inconclusive", few, rows)
    if losing := tuple(
        _rejection(k, fold, cfg) for k, fold in enumerate(folds) if fold and _loses(fold, cfg)
    ):
        return _verdict("reject", losing, rows)
    failed = _failed(rows)
    return _verdict("fail" if failed else "pass", failed, rows)


def fold_criteria(number: int, fold: FoldMetrics, cfg: GateConfig) -> tuple[Criterion, ...]:
    """All criteria of a fold, in the order they are shown."""
    low, high = cfg.hold_percent
    entropy, undefined = fold.training_entropy, fold.undefined()
    bound = f"> 0 ticks per decision at {fold.confidence:.0%}"

    def criterion(name: str, value: float, threshold: str, passed: bool, detail: str = "") -> Criterion:
        # A comparison with NaN is false, so an undefined value passes nothing.
        return Criterion(
            fold=number, name=name, value=value, threshold=threshold, passed=passed, detail=detail
        )

    return (
        _present(number, True),
        criterion("trades", fold.num_trades, f">= {cfg.min_trades}", fold.num_trades >= cfg.min_trades),
        criterion("win rate", fold.win_rate, f"> {cfg.pass_win_rate}", fold.win_rate > cfg.pass_win_rate),
        criterion("hold %", fold.hold_percent, f"{low:g} to {high:g}", low <= fold.hold_percent <= high),
        criterion(
            "entropy", entropy.minimum, f">= {cfg.min_entropy}, no fall", _stable(fold, cfg), entropy.reason
        ),
        criterion("net P&L, lower bound", fold.net_lower_ticks, bound, fold.net_lower_ticks > 0),
        criterion(
            "excess over random, lower bound", fold.excess_lower_ticks, bound, fold.excess_lower_ticks > 0
        ),
        # More than rounding is money that appeared or vanished: no bound above is of a real account.
        criterion("P&L in no trade", fold.unexplained_ticks, "0 ticks", fold.explained()),
        criterion("undefined metrics", len(undefined), "none", not undefined, ", ".join(undefined)),
    )


def _stable(fold: FoldMetrics, cfg: GateConfig) -> bool:
    entropy = fold.training_entropy
    return entropy.stable and entropy.minimum >= cfg.min_entropy and math.isfinite(entropy.relative_fall)


def _present(number: int, present: bool) -> Criterion:
    return Criterion(
        fold=number,
        name=PRESENT,
        value=float(present),
        threshold="1",
        passed=present,
    )


def _loses(fold: FoldMetrics, cfg: GateConfig) -> bool:
    return fold.win_rate < cfg.reject_win_rate


def _rejection(number: int, fold: FoldMetrics, cfg: GateConfig) -> Criterion:
    return Criterion(
        fold=number,
        name="win rate",
        value=fold.win_rate,
        threshold=f">= {cfg.reject_win_rate} not to be rejected",
        passed=False,
    )


def _failed(rows: tuple[tuple[Criterion, ...], ...], name: str | None = None) -> tuple[Criterion, ...]:
    return tuple(
        criterion
        for row in rows
        for criterion in row
        if not criterion.passed and (name is None or criterion.name == name)
    )


def _verdict(
    outcome: Outcome, reasons: tuple[Criterion, ...], rows: tuple[tuple[Criterion, ...], ...]
) -> Verdict:
    return Verdict(outcome=outcome, exit_code=EXIT_CODES[outcome], reasons=reasons, folds=rows)
