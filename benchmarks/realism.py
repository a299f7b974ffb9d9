"""How order books look in numbers, side by side: `python -m benchmarks.realism planted martingale FILE`.

A source is `planted` or `martingale`, a session of the synthetic market of `--preset`, or an mbp-10 file or
directory. Only rows that the cache would hold are counted, and the trades among the same records.
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any, get_args

from benchmarks.book_figure import COLOURS, LABEL, curves, figure, profile
from benchmarks.book_statistics import MIN_ROWS, Sample, Values, sample_of, statistics
from benchmarks.picture import as_svg, save_svg
from trainer.config import Market
from trainer.errors import ExitCode, InputError
from trainer.presets import PRESETS

MARKETS = get_args(Market)
DEFAULT_ROWS = 65_536


def synthetic_sample(market: str, preset: str, num_rows: int) -> Sample:
    """The first session of a preset's synthetic market, written and read again."""
    from trainer.data.synthetic import write_market  # loads libraries that a file needs none of

    sizes = {"sessions": 1, "rows_per_session": num_rows}
    config = PRESETS[preset]().replaced(synthetic=sizes).model_copy(update={"market_source": market})
    with tempfile.TemporaryDirectory() as directory:
        write_market(config, Path(directory))
        return sample_of(Path(directory), num_rows)


def table(by_source: dict[str, Values]) -> str:
    """A Markdown table with a line for each figure and a column for each source."""
    names = list(next(iter(by_source.values())))
    columns = [["", *names]]
    columns += [[source, *(_number(values[name]) for name in names)] for source, values in by_source.items()]
    widths = [max(map(len, column)) for column in columns]
    lines = [_line(cells, widths) for cells in zip(*columns, strict=True)]
    rule = "|".join(["", "-" * (widths[0] + 2), *(f"{'-' * (width + 1)}:" for width in widths[1:]), ""])
    return "\n".join([lines[0], rule, *lines[1:]])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    numbers = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return f"| {' | '.join([cells[0].ljust(widths[0]), *numbers])} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def main(argv: list[str] | None = None) -> int:
    """Prints the table or JSON and writes the figure if asked; one line and exit code 2 for a bad source."""
    options = _parser().parse_args(argv)
    try:
        _check(options)
        samples = {_name(source): _sample(source, options) for source in options.sources}
        if options.svg is not None:
            found = {name: curves(sample) for name, sample in samples.items()}
            save_svg(options.svg, as_svg(figure(found), LABEL), "--svg file")
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    figures = {name: statistics(sample) for name, sample in samples.items()}
    sys.stdout.write((_as_json(figures, samples) if options.json else table(figures)) + "\n")
    return ExitCode.DONE


def _as_json(found: dict[str, Values], samples: dict[str, Sample]) -> str:
    """One object a source; a figure that the source does not define is null."""
    shown: dict[str, dict[str, Any]] = {}
    for name, values in found.items():
        shown[name] = {key: value if math.isfinite(value) else None for key, value in values.items()}
        shown[name]["rows by twelfth of the time"] = profile(samples[name].rows).y.tolist()
    return json.dumps(shown)


def _check(options: argparse.Namespace) -> None:
    """Refuses options that would end in a half-drawn figure or a column that hides another."""
    if options.rows < MIN_ROWS:
        raise InputError(f"{options.rows} rows", where="--rows", do=f"give at least {MIN_ROWS}")
    if options.svg is not None and len(options.sources) > len(COLOURS):
        raise InputError(f"{len(options.sources)} sources", where="--svg", do=f"give at most {len(COLOURS)}")
    names = [_name(source) for source in options.sources]
    if len(set(names)) < len(names):
        raise InputError(f"two sources of one name ({', '.join(names)})", where="SOURCE", do="rename one")


def _name(source: str) -> str:
    return source if source in MARKETS else Path(source).name.split(".")[0]


def _sample(source: str, options: argparse.Namespace) -> Sample:
    if source in MARKETS:
        return synthetic_sample(source, options.preset, options.rows)
    return sample_of(Path(source), options.rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.realism", description=__doc__)
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="planted, martingale, or a file or directory"
    )
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default="default", help="of the synthetic markets"
    )
    rows = f"most rows of a source (default {DEFAULT_ROWS:,})"
    parser.add_argument("--rows", type=int, default=DEFAULT_ROWS, help=rows)
    parser.add_argument("--json", action="store_true", help="for a script")
    parser.add_argument("--svg", type=Path, help="writes a figure of the same sources, at most 5")
    return parser


if __name__ == "__main__":
    sys.exit(main())
