"""The gate's power and the coverage of its bound as one SVG of two panels."""

import math
from collections.abc import Callable
from html import escape

from benchmarks.gate_bound import BLOCKS, LENGTHS, Coverage
from benchmarks.gate_study import Study

INK, SOFT, GRID = "#0f172a", "#475569", "#e2e8f0"
COLOURS = ("#2563eb", "#16a34a", "#ea580c", "#9333ea", "#0f172a")
WIDTH, HEIGHT = 960, 400
LEFT, TOP, BOTTOM = 56, 64, 346  # of a panel, px
PANEL = 400  # width of the plotted area
SECOND = 500  # offset of the second panel
NOMINAL = 0.95

Place = Callable[[float, float], tuple[float, float]]
Points = list[tuple[float, float]]


def figure(found: Study) -> str:
    """The SVG: power by strength of the alpha, coverage by block length."""
    label = "Power of the gate over the strength of the alpha; coverage of its bound over the block length"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12" '
            f'font-family="system-ui, sans-serif" role="img" aria-label="{label}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            "<g>",
            *_power(found),
            "</g>",
            f'<g transform="translate({SECOND} 0)">',
            *_coverage([row for row in found.coverage if row.decisions == LENGTHS[-1]]),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _power(found: Study) -> list[str]:
    strengths, rows = found.size.strengths, found.power
    top = strengths[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + PANEL * x / top, BOTTOM - (BOTTOM - TOP) * y

    size = found.size
    parts = _title(
        "Share of runs that pass, by strength of the alpha",
        f"one trader, {size.folds} folds of {size.decisions:,} decisions, {size.power_runs} runs a point",
    )
    parts += _shares_axis(place, top, (0.0, 0.25, 0.5, 0.75, 1.0))
    ticks = [0.25 * k for k in range(int(top / 0.25) + 1)]
    parts += [_below(place(tick, 0.0)[0], f"{tick:g}") for tick in ticks]
    parts.append(_below(LEFT + PANEL / 2, "alpha, times the preset's", 34))
    band = [place(s, row.interval[1]) for s, row in zip(strengths, rows, strict=True)]
    band += [place(s, row.interval[0]) for s, row in reversed(list(zip(strengths, rows, strict=True)))]
    parts.append(f'<polygon points="{_path(band)}" fill="{COLOURS[0]}" fill-opacity="0.15"/>')
    lines = {
        "passes, with 95 % interval": [row.passed / row.runs for row in rows],
        "money criteria alone": [row.runs_earn for row in rows],
        "win rate over .55 alone": [row.runs_win for row in rows],
    }
    for index, (name, shares) in enumerate(lines.items()):
        points = [place(s, share) for s, share in zip(strengths, shares, strict=True)]
        parts += _line(points, COLOURS[index], dashed=index > 0)
        parts += _key(LEFT + 200, 240 + 20 * index, name, COLOURS[index], dashed=index > 0)
    return parts


def _coverage(rows: list[Coverage]) -> list[str]:
    shares = [share for row in rows for share in row.by_block.values()]
    floor = math.floor(10 * min([*shares, 0.6])) / 10
    last = len(BLOCKS)  # the automatic block stands behind the fixed ones

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + PANEL * (x + 0.3) / (last + 0.6), BOTTOM - (BOTTOM - TOP) * (y - floor) / (1 - floor)

    parts = _title(
        "Share of 95 % lower bounds under the true mean",
        f"AR(1) P&L of {rows[0].decisions:,} decisions, {rows[0].series:,} series a point",
    )
    levels = [floor + 0.1 * k for k in range(round((1 - floor) / 0.1) + 1)]
    parts += _shares_axis(place, last + 0.3, levels, -0.3)
    (x0, y0), (x1, _) = place(-0.3, NOMINAL), place(last + 0.3, NOMINAL)
    parts.append(f'<path d="M{x0:.1f} {y0:.1f}H{x1:.1f}" stroke="{INK}" stroke-dasharray="2 3"/>')
    labels = [*map(str, BLOCKS), "gate's"]
    parts += [_below(place(index, floor)[0], label) for index, label in enumerate(labels)]
    parts.append(_below(LEFT + PANEL / 2, "block, decisions", 34))
    for index, (row, colour) in enumerate(zip(rows, COLOURS, strict=True)):
        points = [place(x, row.by_block[name]) for x, name in enumerate(row.by_block)]
        parts += _line(points[:-1], colour)
        x, y = points[-1]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        name = f"forgets over {row.tau} decisions" if row.tau else "independent"
        parts += _key(LEFT + 190, 226 + 20 * index, name, colour)
    return parts


def _title(title: str, under: str) -> list[str]:
    return [
        f'<text x="8" y="22" font-size="14" font-weight="600" fill="{INK}">{escape(title)}</text>',
        f'<text x="8" y="42" fill="{SOFT}">{escape(under)}</text>',
    ]


def _shares_axis(
    place: Place, right: float, levels: tuple[float, ...] | list[float], left: float = 0.0
) -> list[str]:
    parts = []
    for level in levels:
        (x0, y), (x1, _) = place(left, level), place(right, level)
        parts.append(f'<path d="M{x0:.1f} {y:.1f}H{x1:.1f}" stroke="{GRID}"/>')
        text = f"{100 * level:.0f} %"
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="{SOFT}">{text}</text>')
    return parts


def _below(x: float, text: str, down: int = 18) -> str:
    return f'<text x="{x:.1f}" y="{BOTTOM + down}" text-anchor="middle" fill="{SOFT}">{escape(text)}</text>'


def _path(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _line(points: Points, colour: str, dashed: bool = False) -> list[str]:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return [f'<polyline points="{_path(points)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']


def _key(x: float, y: float, name: str, colour: str, dashed: bool = False) -> list[str]:
    return [
        *_line([(x, y), (x + 22, y)], colour, dashed),
        f'<text x="{x + 28}" y="{y + 4}" fill="{INK}">{escape(name)}</text>',
    ]
