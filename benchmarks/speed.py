"""Training steps per second of one fold, measured through the trainer's command line.

Design page GPU.md: speeds are claimed for exactly what ships, so this runs `python -m trainer prepare` and
`train` and reads the `sps=` of the step lines. The first interval (compilation, graph capture) is left out.
"""

import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.errors import InputError

STEP_RATE = re.compile(r"^step \d+/\d+ .*\bsps=(\S+)", re.MULTILINE)
DEVICE = re.compile(r"^device: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Speed:
    """Steps per second over the intervals between log lines."""

    preset: str
    device: str
    num_intervals: int
    median: float
    slowest: float
    fastest: float

    def line(self) -> str:
        """The result as one readable line."""
        return (
            f"{self.preset} on {self.device}: {self.median:.4g} steps/s "
            f"(median of {self.num_intervals} intervals, {self.slowest:.4g} to {self.fastest:.4g})"
        )

    def fields(self) -> dict[str, str | int | float]:
        """The result for a script."""
        return asdict(self)


def speed_of_log(preset: str, log: str) -> Speed:
    """Speed from the text of an attempt's log. Raises InputError when it has under two step lines."""
    rates = [float(rate) for rate in STEP_RATE.findall(log)][1:]
    if not rates:
        raise InputError("the log has fewer than two step lines", do="raise --intervals")
    device = DEVICE.search(log)
    name = device[1] if device else "unknown"
    return Speed(preset, name, len(rates), statistics.median(rates), min(rates), max(rates))


def measure(preset: str, intervals: int, interval_steps: int, train_options: Sequence[str]) -> Speed:
    """Prepare the planted market in a temporary directory, train fold 0 and read its log.

    `train_options` go to `train` as they are (`--device cpu`, `--no-graph`). Raises InputError when a command
    fails; its own message is on stderr.
    """
    num_steps = (intervals + 1) * interval_steps
    with tempfile.TemporaryDirectory(prefix="alpha-rl-bench-") as directory:
        run_dir = Path(directory) / "run"
        run = ["--run-dir", str(run_dir)]
        length = ["--n-steps", str(num_steps), "--checkpoint-every", "0"]
        cache = ["--cache-dir", str(Path(directory) / "cache")]
        _trainer("prepare", *run, "--preset", preset, "--market", "planted", *length, *cache)
        _trainer("train", *run, "--fold-idx", "0", "--log-every", str(interval_steps), *train_options)
        return speed_of_log(preset, (run_dir / "fold0" / "logs" / "attempt-1.log").read_text())


def _trainer(*arguments: str) -> None:
    # The result goes to stdout, so the trainer's own lines go where logs belong.
    done = subprocess.run([sys.executable, "-m", "trainer", *arguments], stdout=sys.stderr, check=False)
    if done.returncode:
        raise InputError(f"`trainer {arguments[0]}` ended with exit code {done.returncode}")
