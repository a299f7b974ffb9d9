"""Pictures of what an agent did on its test windows; a row or a column for each fold."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.picture import COLOURS, FAINT, GRID, INK, drawing, label_ends
from benchmarks.trading.account import Floats, Ints
from benchmarks.trading.course import AROUND, HOLD_NAMES, by_hold, mid_around
from benchmarks.trading.fold import AGENT, ORACLE, RANDOM, TradedFold
from trainer.types import Action

COLOUR_OF = {AGENT: COLOURS[0], ORACLE: COLOURS[2], RANDOM: FAINT}
WON, LOST = COLOURS[2], COLOURS[1]
LONG, SHORT = COLOURS[4], COLOURS[5]
SIDES = {-1: SHORT, 1: LONG}
UNKNOWN = "no optimal trader is known: the data are files"
EQUITY_POINTS = 150  # of a line
MIX_BINS = 32  # of a window
STRETCH = 48  # decisions
# Actions by what they do, from the bottom of the picture to its top.
KINDS = {
    "wait": ((Action.HOLD,), GRID),
    "move trail": ((Action.TRAIL_TIGHTEN, Action.TRAIL_LOOSEN), "#cbd5e1"),
    "open long": ((Action.OPEN_LONG, Action.ADD_LONG), LONG),
    "open short": ((Action.OPEN_SHORT, Action.ADD_SHORT), SHORT),
    "reverse": ((Action.REVERSE,), COLOURS[3]),
    "leave": ((Action.FLAT_FROM_LONG, Action.FLAT_FROM_SHORT, Action.HALF_FLAT), INK),
}
FIXED = {
    "equity": "Net ticks after spread and fees, out of sample",
    "prices": "Entries and exits at the middle of each test window",
    "actions": "What the agent chooses, share of decisions over the test window",
    "holding": "How long trades are held, and what they earn",
    "profit": "What trades and hours earn, and the mid around the agent's orders",
}


def pictures(folds: Sequence[TradedFold]) -> dict[str, Figure]:
    """Every picture by its name in file names; FIXED says what each shows."""
    found = [draw(folds) for draw in (equity, prices, actions, holding, profit)]
    for figure, title in zip(found, FIXED.values(), strict=True):
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return dict(zip(FIXED, found, strict=True))


def equity(folds: Sequence[TradedFold]) -> Figure:
    """Marked equity of agent, oracle and mean random trader, with the range of the random ones."""
    figure = drawing(max(6.5, 3.6 * len(folds) + 0.6), 3.4)
    panels = figure.subplots(1, len(folds), squeeze=False, sharey=True)[0]
    for axes, fold in zip(panels, folds, strict=True):
        lines = {name: trader.equity_ticks for name, trader in fold.traders.items()}
        at_random = np.cumsum(fold.random_ticks, axis=1)
        at = np.unique(np.linspace(0, len(fold.rows) - 1, EQUITY_POINTS).astype(np.int64))
        axes.fill_between(
            at, at_random.min(axis=0)[at], at_random.max(axis=0)[at], color=FAINT, alpha=0.25, linewidth=0
        )
        for name, line in {**lines, RANDOM: at_random.mean(axis=0)}.items():
            axes.plot(at, line[at], color=COLOUR_OF[name])
        axes.axhline(0.0, color=FAINT, linewidth=0.8)
        axes.set_title(f"fold {fold.index}")
        axes.set_xlabel("decisions" if ORACLE in fold.traders else f"decisions; {UNKNOWN}")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    for axes, fold in zip(panels, folds, strict=True):
        ends = {name: trader.equity_ticks[-1] for name, trader in fold.traders.items()}
        ends[RANDOM] = float(fold.random_ticks.sum(axis=1).mean())
        label_ends(axes, [(y, f"{name} {y:+,.0f}", COLOUR_OF[name]) for name, y in ends.items()])
    return figure


def actions(folds: Sequence[TradedFold]) -> Figure:
    """Shares of what is executed in equal parts of each window, stacked."""
    figure = drawing(max(6.5, 3.6 * len(folds) + 1.0), 3.2)
    panels = figure.subplots(1, len(folds), squeeze=False, sharey=True)[0]
    for axes, fold in zip(panels, folds, strict=True):
        parts = np.array_split(fold.agent.decisions.action, min(MIX_BINS, len(fold.rows)))
        middle = (np.arange(len(parts)) + 0.5) / len(parts)
        shares = [[float(np.isin(part, of).mean()) for part in parts] for of, _ in KINDS.values()]
        axes.stackplot(middle, shares, colors=[colour for _, colour in KINDS.values()], labels=list(KINDS))
        axes.set(title=f"fold {fold.index}", xlabel="part of the window", xlim=(0, 1), ylim=(0, 1))
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside right center")
    return figure


def prices(folds: Sequence[TradedFold]) -> Figure:
    """The mid over the middle of each window, wherever that falls: where the agent's trades begin and end,
    what was planted, and which side agent and oracle want held."""
    figure = drawing(11.0, 3.6 * len(folds))
    grid = figure.subplots(2 * len(folds), 1, height_ratios=[3.2, 1] * len(folds))
    for at, fold in enumerate(folds):
        begin = max(0, len(fold.rows) // 2 - STRETCH // 2)
        shown = np.arange(begin, min(begin + STRETCH, len(fold.rows) - 1))
        _price_panel(grid[2 * at], fold, shown)
        _side_panel(grid[2 * at + 1], fold, shown)
    return figure


def _price_panel(axes: Axes, fold: TradedFold, shown: Ints) -> None:
    first, last = fold.rows[shown[0]], fold.rows[shown[-1]]
    best = fold.book[first : last + 1, :, 0, 0]
    moved = np.flatnonzero(np.append(True, (np.diff(best, axis=0) != 0).any(axis=1)))
    edges = np.append(moved, last - first)
    axes.stairs(best[moved, 1], edges, baseline=best[moved, 0], fill=True, color=GRID)
    axes.stairs(best[moved].mean(axis=1), edges, baseline=None, color=INK, linewidth=0.8)
    trades, agent = fold.agent.trades, fold.agent
    inside = (agent.entries >= shown[0]) & (agent.exits < shown[-1]) & ~trades.forced
    ends = np.stack([agent.entries, agent.exits])[:, inside]
    x = fold.fill_rows[ends] - first
    y = np.stack([trades.entry_ticks, trades.exit_ticks])[:, inside]
    won, long = trades.pnl_ticks[inside] > 0, trades.side[inside] > 0
    for colour, these in ((WON, won), (LOST, ~won)):
        axes.add_collection(
            LineCollection(list(np.stack([x, y], -1)[:, these].swapaxes(0, 1)), colors=colour)
        )
        for marker, at, of in (("^", 0, these & long), ("v", 0, these & ~long), ("x", 1, these)):
            axes.plot(x[at, of], y[at, of], marker, color=colour, markersize=5, markeredgewidth=1.2)
    start = np.datetime64(int(fold.ts_ns[first]), "ns").astype("datetime64[s]")
    axes.set_title(f"fold {fold.index}: {len(shown)} decisions from {start} UTC, {inside.sum()} trades")
    axes.set(ylabel="ticks", xlim=(0, last - first))
    axes.tick_params(labelbottom=False)
    axes.text(
        1.0, 1.02, "▲ long  ▼ short  × exit;  green won, orange lost, net of costs; grey: bid to ask",
        transform=axes.transAxes, ha="right", color=FAINT,
    )  # fmt: skip


def _side_panel(axes: Axes, fold: TradedFold, shown: Ints) -> None:
    """A strip for each trader's side, and the planted signal as bars above them where it is known."""
    first = fold.rows[shown[0]]
    x = fold.rows[np.append(shown, shown[-1] + 1)] - first
    for level, (name, trader) in enumerate(fold.traders.items()):
        for side, colour in SIDES.items():
            at = np.flatnonzero(trader.side[shown] == side)
            spans = list(zip(x[at], np.diff(x)[at], strict=True))
            axes.broken_barh(spans, (-level - 0.4, 0.8), color=colour)
        axes.text(-0.006, -level, name, transform=axes.get_yaxis_transform(), ha="right", va="center")
    if fold.signal is not None:
        signal = fold.signal[shown] / 3
        for side, colour in SIDES.items():
            up = 1.6 + np.where(signal * side > 0, signal, 0.0)
            axes.stairs(up, x, baseline=1.6, fill=True, color=colour)
        axes.text(-0.006, 1.6, "signal", transform=axes.get_yaxis_transform(), ha="right", va="center")
    axes.set(xlim=(0, x[-2]), xlabel="book rows", yticks=[])
    axes.spines["left"].set_visible(False)


def holding(folds: Sequence[TradedFold]) -> Figure:
    """A row a fold: holding times in decisions and in seconds, and what trades earn by them."""
    figure = drawing(11.0, 2.5 * len(folds) + 0.4)
    grid = figure.subplots(len(folds), 3, squeeze=False)
    for row, fold in zip(grid, folds, strict=True):
        decisions = {name: t.exits - t.entries for name, t in fold.traders.items()}
        _, high = _middle(decisions, 0.99)
        _histograms(row[0], decisions, np.arange(0.5, np.ceil(high) + 1.5))
        row[0].set(title=f"fold {fold.index}: decisions held", ylabel="share of trades")
        seconds = {name: t.held_s for name, t in fold.traders.items()}
        _histograms(row[1], seconds, np.linspace(0.0, _middle(seconds, 0.98)[1], 33))
        row[1].set_title("seconds held")
        _by_hold(row[2], fold)
    return figure


def _middle(values: Mapping[str, Floats | Ints], share: float) -> tuple[float, float]:
    """Least and greatest of all values, but for 1 - `share` of them at either end; 1 or more apart."""
    every = np.concatenate([*values.values(), np.zeros(1)])
    low, high = (float(np.quantile(every, q)) for q in (1.0 - share, share))
    return low, max(high, low + 1.0)


def _histograms(axes: Axes, values: Mapping[str, Floats | Ints], edges: Floats) -> None:
    """Shares of each trader's values; those beyond the edges are counted in the outermost bins."""
    for name, found in values.items():
        middle = found.clip(0.5 * (edges[0] + edges[1]), 0.5 * (edges[-2] + edges[-1]))
        count = np.histogram(middle, edges)[0]
        axes.stairs(count / max(len(found), 1), edges, linewidth=1.4, color=COLOUR_OF[name], label=name)
    axes.legend(loc="upper right")


def _by_hold(axes: Axes, fold: TradedFold) -> None:
    at = np.arange(len(HOLD_NAMES))
    for shift, (name, trader) in zip((-0.2, 0.2), fold.traders.items(), strict=False):
        groups = by_hold(trader)
        net = [group["net_per_decision"] for group in groups.values()]
        axes.bar(at + shift, net, width=0.38, color=COLOUR_OF[name], label=name)
        if name == AGENT:
            shares = [f"{group['share']:.0%}" if len(trader.trades) else "-" for group in groups.values()]
            axes.set_xticks(at, [f"{n}\n{share}" for n, share in zip(groups, shares, strict=True)])
    axes.axhline(0.0, color=FAINT, linewidth=0.8)
    axes.set_title("net ticks/decision by decisions held")


def profit(folds: Sequence[TradedFold]) -> Figure:
    """A row a fold: net of each trade, net by UTC hour, and the mid around entries and exits."""
    figure = drawing(13.0, 2.5 * len(folds) + 0.4)
    grid = figure.subplots(len(folds), 4, squeeze=False)
    for row, fold in zip(grid, folds, strict=True):
        net = {name: trader.trades.pnl_ticks for name, trader in fold.traders.items()}
        low, high = _middle(net, 0.995)
        # Whole ticks: prices lie on a grid, and bins of no whole number of its steps would show only that.
        edges = np.arange(np.floor(low), np.ceil(high) + 2.0, max(1.0, np.ceil((high - low) / 40)))
        _histograms(row[0], net, edges)
        row[0].axvline(0.0, color=FAINT, linewidth=0.8)
        row[0].set(title=f"fold {fold.index}: net ticks of a trade", ylabel="share of trades")
        _by_hour(row[1], fold)
        _around(row[2], fold, "entry", {name: t.entries for name, t in fold.traders.items()})
        _around(row[3], fold, "exit", {name: t.exits for name, t in fold.traders.items()})
    return figure


def _by_hour(axes: Axes, fold: TradedFold) -> None:
    hour = fold.agent.decisions.ts_ns // 3_600_000_000_000 % 24
    count = np.bincount(hour, minlength=24)
    with np.errstate(invalid="ignore"):
        for name, trader in fold.traders.items():
            net = np.bincount(hour, trader.decisions.pnl_ticks, minlength=24) / count
            axes.plot(np.arange(24), net, "o-", markersize=3, color=COLOUR_OF[name], label=name)
    axes.axhline(0.0, color=FAINT, linewidth=0.8)
    axes.set(title="net ticks/decision by UTC hour", xticks=range(0, 25, 6))


def _around(axes: Axes, fold: TradedFold, what: str, orders: Mapping[str, Ints]) -> None:
    """Mean mid in the trade's favour against that of the order's row."""
    for name, at in orders.items():
        mid = mid_around(fold, fold.traders[name], at)
        if not np.isnan(mid).any():
            axes.plot(AROUND, mid, color=COLOUR_OF[name], label=name)
    axes.axvline(0.0, color=FAINT, linewidth=0.8)
    axes.set(title=f"mid around {what}", xlabel="decisions from the order", ylabel="ticks in its favour")
    if len(axes.lines) > 1:
        axes.legend(loc="upper right" if what == "exit" else "lower right")
