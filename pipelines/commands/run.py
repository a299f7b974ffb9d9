"""`walkforward run`: the plan on this machine."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cappa
from cappa import Arg

from trainer.arguments import RunOptions, whole

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
@dataclass
class Run(RunOptions):
    fold_idx: Annotated[int | None, whole("That fold only, no verdict.")] = None
    runs: Annotated[Path, Arg(long=True, help="Where run directories are.")] = Path("runs")
    run_id: Annotated[str | None, Arg(long=True, help="Name of the run; the same name resumes.")] = None
    jobs: Annotated[int, whole("Folds at the same time.")] = 1
    json: Annotated[bool, Arg(long=True, help="Print the verdict as JSON.")] = False
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.launch import launch

        return launch(self, sys.stdout, sys.stderr)
