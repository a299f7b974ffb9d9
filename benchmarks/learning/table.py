"""Results of all seeds of a variant on a market, in one line each."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.intervals import clopper_pearson
from benchmarks.learning.result import Result, mean

COLUMNS = (
    ("variant", 20), ("runs", 4), ("folds", 5), ("net ticks/decision", 22), ("% oracle", 8), ("lower", 7),
    ("wr", 5), ("hold %", 6), ("trades", 7), ("passes", 16),
)  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """All runs of a variant on a market. Net P&L and bounds in ticks per decision; shares in [0, 1].

    net: mean over runs of the mean over a run's folds; net_least, net_greatest: of those means. lower_least:
    the least lower bound of any fold. Win rate, hold % and trades are means over folds; a fold without trades
    has no win rate. pass_interval: Clopper-Pearson, 95 %, two-sided.
    """

    variant: str
    market: str
    runs: int
    folds: int
    n_steps: int
    net: float
    net_least: float
    net_greatest: float
    oracle_share: float
    lower_least: float
    win_rate: float
    hold_percent: float
    trades: float
    passes: int
    pass_interval: tuple[float, float]


def summaries(results: Iterable[Result]) -> list[Summary]:
    """A summary for each variant and market, markets together, in the order of the results."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.market, result.variant), []).append(result)
    markets = list(dict.fromkeys(market for market, _ in groups))
    return [_summary(groups[key]) for market in markets for key in groups if key[0] == market]


def _summary(results: Sequence[Result]) -> Summary:
    nets = [result.net_ticks_per_decision for result in results]
    folds = [fold.metrics for result in results for fold in result.folds]
    known = [fold.net_lower_ticks for fold in folds if not math.isnan(fold.net_lower_ticks)]
    passes = sum(result.verdict.outcome == "pass" for result in results)
    return Summary(
        variant=results[0].variant,
        market=results[0].market,
        runs=len(results),
        folds=len(folds),
        n_steps=results[0].n_steps,
        net=mean(nets),
        net_least=min(nets),
        net_greatest=max(nets),
        oracle_share=mean([result.oracle_share for result in results]),
        lower_least=min(known, default=math.nan),
        win_rate=mean([fold.win_rate for fold in folds]),
        hold_percent=mean([fold.hold_percent for fold in folds]),
        trades=mean([float(fold.num_trades) for fold in folds]),
        passes=passes,
        pass_interval=clopper_pearson(passes, len(results)),
    )


def table(results: Sequence[Result]) -> str:
    """A heading with the yardsticks for each market, then one line a variant; and what was mixed, if so."""
    lines: list[str] = []
    market = ""
    for summary in summaries(results):
        if summary.market != market:
            market = summary.market
            lines += [*([""] if lines else []), *_yardstick_lines(market, results), _line(_HEADINGS)]
        lines.append(_line(_cells(summary)))
    return "\n".join([*lines, *_notes(results)])


_HEADINGS = [name for name, _ in COLUMNS]


def _yardstick_lines(market: str, results: Sequence[Result]) -> list[str]:
    """One line for each set of figures: variants may change the market they run on."""
    found = dict.fromkeys(
        f"{r.oracle.net_ticks_per_decision:.3f} (book only {r.book.net_ticks_per_decision:.3f})"
        for r in results
        if r.market == market
    )
    return [f"{market}: the optimal trader earns {figures} ticks/decision" for figures in found]


def _cells(s: Summary) -> list[str]:
    low, high = s.pass_interval
    return [
        s.variant,
        str(s.runs),
        str(s.folds),
        f"{s.net:+.3f} ({s.net_least:+.3f}..{s.net_greatest:+.3f})",
        _number(100 * s.oracle_share, ".0f"),
        _number(s.lower_least, "+.3f"),
        _number(s.win_rate, ".3f"),
        _number(s.hold_percent, ".1f"),
        _number(s.trades, ",.0f"),
        f"{s.passes}/{s.runs} ({100 * low:.0f}..{100 * high:.0f} %)",
    ]


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _line(cells: Sequence[str]) -> str:
    first, *rest = (
        f"{cell:<{width}}" if at == 0 else f"{cell:>{width}}"
        for at, (cell, (_, width)) in enumerate(zip(cells, COLUMNS, strict=True))
    )
    return " ".join([first, *rest]).rstrip()


def _notes(results: Sequence[Result]) -> list[str]:
    """What makes lines incomparable: other lengths, devices or commits; folds left out."""
    notes = []
    for name, values in (
        ("steps", {str(r.n_steps) for r in results}),
        ("devices", {r.environment["device"] for r in results}),
        ("commits", {r.environment["commit"][:7] for r in results}),
    ):
        if len(values) > 1:
            notes.append(f"note: results of several {name}: {', '.join(sorted(values))}")
    if any(len(r.folds) < r.planned_folds for r in results):
        notes.append("note: some runs judge their first folds only")
    return notes
