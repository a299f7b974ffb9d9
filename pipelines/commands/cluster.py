"""`walkforward stop`, `retry` and `report`: a run that was submitted."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import cappa
from cappa import Arg, Destructured

from pipelines.cluster.connection import ConnectionOptions

RUN_HELP = "Workflow, run id, or @latest."
STOP_EXAMPLES = """Stop a run: no new stage starts, running ones save what they have and end.

Examples:

    walkforward stop walkforward-x7k2p

    walkforward stop main-5d41402abc4b -n trading

A run id stops every live workflow of that run. `walkforward retry` goes on later.
"""
RETRY_EXAMPLES = """Submit a run again, with the same parameters and run id, as a new workflow.

Finished stages return at once, training goes on from its newest checkpoint. Refused while the run is running.

Examples:

    walkforward retry walkforward-x7k2p

    walkforward retry @latest --watch
"""
REPORT_EXAMPLES = """The verdict of a run: its gate's table and reasons.

Examples:

    walkforward report walkforward-x7k2p

    walkforward report main-5d41402abc4b --json

    walkforward report @latest -o report.html

    walkforward report runs/es

Exit codes: 0 there is a verdict, whatever it says; 2 there is none.
"""


@cappa.command(name="stop", help="Stop a run; it can go on later.", description=STOP_EXAMPLES)
@dataclass(frozen=True)
class Stop:
    run: Annotated[str, Arg(help=RUN_HELP)]
    connection: Destructured[ConnectionOptions] = field(default_factory=ConnectionOptions)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.cluster.connection import connect
        from pipelines.cluster.submit import stop

        return stop(connect(self.connection), self.run, sys.stdout)


@cappa.command(name="retry", help="Submit a run again; it resumes.", description=RETRY_EXAMPLES)
@dataclass(frozen=True)
class Retry:
    run: Annotated[str, Arg(help=RUN_HELP)]
    output: Annotated[
        Literal["name", "yaml", "json"] | None, Arg(short="-o", long=True, help="Form of the result.")
    ] = None
    watch: Annotated[bool, Arg(short="-w", long=True, help="Follow; exit with the verdict.")] = False
    connection: Destructured[ConnectionOptions] = field(default_factory=ConnectionOptions)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.cluster.connection import connect, repeated
        from pipelines.cluster.submit import Shown, retry, watched

        shown = Shown(sys.stdout, sys.stderr, self.output, repeated(self.connection))
        api = connect(self.connection)
        name = retry(api, self.run, shown)
        return watched(api, name, shown) if self.watch else 0


@cappa.command(name="report", help="The verdict of a run.", description=REPORT_EXAMPLES)
@dataclass(frozen=True)
class Report:
    run: Annotated[str, Arg(help="Workflow, run id, @latest, or a run directory here.")]
    json: Annotated[bool, Arg(long=True, help="Print summary.json.")] = False
    output: Annotated[
        Path | None, Arg(short="-o", long=True, help="File to write; .html and .json are their own forms.")
    ] = None
    connection: Destructured[ConnectionOptions] = field(default_factory=ConnectionOptions)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.cluster.report import of_directory, of_workflow, part_for, write

        part = part_for(self.json, self.output)
        if Path(self.run).is_dir():
            return write(of_directory(Path(self.run), part), self.output, sys.stdout)
        from pipelines.cluster.connection import connect

        return write(of_workflow(connect(self.connection), self.run, part), self.output, sys.stdout)
