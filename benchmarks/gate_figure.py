"""The gate's power and the coverage of its bound, two panels."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from benchmarks.gate_bound import BLOCKS, LENGTHS, Coverage
from benchmarks.gate_study import Study
from benchmarks.picture import COLOURS, INK, drawing

LABEL = "Power of the gate over the strength of the alpha; coverage of its bound over the block length"
NOMINAL = 0.95


def figure(found: Study) -> Figure:
    """Power by strength of the alpha, coverage by block length."""
    drawn = drawing(10.5, 4.2)
    power, coverage = drawn.subplots(1, 2)
    _power(power, found)
    _coverage(coverage, [row for row in found.coverage if row.decisions == LENGTHS[-1]])
    for axes in (power, coverage):
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, 0))
    return drawn


def _power(axes: Axes, found: Study) -> None:
    size, rows = found.size, found.power
    low, high = zip(*(row.interval for row in rows), strict=True)
    axes.fill_between(size.strengths, low, high, color=COLOURS[0], alpha=0.15)
    lines = {
        "passes, with 95 % interval": ([row.passed / row.runs for row in rows], "-"),
        "money criteria alone": ([row.runs_earn for row in rows], "--"),
        "win rate over .55 alone": ([row.runs_win for row in rows], "--"),
    }
    for (name, (shares, dash)), colour in zip(lines.items(), COLOURS, strict=False):
        axes.plot(size.strengths, shares, dash, color=colour, label=name)
    runs = f"{size.folds} folds of {size.decisions:,} decisions, {size.power_runs} runs a point"
    axes.set(title=f"Share of runs that pass: one trader,\n{runs}", xlabel="alpha, times the preset's")
    axes.legend(loc="center right")


def _coverage(axes: Axes, rows: list[Coverage]) -> None:
    last = len(BLOCKS)  # the automatic block stands behind the fixed ones
    axes.axhline(NOMINAL, color=INK, linewidth=1.0, linestyle=":")
    for row, colour in zip(rows, COLOURS, strict=False):
        shares = list(row.by_block.values())
        name = f"forgets over {row.tau} decisions" if row.tau else "independent"
        axes.plot(range(last), shares[:-1], color=colour, label=name)
        axes.plot([last], shares[-1:], "o", color=colour)
    axes.set_xticks(range(last + 1), [*map(str, BLOCKS), "gate's"])
    series = f"AR(1) P&L of {rows[0].decisions:,} decisions, {rows[0].series:,} series a point"
    axes.set(title=f"Share of 95 % lower bounds under the true mean:\n{series}", xlabel="block, decisions")
    axes.legend(loc="lower right")
