"""What the optimal trader earns on a synthetic market: `python -m benchmarks.oracle --preset demo`.

The oracle sees the planted signal and trades it optimally after costs; the second row sees the book's
sizes only. Both decide at the market's clock. No agent can be asked for more.
"""

import argparse
import json
import sys

from trainer.data.oracle_trader import book_report, oracle_report
from trainer.presets import PRESETS


def main(argv: list[str] | None = None) -> int:
    """Prints a row for each trader, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oracle", description=__doc__)
    parser.add_argument("--preset", choices=sorted(PRESETS), default="demo")
    parser.add_argument("--market", choices=["planted", "martingale"], default="planted")
    parser.add_argument("--decisions", type=int, default=50_000, help="length of the path")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="for a script")
    options = parser.parse_args(argv)
    config = PRESETS[options.preset]().replaced(market_source=options.market)
    reports = {
        "oracle": oracle_report(config, options.decisions, options.seed),
        "book only": book_report(config, options.decisions, options.seed),
    }
    if options.json:
        sys.stdout.write(json.dumps({name: vars(report) for name, report in reports.items()}) + "\n")
        return 0
    sys.stdout.write(
        f"{'trader':10} {'win rate':>9} {'hold %':>7} {'net ticks/decision':>19} {'trades/decision':>16}\n"
    )
    for name, r in reports.items():
        sys.stdout.write(
            f"{name:10} {r.wr:9.3f} {r.hold_percent:7.1f} {r.net_ticks_per_decision:19.3f} "
            f"{r.trades_per_decision:16.3f}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
