"""Does the agent learn? `python -m benchmarks.learn --preset demo --market planted --seeds 0-4 --steps 3000`.

Runs every variant of a preset on every market from every seed over the real path (market files, cache,
training, evaluation, gate), evaluates it out of sample on the way, and prints a line for each variant and
market; `--svg` draws the learning curves. Every run leaves one JSON file in --out. What is finished there is
not run again, and what was interrupted goes on from its checkpoint. A seed changes agent and market.

`--quick` runs a fixed small set against stated targets (`benchmarks/learning/targets.py`): minutes on two
cores, exit code 3 where one is missed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.jsontext import as_json
from benchmarks.learning.experiment import (
    MARKETS,
    Experiment,
    Variant,
    expand,
    parse_seeds,
    parse_settings,
    read_variants,
    variant_of,
)
from benchmarks.learning.jobs import Plan, carry_out, say_error
from benchmarks.learning.result import Result, finished, read_result
from benchmarks.learning.table import summaries, table
from benchmarks.learning.targets import missed, quick_set
from trainer.errors import AlphaError, ExitCode, InputError
from trainer.presets import PRESETS

QUICK_JOBS = 2
DEFAULT_OUT = Path("runs") / "learn"


def main(argv: list[str] | None = None) -> int:
    """Runs what is not finished and prints table or JSON; an error meant for a person is one line."""
    started = time.time()
    options = _parser().parse_args(argv)
    try:
        with _directory(options) as out:
            return int(_report_only(options, out) if options.report else _run(options, out, started))
    except (AlphaError, OSError) as error:
        return int(say_error(error))


def _run(options: argparse.Namespace, out: Path, started: float) -> ExitCode:
    experiments = quick_set(options.device) if options.quick else _asked_for(options)
    stop_at = None if options.time_limit is None else started + options.time_limit
    plan = Plan(tuple(experiments), out, options.work or out / "work", options.json, stop_at)
    code = carry_out(plan, options.jobs or (QUICK_JOBS if options.quick else 1))
    results = [result for e in experiments if (result := finished(out, e)) is not None]
    _show(results, options)
    if left := len(experiments) - len(results):
        sys.stderr.write(f"{left} of {len(experiments)} runs are left; the same command goes on\n")
        return code
    failures = missed(results) if options.quick else []
    sys.stderr.writelines(f"missed: {line}\n" for line in failures)
    return ExitCode.REJECTED if failures else code


def _report_only(options: argparse.Namespace, out: Path) -> ExitCode:
    results = [read_result(path) for path in sorted(out.glob("*.json"))]
    if not results:
        raise InputError("holds no results", where=str(out), do="run something first, or give another --out")
    _show(results, options)
    return ExitCode.DONE


def _show(results: Sequence[Result], options: argparse.Namespace) -> None:
    if options.json:
        sys.stdout.write(as_json([asdict(summary) for summary in summaries(results)]) + "\n")
    elif results:
        sys.stdout.write(table(results) + "\n")
    if options.svg and results:
        from benchmarks.learning.figure import LABEL, figure  # matplotlib: slow to load
        from benchmarks.picture import as_svg, save_svg

        save_svg(options.svg, as_svg(figure(results), LABEL), "--svg")


def _asked_for(options: argparse.Namespace) -> list[Experiment]:
    run = {"device": options.device} | ({"n_steps": options.steps} if options.steps else {})
    return expand(
        _variants(options), options.market, parse_seeds(options.seeds),
        folds=options.folds, curve=options.curve, run=run,
    )  # fmt: skip


def _variants(options: argparse.Namespace) -> list[Variant]:
    if options.variants is not None:
        if options.settings or options.name:
            raise InputError("is not for --set or --name", where="--variants", do="write them into the file")
        return read_variants(options.variants, options.preset, options.config)
    settings = parse_settings(options.settings)
    return [variant_of(options.name or options.preset, options.preset, options.config, settings, "--set")]


@contextmanager
def _directory(options: argparse.Namespace) -> Iterator[Path]:
    """Where results go. A quick run that names none judges the present code, so it finds none either."""
    if options.out is None and options.quick:
        with tempfile.TemporaryDirectory(prefix="learn-quick-") as scratch:
            yield Path(scratch)
    else:
        yield options.out or DEFAULT_OUT


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--preset", default="demo", help=f"what variants begin as: {', '.join(PRESETS)} (default demo)")
    add("--config", type=Path, metavar="FILE", help="YAML file over the preset")
    add("--set", dest="settings", action="append", default=[], metavar="SECTION.FIELD=VALUE",
        help="one field over both; may be repeated")  # fmt: skip
    add("--name", help="of the variant, in file names and labels (default: the preset)")
    add("--variants", type=Path, metavar="FILE",
        help="YAML file of several, e.g. `no-per: {learn.prioritized: false}`")  # fmt: skip
    add("--market", nargs="+", choices=MARKETS, default=["planted"], help="one or more (default planted)")
    add("--seeds", default="0", help="e.g. 0-4 or 0,2,5-7 (default 0)")
    add("--steps", type=_count, help="training steps of each fold (default: the configuration's)")
    add("--curve", type=_count, default=10, metavar="N",
        help="evaluations of each fold on the way, that at the end included (default 10)")  # fmt: skip
    add("--folds", type=_count, help="only the first so many of the configuration's folds")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--jobs", type=_count, help="processes (default 1; 2 with --quick)")
    add("--time-limit", type=float, metavar="S",
        help="seconds after which no further run is begun; exit code 75 where some are left")  # fmt: skip
    add("--out", type=Path, metavar="DIR", help=f"of the results (default {DEFAULT_OUT})")
    add("--work", type=Path, metavar="DIR", help="of caches and checkpoints (default OUT/work)")
    add(
        "--quick",
        action="store_true",
        help="the fixed small set with targets, whatever else is chosen; without --out nothing is kept",
    )
    add("--report", action="store_true", help="run nothing: table and curves of all results in --out")
    add("--svg", type=Path, metavar="FILE", help="draw the learning curves")
    add("--json", action="store_true", help="for a script: only the summaries, and no progress")
    return parser


if __name__ == "__main__":
    sys.exit(main())
