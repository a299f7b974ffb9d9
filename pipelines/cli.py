"""The command `walkforward`: run the plan here, inspect data, render the plan for Argo, check its files."""

import gc
import os
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import cappa
from cappa import Arg, Subcommands

from trainer.errors import AlphaError, ExitCode, InputError
from trainer.location import data_location

RUN_EXAMPLES = """Train and judge every fold on this machine.

Examples:

    walkforward run --preset demo --market planted --jobs 2

    walkforward run --data es-2024.dbn.zst --folds 3

    walkforward run --data recordings/ --fold-idx 1 --n-steps 2000

Type the same line again to resume; finished stages return at once.

Exit codes: 0 pass, 2 bad input, 3 fail or reject, 4 inconclusive, 70 crashed too often, 75 interrupted after
saving or another process works there, 78 another config under the same id.
"""
RENDER_EXAMPLES = """Write the Argo WorkflowTemplate (or a Workflow that uses it) as YAML.

Examples:

    walkforward render -o walkforward.yaml

    walkforward render --workflow -p folds=3 -p market=planted | kubectl create -f -
"""
LINT_EXAMPLES = """Check Argo YAML offline: schema, references, and the rules of a run that resumes.

Examples:

    walkforward lint

    walkforward lint charts/walkforward.yaml
"""

DATA_EXAMPLES = """Look at order-book data before a run.

Example:

    walkforward data inspect es-2024.dbn.zst
"""
INSPECT_EXAMPLES = """What order-book data holds, what is wrong with it, and what it is enough for.

Examples:

    walkforward data inspect es-2024.dbn.zst

    walkforward data inspect recordings/ --instrument-id 17077 --folds 5

    walkforward data inspect s3://bucket/es/ --json

Exit codes: 0 a run takes this data, 2 it does not.
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
    json: Annotated[bool, Arg(long=True, help="Print the verdict as JSON.")] = False
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.launch import LaunchOptions, launch

        given = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "debug"}
        return launch(LaunchOptions(**given), sys.stdout, sys.stderr)


@cappa.command(name="render", help="Write the Argo YAML.", description=RENDER_EXAMPLES)
@dataclass(frozen=True)
class Render:
    output: Annotated[Path | None, Arg(short="-o", long=True, help="File to write; stdout unless given.")] = (
        None
    )
    values: Annotated[Path | None, Arg(long=True, help="YAML file of chart values.")] = None
    workflow: Annotated[bool, Arg(long=True, help="A Workflow that uses the template, to submit.")] = False
    parameter: Annotated[
        list[str], Arg(short="-p", long=True, help="name=value of the Workflow; repeat it.")
    ] = field(default_factory=list)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.render import chart_values, parameters_of, render

        if self.parameter and not self.workflow:
            raise InputError("-p belongs to a Workflow", where="--parameter", do="add --workflow")
        text = render(chart_values(self.values), parameters_of(self.parameter) if self.workflow else None)
        if self.output is None:
            sys.stdout.write(text)
            return int(ExitCode.DONE)
        try:
            self.output.write_text(text, encoding="utf-8")
        except OSError as error:
            where = str(self.output)
            raise InputError(
                f"cannot write: {error.strerror}", where=where, do="give -o a writable file"
            ) from error
        return int(ExitCode.DONE)


@cappa.command(name="lint", help="Check Argo YAML offline.", description=LINT_EXAMPLES)
@dataclass(frozen=True)
class Lint:
    files: Annotated[list[Path], Arg(help="YAML files; the freshly rendered template unless given.")] = field(
        default_factory=list
    )
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        # Building Argo's models makes a million small objects that all stay: collecting garbage meanwhile
        # is a third of the run time.
        gc.disable()
        try:
            from pipelines.lint import lint_files

            findings = lint_files(self.files)
        finally:
            gc.enable()
        for finding in findings:
            sys.stdout.write(f"{finding}\n")
        return int(ExitCode.BAD_INPUT if findings else ExitCode.DONE)


@cappa.command(name="inspect", help="What data holds and what is wrong.", description=INSPECT_EXAMPLES)
@dataclass(frozen=True)
class Inspect:
    path: Annotated[
        Path | str, Arg(parse=data_location, parse_inference=False, help="File, directory or s3:// URL.")
    ]
    preset: Annotated[
        Literal["demo", "default", "seed"], Arg(long=True, help="Whose decisions and folds are counted.")
    ] = "default"
    config: Annotated[Path | None, Arg(long=True, help="YAML file over the preset.")] = None
    folds: Annotated[int | None, Arg(long=True, help="Walk-forward folds.")] = None
    instrument: Annotated[str | None, Arg(long=True, help="Instrument preset; inferred unless given.")] = None
    instrument_id: Annotated[int | None, Arg(long=True, help="The one to judge of several.")] = None
    runs: Annotated[Path, Arg(long=True, help="Where run directories are; s3:// data goes below.")] = Path(
        "runs"
    )
    json: Annotated[bool, Arg(long=True, help="Print the report as JSON.")] = False
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.inspect import inspect

        options = {name: getattr(self, name) for name in ("preset", "config", "folds", "instrument")}
        options |= {"instrument_id": self.instrument_id, "cache_dir": self.runs / "cache"}
        return inspect(self.path, options, json=self.json, debug=self.debug)


@cappa.command(name="data", help="Look at data before a run.", description=DATA_EXAMPLES)
@dataclass(frozen=True)
class Data:
    command: Subcommands[Inspect]

    @property
    def debug(self) -> bool:
        """Of the command."""
        return self.command.debug

    def execute(self) -> int:
        return self.command.execute()


@cappa.command(
    name="walkforward",
    help="Does this trading agent still win on data it has never seen?",
    description="Walk-forward training and judging of an order-book agent.\n\nStart with:\n\n    "
    "walkforward run --preset demo --market planted --jobs 2\n",
)
@dataclass(frozen=True)
class Walkforward:
    command: Subcommands[Run | Data | Render | Lint]


def main(argv: list[str] | None = None) -> int:
    """Parse and execute; an AlphaError becomes one line on stderr and its exit code."""
    command = cappa.parse(Walkforward, argv=argv, completion=False).command
    try:
        return command.execute()
    except AlphaError as error:
        if command.debug:
            traceback.print_exc()
        sys.stderr.write(f"walkforward: {error}\n")
        return int(error.exit_code)
    except BrokenPipeError:
        # The reader (head) has what it wanted; without this the interpreter's last flush fails.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main())
