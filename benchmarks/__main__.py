"""`python -m benchmarks`: steps per second of a preset on this machine."""

import argparse
import json
import sys

from benchmarks.speed import measure
from trainer.errors import AlphaError
from trainer.presets import PRESETS


def main(argv: list[str] | None = None) -> int:
    """Measure and write one line (or JSON) to stdout; options not known here go to `trainer train`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="demo")
    parser.add_argument("--intervals", type=int, default=8, help="measured log intervals, besides the first")
    parser.add_argument("--interval-steps", type=int, default=25, help="training steps of an interval")
    parser.add_argument("--json", action="store_true", help="result for a script")
    options, train_options = parser.parse_known_args(argv)
    try:
        speed = measure(options.preset, options.intervals, options.interval_steps, train_options)
    except AlphaError as error:
        sys.stderr.write(f"benchmarks: {error}\n")
        return int(error.exit_code)
    sys.stdout.write((json.dumps(speed.fields()) if options.json else speed.line()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
