"""Speed and memory of reading order-book files: `python -m benchmarks.data --records 1000000`.

Writes a synthetic market of about that many records once (kept in --dir), then measures in a process each:
`read`, every record decompressed and checked (RecordReader), in records/s; `build`, files to finished cache
(build_cache, fingerprint and fsync included), in valid rows/s. Libraries load before the clock starts; their
time is the column `load s`. Peak RSS is that of the process, which starts no other. Exit code 3 where a bound
is missed.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.config import Config
from trainer.data.cache import build_cache
from trainer.data.dbn import read_records, source_files
from trainer.errors import ExitCode
from trainer.presets import demo

RECORDS_PER_ROW = 1.19  # the demo's planted market's: trades and torn events beside the valid rows
MAX_SESSION_ROWS = 500_000  # a session is written from memory
MEASURES = ("read", "build")


@dataclass(frozen=True)
class Rate:
    """What one process measured."""

    measure: str
    unit: str
    count: int  # of `unit`
    seconds: float
    per_s: float
    cpu_s: float  # of all threads during `seconds`: what tells two builds apart on a busy machine
    load_s: float  # importing libraries, not part of `seconds`
    peak_rss_mb: float  # of the whole process, MiB


def market_config(num_records: int) -> Config:
    """Sessions of equal size that together have about `num_records` records."""
    num_rows = max(int(num_records / RECORDS_PER_ROW), 512)
    sessions = math.ceil(num_rows / MAX_SESSION_ROWS)
    synthetic = {"sessions": sessions, "rows_per_session": num_rows // sessions}
    return demo().replaced(synthetic=synthetic, data={"folds": 1})


def written_market(directory: Path, num_records: int) -> Path:
    """The directory of the market's files below `directory`; written unless a whole one is there."""
    target = directory / f"market-{num_records}"
    if not target.is_dir():
        from trainer.data.synthetic import write_market  # loads libraries that are no part of the measures

        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as staging:
            write_market(market_config(num_records), Path(staging) / target.name)
            (Path(staging) / target.name).rename(target)
    return target


def measure_here(measure: str, market: Path, num_records: int) -> Rate:
    """Measures in this process; `peak_rss_mb` means something in a fresh one only."""
    start = time.perf_counter()
    if measure == "build":
        import pandas_market_calendars  # noqa: F401 (what build_cache loads at its first chunk)
        import scipy.signal  # noqa: F401
    load_s = time.perf_counter() - start
    with tempfile.TemporaryDirectory(dir=market.parent) as scratch:
        start, cpu_start_s = time.perf_counter(), time.process_time()
        count = _read(market) if measure == "read" else _build(market, num_records, Path(scratch))
        seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start_s
    unit = "records" if measure == "read" else "rows"
    return Rate(measure, unit, count, seconds, count / seconds, cpu_s, load_s, _peak_rss_mb())


def _peak_rss_mb() -> float:
    """MiB of this process since it began; on Linux `ru_maxrss` would begin at its parent's peak."""
    status = Path("/proc/self/status")
    if status.is_file():
        fields = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines())
        return int(fields["VmHWM"].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


def _read(market: Path) -> int:
    return sum(len(records) for path in source_files(market) for records in read_records(path))


def _build(market: Path, num_records: int, scratch: Path) -> int:
    return build_cache(market_config(num_records), market, scratch).num_rows


def measured(measure: str, directory: Path, num_records: int) -> Rate:
    """The rate of `measure`, from a process of its own."""
    return Rate(**json.loads(_child(measure, directory, num_records)))


def _child(measure: str, directory: Path, num_records: int) -> str:
    """What a process of its own prints."""
    command = [sys.executable, "-m", "benchmarks.data", "--measure", measure]
    command += ["--records", str(num_records), "--dir", str(directory)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def table(rates: list[Rate]) -> str:
    """One line a measure."""
    names = f"{'M/s':>7} {'CPU s':>6} {'load s':>7} {'peak RSS MB':>12}"
    lines = [f"{'measure':8} {'count':>18} {'seconds':>8} {names}"]
    lines += [
        f"{r.measure:8} {f'{r.count:,} {r.unit}':>18} {r.seconds:8.2f} {r.per_s / 1e6:7.3f} {r.cpu_s:6.2f} "
        f"{r.load_s:7.2f} {r.peak_rss_mb:12.0f}"
        for r in rates
    ]
    return "\n".join(lines)


def missed(rates: list[Rate], bounds: dict[str, float], max_rss_mb: float = math.inf) -> list[str]:
    """A line for each rate below its bound, per second, and for each peak above `max_rss_mb`."""
    slow = [
        f"{rate.measure}: {rate.per_s:,.0f} {rate.unit}/s, fewer than {bounds[rate.measure]:,.0f}"
        for rate in rates
        if rate.per_s < bounds[rate.measure]
    ]
    return slow + [
        f"{rate.measure}: peak RSS {rate.peak_rss_mb:.0f} MiB, more than {max_rss_mb:.0f}"
        for rate in rates
        if rate.peak_rss_mb > max_rss_mb
    ]


def main(argv: list[str] | None = None) -> int:
    """Prints the table or JSON; exit code 3 where a rate is below its bound."""
    options = _parser().parse_args(argv)
    if options.measure == "write":
        written_market(options.dir, options.records)
        return ExitCode.DONE
    if options.measure:
        market = written_market(options.dir, options.records)
        rate = measure_here(options.measure, market, options.records)
        sys.stdout.write(json.dumps(asdict(rate)) + "\n")
        return ExitCode.DONE
    _child("write", options.dir, options.records)
    rates = [measured(measure, options.dir, options.records) for measure in MEASURES]
    text = json.dumps([asdict(rate) for rate in rates]) if options.json else table(rates)
    sys.stdout.write(text + "\n")
    failures = missed(rates, {"read": options.min_read, "build": options.min_build}, options.max_rss)
    sys.stderr.writelines(f"{line}\n" for line in failures)
    return ExitCode.REJECTED if failures else ExitCode.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="about so many (default 1,000,000)")
    kept = Path(tempfile.gettempdir()) / "walkforward-benchmark"
    parser.add_argument("--dir", type=Path, default=kept, help=f"where files are kept (default {kept})")
    parser.add_argument("--json", action="store_true", help="for a script")
    parser.add_argument("--min-read", type=float, default=0.0, help="records/s, else exit code 3")
    parser.add_argument("--min-build", type=float, default=0.0, help="rows/s, else exit code 3")
    parser.add_argument("--max-rss", type=float, default=math.inf, help="MiB, else exit code 3")
    parser.add_argument("--measure", choices=["write", *MEASURES], help="only this, in this process, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
