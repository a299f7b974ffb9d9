"""`walkforward run`: the plan on this machine."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import cappa
from cappa import Arg

from trainer.location import data_location

RUN_EXAMPLES = """Train and judge every fold on this machine.

Examples:

    walkforward run --preset demo --market planted --jobs 2

    walkforward run --data es-2024.dbn.zst --folds 3

    walkforward run --data recordings/ --fold-idx 1 --n-steps 2000

    walkforward run --data s3://recordings/es --mirror s3://results/es --run-id es-1

Type the same line again to resume; finished stages return at once.

Exit codes: 0 pass, 2 bad input, 3 fail or reject, 4 inconclusive, 70 crashed too often, 75 interrupted after
saving or another process works there, 78 another config under the same id.
"""


@cappa.command(name="run", help="Run the plan on this machine.", description=RUN_EXAMPLES)
@dataclass(frozen=True)
class Run:
    preset: Annotated[Literal["demo", "default", "seed"], Arg(long=True, help="Starting point.")] = "default"
    config: Annotated[Path | None, Arg(long=True, help="YAML file over the preset.")] = None
    mbp10_data_dir: Annotated[
        Path | str | None,
        Arg(
            long=["--data", "--mbp10-data-dir"],
            parse=data_location,
            parse_inference=False,
            help="mbp-10 file, directory or s3:// URL (.dbn, .dbn.zst, LOBSTER .csv).",
        ),
    ] = None
    market: Annotated[
        str | None,
        Arg(long=True, choices=["planted", "martingale"], help="Synthetic market in place of files."),
    ] = None
    trades_data_dir: Annotated[
        Path | str | None,
        Arg(
            long=True,
            parse=data_location,
            parse_inference=False,
            help="Separate trades directory or s3:// URL.",
        ),
    ] = None
    folds: Annotated[int | None, Arg(long=True, help="Walk-forward folds.")] = None
    fold_idx: Annotated[int | None, Arg(long=True, help="That fold only, no verdict.")] = None
    n_steps: Annotated[
        int | None, Arg(long=True, help="Training steps of a fold, resumed ones included.")
    ] = None
    n_backtests: Annotated[int | None, Arg(long=True, help="Lanes: market replays in parallel.")] = None
    per_capacity: Annotated[int | None, Arg(long=True, help="Transitions the replay keeps.")] = None
    checkpoint_every: Annotated[
        int | None, Arg(long=True, help="Steps between checkpoints; 0: at the end.")
    ] = None
    seed: Annotated[int | None, Arg(long=True, help="Of weights, sampling and anchors.")] = None
    instrument: Annotated[str | None, Arg(long=True, help="Instrument preset; inferred unless given.")] = None
    runs: Annotated[Path, Arg(long=True, help="Where run directories are.")] = Path("runs")
    run_id: Annotated[str | None, Arg(long=True, help="Name of the run; the same name resumes.")] = None
    jobs: Annotated[int, Arg(long=True, help="Folds at the same time.")] = 1
    device: Annotated[
        str | None, Arg(long=True, choices=["cpu", "cuda", "auto"], help="Where to train; auto unless given.")
    ] = None
    mirror: Annotated[
        str | None,
        Arg(
            long=True,
            help="s3://bucket/prefix: results go to <prefix>/<run-id>/, and a run that is there goes on.",
        ),
    ] = None
    json: Annotated[bool, Arg(long=True, help="Print the verdict as JSON.")] = False
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.launch import LaunchOptions, launch

        given = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "debug"}
        return launch(LaunchOptions(**given), sys.stdout, sys.stderr)
