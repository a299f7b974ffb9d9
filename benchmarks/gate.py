"""Power and false passes of the gate: `python -m benchmarks.gate --svg docs/img/gate-power.svg`.

Simulated walk-forward runs on decision paths of the synthetic market go through the real metrics, bootstrap
and gate: one near-optimal trader over the strength of the alpha, traders without an edge on a martingale, and
how often the bootstrap's lower bound lies under a mean that is known.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from benchmarks.gate_bound import Coverage, Dependence
from benchmarks.gate_paths import Size
from benchmarks.gate_study import Passes, Study, study
from trainer.errors import ExitCode, InputError
from trainer.presets import PRESETS

STRENGTHS = (0.0, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8, 1.0, 1.25, 1.5)
QUICK_STRENGTHS = (0.0, 0.5, 1.0)


def main(argv: list[str] | None = None) -> int:
    """Prints tables or JSON and writes the figure if asked; one line and exit code 2 for a bad option."""
    options = _parser().parse_args(argv)
    try:
        found = study(PRESETS[options.preset](), _size(options), _log)
        if options.svg is not None:
            _draw(options.svg, found)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write((json.dumps(found.as_dict()) if options.json else tables(found)) + "\n")
    return ExitCode.DONE


def tables(found: Study) -> str:
    """Markdown tables of all parts."""
    size = found.size
    folds = f"{size.folds} folds of {size.decisions:,} decisions"
    return "\n\n".join(
        [
            f"Near-optimal trader by strength of the alpha, {folds}:\n\n{_passes_table(found.power)}",
            f"Traders without an edge on a martingale, {folds}:\n\n{_passes_table(found.false_passes)}",
            f"Dependence of P&L per decision:\n\n{_dependence_table(found.dependence)}",
            "Share of lower bounds under the true mean, nominal 95 %, by block length in decisions:\n\n"
            + _coverage_table(found.coverage),
        ]
    )


def _passes_table(rows: list[Passes]) -> str:
    head = ["trader", "runs", "win rate", "hold %", "net/decision"]
    head += ["fold wins", "fold earns", "fold passes", "run passes", "95 % interval"]
    lines = [
        [
            row.trader, f"{row.runs:,}", f"{row.win_rate:.3f}", f"{row.hold_percent:.1f}",
            f"{row.net_ticks_per_decision:+.3f}", _share(row.fold_wins), _share(row.fold_earns),
            _share(row.fold_passes), _share(row.passed / row.runs),
            f"{_share(row.interval[0])} to {_share(row.interval[1])}",
        ]
        for row in rows
    ]  # fmt: skip
    return _table(head, lines)


def _dependence_table(rows: list[Dependence]) -> str:
    head = ["trader", "mean holding", "acf 1", "acf 2", "acf 5", "automatic block", "95 % quantile"]
    lines = [
        [
            row.trader, f"{row.mean_holding:.1f}", *(f"{value:+.3f}" for value in row.acf),
            *(f"{value:.0f}" for value in row.block),
        ]
        for row in rows
    ]  # fmt: skip
    return _table(head, lines)


def _coverage_table(rows: list[Coverage]) -> str:
    head = ["decisions", "forgets over", *rows[0].by_block]
    lines = [
        [f"{row.decisions:,}", str(row.tau), *(_share(value) for value in row.by_block.values())]
        for row in rows
    ]
    return _table(head, lines)


def _share(value: float) -> str:
    return f"{value:.1%}" if value == 0 or value >= 0.01 else f"{value:.2%}"


def _table(head: list[str], lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(
        "| "
        + " | ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        + " |"
        for cells in [head, rule, *lines]
    )


def _size(options: argparse.Namespace) -> Size:
    if options.runs < 1 or options.folds < 1:
        raise InputError("fewer than 1", where="--runs, --folds", do="give at least 1")
    if options.decisions < 600:
        what = f"{options.decisions} decisions have no bound"
        raise InputError(what, where="--decisions", do="give at least 600")
    if options.svg is not None and not options.svg.parent.is_dir():  # known before the minutes of work
        raise InputError("no such directory", where=str(options.svg.parent), do="choose another --svg file")
    if options.quick:
        return Size(6, 6, 10, options.folds, min(options.decisions, 1024), QUICK_STRENGTHS, options.seed)
    power_runs = max(1, options.runs // 3)
    sizes = (options.runs, power_runs, 400, options.folds, options.decisions)
    return Size(*sizes, STRENGTHS, options.seed)


def _draw(path: Path, found: Study) -> None:
    from benchmarks.gate_figure import LABEL, figure  # matplotlib: slow to load
    from benchmarks.picture import as_svg, save_svg

    save_svg(path, as_svg(figure(found), LABEL), "--svg file")


def _log(text: str) -> None:
    sys.stderr.write(f"{time.process_time():6.0f} s  {text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    parser.add_argument("--preset", choices=["default", "demo"], default="demo", help="of the market")
    parser.add_argument("--runs", type=int, default=1000, help="of each trader without an edge")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--decisions", type=int, default=2048, help="of a fold")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="six runs: to see that it works")
    parser.add_argument("--json", action="store_true", help="for a script")
    parser.add_argument("--svg", type=Path, help="writes the figure")
    return parser


if __name__ == "__main__":
    sys.exit(main())
