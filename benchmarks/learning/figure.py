"""Learning curves: net ticks per decision out of sample against training steps, a panel a market."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.learning.result import FoldResult, Result, mean
from benchmarks.picture import FAINT, drawing, label_ends, style_of

LABEL = "Learning curves out of sample"
LEAST_REACH = 0.1  # ticks per decision that every panel shows on both sides of zero: less is no difference


@dataclass(frozen=True)
class Line:
    """One variant on one market: mean over seeds of the mean over folds, and the least and greatest seed."""

    variant: str
    steps: list[int]
    middle: list[float]  # ticks per decision
    low: list[float]
    high: list[float]


def line_of(variant: str, results: Sequence[Result]) -> Line:
    """The line of all results of a variant on a market, over the steps that every fold of every seed has.

    Step 0 is the agent without training.
    """
    curves = [[_curve(fold) for fold in result.folds] for result in results]
    steps = sorted(set.intersection(*(set(curve) for folds in curves for curve in folds)))
    by_seed = [[mean([curve[step] for curve in folds]) for step in steps] for folds in curves]
    columns = list(zip(*by_seed, strict=True))
    return Line(
        variant,
        steps,
        [mean(list(column)) for column in columns],
        [min(column) for column in columns],
        [max(column) for column in columns],
    )


def _curve(fold: FoldResult) -> dict[int, float]:
    points = {point.step: point.net_ticks_per_decision for point in fold.curve}
    return {0: fold.untrained_ticks_per_decision, **points}


def figure(results: Sequence[Result]) -> Figure:
    """The figure. Each line is labelled at its end; dashed lines are what the yardsticks earn."""
    markets = list(dict.fromkeys(result.market for result in results))
    variants = list(dict.fromkeys(result.variant for result in results))
    drawn = drawing(9.0, 0.6 + 3.4 * len(markets))
    drawn.suptitle("Net ticks per decision out of sample, against training steps", x=0.01, ha="left")
    under = f"line: mean over {_seeds(results)}; band: least to greatest; step 0: not trained"
    drawn.supxlabel(under, fontsize=9, color=FAINT)
    panels = drawn.subplots(len(markets), 1, squeeze=False)[:, 0]
    ends = []
    for axes, market in zip(panels, markets, strict=True):
        here = [result for result in results if result.market == market]
        ends.append(_panel(axes, here, variants))
        axes.set_title(market)
    for axes, labels in zip(panels, ends, strict=True):
        label_ends(axes, labels)
    return drawn


def _panel(axes: Axes, results: Sequence[Result], variants: list[str]) -> list[tuple[float, str, str]]:
    """Draws a market's lines; returns the labels of their ends."""
    labels, values = [], [-LEAST_REACH, LEAST_REACH]
    for name, value in _yardsticks(results).items():
        axes.axhline(value, color=FAINT, linewidth=1.0, linestyle="--")
        labels.append((value, name, FAINT))
    for variant in dict.fromkeys(result.variant for result in results):
        line = line_of(variant, [result for result in results if result.variant == variant])
        colour, dash = style_of(variants.index(variant))
        axes.fill_between(line.steps, line.low, line.high, color=colour, alpha=0.15)
        axes.plot(line.steps, line.middle, color=colour, linestyle=dash)
        labels.append((line.middle[-1], f"{variant} {line.middle[-1]:+.2f}", colour))
        values += [value for value in (*line.low, *line.high) if math.isfinite(value)]
    values += [value for value, _, _ in labels]
    axes.axhline(0.0, color=FAINT, linewidth=0.8)
    axes.set_ylim(min(values), 1.05 * max(values))
    axes.set_xlim(0, max(fold.curve[-1].step for result in results for fold in result.folds))
    return labels


def _seeds(results: Sequence[Result]) -> str:
    counts = Counter((result.market, result.variant) for result in results)
    low, high = min(counts.values()), max(counts.values())
    return f"{low} to {high} seeds" if low < high else f"{low} seed{'s' if low > 1 else ''}"


def _yardsticks(results: Sequence[Result]) -> dict[str, float]:
    """Names and figures of the reference lines; those that say the same are one."""
    oracle, book = results[0].oracle.net_ticks_per_decision, results[0].book.net_ticks_per_decision
    if math.isclose(oracle, book, abs_tol=1e-9):
        return {f"optimal trader {oracle:.2f}": oracle}
    return {f"optimal trader {oracle:.2f}": oracle, f"sees the book only {book:.2f}": book}
