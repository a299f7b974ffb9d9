"""`walkforward logs`: what the stages of a run wrote."""

import sys
from dataclasses import dataclass, field
from typing import Annotated, Literal

import cappa
from cappa import Arg, Destructured

from pipelines.cluster.connection import ConnectionOptions
from trainer.arguments import whole
from trainer.errors import ExitCode, InputError

LOGS_EXAMPLES = """Show the logs of a run's stages by time, each line behind its stage and attempt.

Examples:

    walkforward logs walkforward-x7k2p

    walkforward logs @latest -f --stage train

    walkforward logs main-5d41402abc4b --fold 1 --attempt all --timestamps

    walkforward logs @latest --since 10m --tail 100

Without --attempt: of each stage the newest attempt; -f goes on with every later one until the workflow has
ended, across restarts of pods and servers, each line once.

Exit codes: 0, also when the workflow fails; 2 there is nothing to show; 75 cannot reach the cluster now, or
Ctrl-C while following.
"""


def attempt_of(text: str) -> int | Literal["all"]:
    """`all`, or a number from 1; InputError for other text."""
    if text == "all":
        return "all"
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise InputError(f"{text!r} is no attempt", where="--attempt", do="give a number from 1, or all")


@cappa.command(name="logs", help="What the stages of a run wrote.", description=LOGS_EXAMPLES)
@dataclass(frozen=True)
class Logs:
    run: Annotated[str, Arg(help="Workflow, run id, or @latest.")]
    follow: Annotated[bool, Arg(short="-f", long=True, help="Go on until the workflow has ended.")] = False
    fold: Annotated[int | None, whole("Only of this fold.")] = None
    stage: Annotated[str | None, Arg(long=True, help="prepare, train, evaluate, gate or finish.")] = None
    attempt: Annotated[str | None, Arg(long=True, help="A number from 1, or all.")] = None
    since: Annotated[str | None, Arg(long=True, help="Only the last 90s, 10m, 1h30m or 2d.")] = None
    tail: Annotated[int | None, whole("Only so many last lines of each attempt.")] = None
    timestamps: Annotated[bool, Arg(long=True, help="Show each line's time.")] = False
    connection: Destructured[ConnectionOptions] = field(default_factory=ConnectionOptions)
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.cluster.logs import LogOptions, seconds_of, show_logs

        if self.tail is not None and self.tail < 0:
            raise InputError("is below 0", where="--tail", do="give a number of lines")
        options = LogOptions(
            follow=self.follow,
            fold=self.fold,
            stage=self.stage,
            attempt=None if self.attempt is None else attempt_of(self.attempt),
            since_s=None if self.since is None else seconds_of(self.since),
            tail=self.tail,
            timestamps=self.timestamps,
        )
        from pipelines.cluster.connection import connect
        from pipelines.cluster.find import find_workflow

        api = connect(self.connection)
        name = str(find_workflow(api, self.run)["metadata"]["name"])
        try:
            return show_logs(api, name, options, sys.stdout, sys.stderr)
        except KeyboardInterrupt:
            return int(ExitCode.INTERRUPTED)
