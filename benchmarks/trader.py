"""Looks at a finished run as a trader would: `python -m benchmarks.trader runs/demo --out docs/img`.

For every fold with an account: equity beside the optimal trader's and the random ones', entries and exits on
the price, what is chosen, how long trades are held and what they earn, as SVG files, and the figures behind
them as tables. Accounts are proved first: the agent's actions are replayed on the book, and closed trades
must explain every account to half a cent. On real data nobody knows the optimal trader; the pages do without.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.jsontext import as_json
from benchmarks.trading.account import Trader
from benchmarks.trading.choices import after_flat, by_signal, shortfall, shortfall_by_signal, unexplained
from benchmarks.trading.course import by_hold, mid_after
from benchmarks.trading.findings import best_lots, capacity, findings
from benchmarks.trading.fold import ORACLE, TradedFold, open_fold
from trainer.errors import AlphaError, ExitCode, InputError
from trainer.learn.evaluate import Progress
from trainer.learn.markers import read_marker
from trainer.learn.run import Run, fold_dir

EVERY_S = 2.0


def main(argv: list[str] | None = None) -> int:
    """Writes the pictures and prints tables or JSON; one line and its exit code for an error."""
    options = _parser().parse_args(argv)
    try:
        if options.out is not None and not options.out.is_dir():  # known before the minutes of work
            raise InputError("no such directory", where=str(options.out), do="choose another --out")
        folds = [open_fold(options.run_dir, index, _progress(index)) for index in _chosen(options)]
        if options.out is not None:
            _draw(folds, options.out, options.name or options.run_dir.resolve().name)
    except AlphaError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.exit_code)
    shown = as_json(_body(folds)) if options.json else tables(folds)
    sys.stdout.write(shown + "\n")
    return ExitCode.DONE


def _chosen(options: argparse.Namespace) -> list[int]:
    """The folds asked for, or all that were evaluated; a line on stderr if those are not all of the run."""
    run = Run.load(options.run_dir)
    if options.fold is not None:
        run.fold(options.fold)
        return [options.fold]
    directories = [fold_dir(options.run_dir, index) for index in range(len(run.folds))]
    judged = [index for index, path in enumerate(directories) if read_marker(path, "evaluate") is not None]
    if not judged:
        raise InputError("no fold was evaluated", where=str(options.run_dir), do="finish the run first")
    if len(judged) < len(directories):
        said = f"fold{'s' if len(judged) > 1 else ''} {', '.join(map(str, judged))}"
        sys.stderr.write(f"{said} of {len(directories)}: the others are not evaluated\n")
    return judged


def _draw(folds: Sequence[TradedFold], out: Path, name: str) -> None:
    from benchmarks.picture import as_svg, save_svg  # matplotlib: slow to load
    from benchmarks.trading.figure import FIXED, pictures

    for page, figure in pictures(folds).items():
        save_svg(out / f"{name}-{page}.svg", as_svg(figure, FIXED[page]), "--out")


def tables(folds: Sequence[TradedFold]) -> str:
    """Markdown: the figures of every fold's traders, the agent's shortfall, and what more lots would earn."""
    columns = [(f"{name}, fold {fold.index}", fold, name) for fold in folds for name in fold.traders]
    heads = [head for head, _, _ in columns]
    found = [asdict(findings(fold, name)) for _, fold, name in columns]
    parts = [_table(["", *heads], [[row, *(_number(f[row]) for f in found)] for row in found[0]])]
    if all(ORACLE in fold.traders for fold in folds):
        behind = [shortfall(fold, name) for _, fold, name in columns]
        rows = [
            [kind, *(f"{100 * b[kind][0]:.2f} %, {b[kind][1]:.4f}" for b in behind)] for kind in behind[0]
        ]
        rows.append(["all", *(f"{sum(lost for _, lost in b.values()):.4f}" for b in behind)])
        parts.append("Choices that the oracle would not make: share of decisions, ticks a decision lost:")
        parts.append(_table(["", *heads], rows))
    else:
        parts.append("No optimal trader is known: the data are files.")
    if all(_one_lot(fold.traders[name]) for _, fold, name in columns):
        deep = [capacity(fold, fold.traders[name]) for _, fold, name in columns]
        parts.append("Net ticks a decision of all lots, had every order been so many:")
        parts.append(_table(["lots", *heads], [[f"{n}", *(f"{d[n]:+.2f}" for d in deep)] for n in deep[0]]))
    return "\n\n".join(parts)


def _one_lot(trader: Trader) -> bool:
    return bool((trader.trades.lots == 1).all())


def _body(folds: Sequence[TradedFold]) -> list[dict[str, Any]]:
    return [
        {
            "fold": fold.index,
            "best_lots": best_lots(fold),
            "random": {"net_per_decision": float(fold.random_ticks.mean())},
            **{name: _figures(fold, name, trader) for name, trader in fold.traders.items()},
        }
        for fold in folds
    ]


def _figures(fold: TradedFold, name: str, trader: Trader) -> dict[str, Any]:
    return {
        **asdict(findings(fold, name)),
        "shortfall": shortfall(fold, name),
        "shortfall_by_signal": shortfall_by_signal(fold, name),
        "unexplained": unexplained(fold, name),
        "by_signal": by_signal(fold, trader),
        "after_flat": after_flat(trader),
        "by_hold": by_hold(trader),
        "mid_after": mid_after(fold, trader),
        "capacity": capacity(fold, trader) if _one_lot(trader) else None,
    }


def _table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [[cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in [head, *rows]]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:,d}" if isinstance(value, int) else f"{value:.3f}"


def _progress(index: int) -> Progress:
    shown = time.monotonic()

    def note(what: str, done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= EVERY_S:
            shown = time.monotonic()
            sys.stderr.write(f"fold {index}: {what} {done}/{total}\n")

    return note


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trader",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="of a run whose folds were evaluated")
    parser.add_argument("--out", type=Path, metavar="DIR", help="writes DIR/NAME-PAGE.svg")
    parser.add_argument("--name", help="in file names (default: that of the run directory)")
    parser.add_argument("--fold", type=int, metavar="K", help="that one only (default: all evaluated)")
    parser.add_argument("--json", action="store_true", help="more figures, for a script")
    return parser


if __name__ == "__main__":
    sys.exit(main())
