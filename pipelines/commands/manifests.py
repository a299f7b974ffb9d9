"""`walkforward render` and `lint`: the Argo YAML, written and checked without a cluster."""

import gc
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import cappa
from cappa import Arg, Destructured

from pipelines.cluster.connection import ConnectionOptions
from trainer.errors import ExitCode, InputError

RENDER_EXAMPLES = """Write the Argo WorkflowTemplate (or a Workflow that uses it) as YAML.

Examples:

    walkforward render -o walkforward.yaml

    walkforward render -n quant | kubectl apply -f -

    walkforward render --workflow -p folds=3 -p market=planted | kubectl create -f -
"""
LINT_EXAMPLES = """Check Argo YAML offline: schema, references, and the rules of a run that resumes.

With --server the cluster is asked too whether it would take what passed: a dry run, nothing is stored.

Examples:

    walkforward lint

    walkforward lint mine.yaml other.yaml

    walkforward lint --server -n quant

Exit codes: 0 nothing found, 2 findings or bad input, 75 cannot reach the cluster now.
"""


@cappa.command(name="render", help="Write the Argo YAML.", description=RENDER_EXAMPLES)
@dataclass(frozen=True)
class Render:
    output: Annotated[Path | None, Arg(short="-o", long=True, help="File to write; stdout unless given.")] = (
        None
    )
    values: Annotated[Path | None, Arg(long=True, help="YAML file of chart values.")] = None
    namespace: Annotated[
        str | None, Arg(short="-n", long=True, help="Where it will be; the values' own unless given.")
    ] = None
    workflow: Annotated[bool, Arg(long=True, help="A Workflow that uses the template, to submit.")] = False
    parameter: Annotated[
        list[str], Arg(short="-p", long=True, help="name=value of the Workflow; repeat it.")
    ] = field(default_factory=list)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.parameters import parameters_of
        from pipelines.render import chart_values, render

        if self.parameter and not self.workflow:
            raise InputError("-p belongs to a Workflow", where="--parameter", do="add --workflow")
        values = chart_values(self.values, self.namespace)
        text = render(values, parameters_of(self.parameter) if self.workflow else None)
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


@cappa.command(name="lint", help="Check Argo YAML.", description=LINT_EXAMPLES)
@dataclass(frozen=True)
class Lint:
    files: Annotated[list[Path], Arg(help="YAML files; the freshly rendered template unless given.")] = field(
        default_factory=list
    )
    server: Annotated[bool, Arg(long=True, help="Let the cluster check it too; store nothing.")] = False
    connection: Destructured[ConnectionOptions] = field(default_factory=ConnectionOptions)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        # Building Argo's models makes a million small objects that all stay: collecting garbage meanwhile
        # is a third of the run time.
        gc.disable()
        try:
            from pipelines.cluster.connection import connect
            from pipelines.lint import lint_files

            findings = lint_files(self.files, connect(self.connection) if self.server else None)
        finally:
            gc.enable()
        for finding in findings:
            sys.stdout.write(f"{finding}\n")
        return int(ExitCode.BAD_INPUT if findings else ExitCode.DONE)
