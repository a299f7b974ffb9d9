"""Learning curves as SVG: net ticks per decision out of sample against training steps, a panel a market."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.learning.result import FoldResult, Result, mean

WIDTH, PANEL = 800, 300  # px
LEFT, TOP, BOTTOM = 52, 40, 40  # margins of a panel; the right one holds the labels
HEAD = 44
LABEL_GAP = 15  # px between the baselines of two labels
LEAST_REACH = 0.1  # ticks per decision that every panel shows on both sides of zero: less is no difference
FONT = 12
LETTER = 6.9  # px, mean width of a letter of that size in a wide font
INK, FAINT = "#1f2937", "#6b7280"
# Okabe and Ito's colours but for yellow: told apart also by the colour-blind.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
DASHES = ("", "7 3", "2 3")  # so that more variants than colours still differ


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


def figure(results: Sequence[Result]) -> str:
    """The SVG. Each line is labelled at its end; dashed lines are what the yardsticks earn."""
    markets = list(dict.fromkeys(result.market for result in results))
    variants = list(dict.fromkeys(result.variant for result in results))
    right = 24 + LETTER * max(len("sees the book only 0.00"), *(len(f"{v} +0.00") for v in variants))
    height = HEAD + PANEL * len(markets)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="{FONT}" role="img" '
        'aria-label="Learning curves out of sample">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(8, 20, "Net ticks per decision out of sample, against training steps", INK, size=15, bold=True),
        _text(
            8, 37, f"line: mean over {_seeds(results)}; band: least to greatest; step 0: not trained", FAINT
        ),
    ]
    for row, market in enumerate(markets):
        here = [result for result in results if result.market == market]
        lines = [
            (line_of(v, [r for r in here if r.variant == v]), *_style(variants.index(v)))
            for v in variants
            if any(r.variant == v for r in here)
        ]
        panel = _Panel.of([line for line, _, _ in lines], _yardsticks(here), right)
        parts += [f'<g transform="translate(0 {HEAD + PANEL * row})">', *panel.drawn(market, lines), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _seeds(results: Sequence[Result]) -> str:
    counts = Counter((result.market, result.variant) for result in results)
    low, high = min(counts.values()), max(counts.values())
    return f"{low} to {high} seeds" if low < high else f"{low} seed{'s' if low > 1 else ''}"


def _style(index: int) -> tuple[str, str]:
    return COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]


def _yardsticks(results: Sequence[Result]) -> dict[str, float]:
    """Names and figures of the reference lines; those that say the same are one."""
    oracle, book = results[0].oracle.net_ticks_per_decision, results[0].book.net_ticks_per_decision
    if math.isclose(oracle, book, abs_tol=1e-9):
        return {f"optimal trader {oracle:.2f}": oracle}
    return {f"optimal trader {oracle:.2f}": oracle, f"sees the book only {book:.2f}": book}


@dataclass(frozen=True)
class _Panel:
    """A panel's scale: data to pixels."""

    last_step: int
    ticks: list[float]
    yardsticks: dict[str, float]
    right: float  # px where the lines end and the labels begin

    @classmethod
    def of(cls, lines: Iterable[Line], yardsticks: dict[str, float], margin: float) -> "_Panel":
        lines = list(lines)
        values = [-LEAST_REACH, LEAST_REACH, *yardsticks.values()]
        values += [value for line in lines for value in (*line.low, *line.high) if math.isfinite(value)]
        ticks = nice_ticks(min(values), max(values))
        return cls(max(line.steps[-1] for line in lines), ticks, yardsticks, WIDTH - margin)

    def x(self, step: float) -> float:
        return LEFT + step / self.last_step * (self.right - LEFT)

    def y(self, value: float) -> float:
        low, high = self.ticks[0], self.ticks[-1]
        return PANEL - BOTTOM - (value - low) / (high - low) * (PANEL - TOP - BOTTOM)

    def drawn(self, market: str, lines: Sequence[tuple[Line, str, str]]) -> list[str]:
        parts = [_text(8, TOP - 14, market, INK, size=13, bold=True), *self._axes()]
        labels = []
        for name, value in self.yardsticks.items():
            y = self.y(value)
            parts.append(
                f'<path d="M{LEFT} {y:.1f}H{self.right:.1f}" stroke="{FAINT}" stroke-dasharray="4 4"/>'
            )
            labels.append((y, name, FAINT))
        for line, colour, dash in lines:
            parts += self._line(line, colour, dash)
            labels.append((self.y(line.middle[-1]), f"{line.variant} {line.middle[-1]:+.2f}", colour))
        return [*parts, *self._labels(labels)]

    def _axes(self) -> list[str]:
        parts = []
        for value in self.ticks:
            y, colour = self.y(value), "#9ca3af" if value == 0 else "#e5e7eb"
            parts.append(f'<path d="M{LEFT} {y:.1f}H{self.right:.1f}" stroke="{colour}"/>')
            parts.append(_text(LEFT - 6, y + 4, f"{value:g}", FAINT, anchor="end"))
        base = PANEL - BOTTOM
        for step in nice_ticks(0, self.last_step):
            if step <= self.last_step:
                x = self.x(step)
                parts.append(f'<path d="M{x:.1f} {base}v4" stroke="{FAINT}"/>')
                parts.append(_text(x, base + 18, f"{step:,.0f}", FAINT, anchor="middle"))
        return parts

    def _line(self, line: Line, colour: str, dash: str) -> list[str]:
        def path(values: Sequence[float]) -> list[str]:
            return [
                f"{self.x(step):.1f},{self.y(value):.1f}"
                for step, value in zip(line.steps, values, strict=True)
            ]

        band = " ".join([*path(line.high), *reversed(path(line.low))])
        style = f' stroke-dasharray="{dash}"' if dash else ""
        return [
            f'<polygon points="{band}" fill="{colour}" fill-opacity="0.15"/>',
            f'<polyline points="{" ".join(path(line.middle))}" fill="none" stroke="{colour}" '
            f'stroke-width="2" stroke-linejoin="round"{style}/>',
        ]

    def _labels(self, labels: Sequence[tuple[float, str, str]]) -> list[str]:
        """Right of the lines' ends, moved apart where they would overlap, each tied to its end."""
        ordered = sorted(labels)
        places = spread([y for y, _, _ in ordered], LABEL_GAP, TOP, PANEL - 6)
        x = self.right
        parts = []
        for (y, name, colour), place in zip(ordered, places, strict=True):
            parts.append(
                f'<path d="M{x + 2:.1f} {y:.1f}L{x + 12:.1f} {place:.1f}" stroke="{colour}" fill="none"/>'
            )
            parts.append(_text(x + 16, place + 4, name, colour))
        return parts


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places `gap` or more apart, in the order of `wanted` (rising) and as near to it as that allows.

    Least squares by pooling adjacent violators, then moved between `low` and `high` if they fit.
    """
    pools: list[list[float]] = []  # of wanted places, each less the room that those before it need
    for at, want in enumerate(wanted):
        pools.append([want - at * gap])
        while len(pools) > 1 and mean(pools[-2]) > mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = [mean(pool) for pool in pools for _ in pool]
    room = high - gap * (len(level) - 1)
    return [max(low, min(value, room)) + at * gap for at, value in enumerate(level)]


def nice_ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round numbers 1, 2 or 5 times a power of ten apart that reach from `low` or less to `high` or more."""
    span = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= about)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * at, 12) for at in range(first, max(last, first + 1) + 1)]


def _text(x: float, y: float, text: str, colour: str, *, size: int = FONT, anchor: str = "start",
          bold: bool = False) -> str:  # fmt: skip
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="{size}"{weight} fill="{colour}">{escape(text)}</text>'
