"""`walkforward status`: what runs on the cluster, and how far it is."""

import sys
from dataclasses import dataclass, field
from typing import Annotated

import cappa
from cappa import Arg, Destructured

from pipelines.cluster.connection import ConnectionOptions, repeated
from trainer.arguments import whole
from trainer.errors import InputError

STATUS_EXAMPLES = """List the newest workflows, or show one: its folds, attempts, steps, GPU time and verdict.

Examples:

    walkforward status

    walkforward status walkforward-x7k2p

    walkforward status main-5d41402abc4b --json

    walkforward status @latest --watch

Exit codes: 0 shown, 2 there is none of that name, 75 cannot reach the cluster now. With --watch, at the end:
0 pass, 3 fail or reject, 4 inconclusive; without a verdict the code of the first failed stage (2, 70, 78), 75
for a stopped workflow, else 1. Ctrl-C ends the watching, not the workflow, with 75.
"""


@cappa.command(name="status", help="What runs, and how far it is.", description=STATUS_EXAMPLES)
@dataclass(frozen=True)
class Status:
    run: Annotated[
        str | None, Arg(help="Workflow, run id, or @latest; a list of the newest unless given.")
    ] = None
    watch: Annotated[
        bool, Arg(short="-w", long=True, help="Follow until the end; exit with the verdict.")
    ] = False
    limit: Annotated[int, whole("Workflows in the list.")] = 20
    json: Annotated[bool, Arg(long=True, help="Print JSON.")] = False
    connection: Destructured[ConnectionOptions] = field(default_factory=ConnectionOptions)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        if self.watch and (self.run is None or self.json):
            do = "name one workflow, or @latest" if self.run is None else "leave --json or --watch out"
            raise InputError("--watch follows one workflow, in words", where="options", do=do)
        if self.limit < 1:
            raise InputError("is below 1", where="--limit", do="give the number of workflows to list")
        from pipelines.cluster.connection import connect

        api = connect(self.connection)
        if self.run is None:
            from pipelines.cluster.status import show_recent

            return show_recent(api, self.limit, self.json, sys.stdout)
        from pipelines.cluster.find import find_workflow

        body = find_workflow(api, self.run)
        if self.watch:
            from pipelines.cluster.watching import follow

            name, flags = str(body["metadata"]["name"]), repeated(self.connection)
            return follow(api, name, sys.stdout, sys.stderr, flags=flags)
        from pipelines.cluster.status import show_status

        return show_status(api, body, self.json, sys.stdout)
