"""The verdict as files and people read it: `summary.json` and a terminal table (SYSTEM.md 10, 11)."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainer.errors import InputError
from trainer.learn.atomic import write_json
from trainer.learn.gate import Criterion, Verdict
from trainer.learn.metrics import FoldMetrics

CAVEAT = (
    "Replay has no market impact: other traders do not react to the agent's orders. "
    "A large profit on real data is a leak until shown otherwise."
)

# Word, mark and style: the mark and the word carry the meaning, the colour only helps.
_STYLES = {
    "pass": ("PASS", "✓", "bold green"),
    "fail": ("FAIL", "✗", "bold red"),
    "reject": ("REJECT", "✗", "bold red"),
    "inconclusive": ("INCONCLUSIVE", "?", "bold yellow"),
}
_MEANINGS = {
    "pass": "every fold met every criterion out of sample",
    "fail": "a fold is missing or missed a criterion",
    "reject": "a fold loses more often than it wins",
    "inconclusive": "too few trades to judge",
}

# Field or criterion, heading and format of each column.
_CRITERIA = (
    ("trades", "trades", ".0f"),
    ("win rate", "win rate", ".3f"),
    ("hold %", "hold %", ".1f"),
    ("entropy", "entropy", ".2f"),
    ("net P&L, lower bound", "net ≥", "+.3f"),
    ("excess over random, lower bound", "vs random ≥", "+.3f"),
)
_ACCOUNT = (
    ("net_ticks", "net ticks", "+,.1f"),
    ("net_currency", "net currency", "+,.2f"),
    ("profit_factor", "profit factor", ".2f"),
    ("sharpe", "Sharpe", ".2f"),
    ("max_drawdown_ticks", "max drawdown", ",.1f"),
)


class Summary(BaseModel):
    """`summary.json`: the verdict, the folds' metrics and what was run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    run_id: str
    config_digest: str
    data_fingerprint: str
    verdict: Verdict
    folds: tuple[FoldMetrics | None, ...]
    caveat: str = CAVEAT


def write_summary(path: Path, summary: Summary) -> None:
    """Write the summary atomically; NaN is null, infinities are "inf". InputError if unwritable."""
    try:
        write_json(path, summary.model_dump(mode="json"))
    except OSError as error:
        raise InputError(f"cannot write the summary: {error.strerror or error}", where=str(path)) from error


def read_summary(path: Path) -> Summary:
    """Read what `write_summary` wrote; InputError for anything else."""
    try:
        return Summary.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read the summary: {error.strerror or error}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "file"
        raise InputError(f"not a summary: {field}: {first['msg']}", where=str(path)) from error


def verdict_line(verdict: Verdict) -> str:
    """The verdict in one line, for logs: `verdict: PASS, exit code 0: every fold met ...`."""
    word = _STYLES[verdict.outcome][0]
    return f"verdict: {word}, exit code {int(verdict.exit_code)}: {_MEANINGS[verdict.outcome]}"


def verdict_table(verdict: Verdict, folds: Sequence[FoldMetrics | None]) -> RenderableType:
    """What a terminal shows: criteria and account, a row a fold, then verdict, reasons and caveat.

    Fits 80 columns. Returned, not printed.
    """
    mark, style = _STYLES[verdict.outcome][1:]
    return Group(
        _criteria_table(verdict, folds),
        _account_table(folds),
        _baseline_table(folds),
        Text(f"{mark} {verdict_line(verdict)}", style=style),
        *(Text(f"  ✗ {reason}") for reason in verdict.reasons),
        *(Text(note, style="dim") for note in [*_notes(folds), CAVEAT]),
    )


def _criteria_table(verdict: Verdict, folds: Sequence[FoldMetrics | None]) -> Table:
    table = _table("Walk-forward, out of sample", (label for _, label, _ in _CRITERIA))
    for number, (criteria, fold) in enumerate(zip(verdict.folds, folds, strict=True)):
        by_name = {criterion.name: criterion for criterion in criteria}
        judged = [_cell(by_name[name], form) for name, _, form in _CRITERIA if name in by_name]
        table.add_row(str(number), *(judged if fold is not None else [Text("✗ missing", style="red")]))
    return table


def _account_table(folds: Sequence[FoldMetrics | None]) -> Table:
    table = _table("Account", (label for _, label, _ in _ACCOUNT))
    for number, fold in enumerate(folds):
        if fold is not None:
            cells = (_number(getattr(fold, name), form) for name, _, form in _ACCOUNT)
            table.add_row(str(number), *cells)
    return table


def _table(title: str, headings: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in ("fold", *headings):
        table.add_column(heading, justify="right")
    return table


def _cell(criterion: Criterion, form: str) -> Text:
    number = _number(criterion.value, form)
    return Text(f"{number} ✓", style="green") if criterion.passed else Text(f"{number} ✗", style="red")


def _costs(fold: FoldMetrics) -> str:
    spread = fold.spread_cost_ticks
    inside = "" if spread is None else f" (after {_number(spread, ',.1f')} of spread)"
    gross, fees = _number(fold.gross_ticks, "+,.1f"), _number(fold.fee_ticks, ",.1f")
    net = _number(fold.net_ticks, "+,.1f")
    return f"fold {fold.fold}, ticks: gross {gross}{inside}, fees {fees}, net {net}."


def _baseline_table(folds: Sequence[FoldMetrics | None]) -> Table:
    """Two rows a fold: net ticks per decision, and the least excess of the agent over each baseline."""
    found = [fold for fold in folds if fold is not None]
    names = list(found[0].baselines) if found else []
    table = _table("Net ticks per decision", ("agent", *(name.removeprefix("always_") for name in names)))
    for fold in found:
        net = (fold.net_ticks_per_decision, *(fold.baselines[name] for name in names))
        table.add_row(str(fold.fold), *(_number(value, "+.3f") for value in net))
        bounds = (fold.baseline_lower_ticks[name] for name in names)
        excess = ("–" if math.isnan(bound) else _number(bound, "+.3f") for bound in bounds)
        table.add_row("by ≥", "", *excess, style="dim")
    return table


def _number(value: float, form: str) -> str:
    return "undefined" if math.isnan(value) else format(value, form)


def _notes(folds: Sequence[FoldMetrics | None]) -> list[str]:
    found = [fold for fold in folds if fold is not None]
    if not found:
        return []
    notes = [_costs(fold) for fold in found]
    bases = sorted({fold.ratio_basis for fold in found})
    notes += [
        f"Sharpe on {'; '.join(bases)}.",
        f"≥: lower bounds in ticks per decision, {found[0].confidence:.0%} one-sided, block bootstrap over "
        f"{_range([fold.bootstrap_block_decisions for fold in found])} decisions; `by ≥` is the agent's "
        "excess over that trader.",
    ]
    lost = [fold for fold in found if not fold.explained()]
    notes += [f"! fold {fold.fold}: {fold.unexplained_ticks:+g} ticks are in no trade." for fold in lost]
    return notes


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"
