"""The command `walkforward`: run the plan here or on a cluster, inspect data, write and check its YAML."""

import os
import sys
import traceback
from dataclasses import dataclass
from typing import Protocol

import cappa
from cappa import Subcommands

from pipelines.commands.cluster import Report, Retry, Stop
from pipelines.commands.data import Data
from pipelines.commands.doctor import Doctor
from pipelines.commands.logs import Logs
from pipelines.commands.manifests import Lint, Render
from pipelines.commands.run import Run
from pipelines.commands.status import Status
from pipelines.commands.submit import Submit
from trainer.errors import AlphaError, ExitCode


@cappa.command(
    name="walkforward",
    help="Does this trading agent still win on data it has never seen?",
    description="Walk-forward training and judging of an order-book agent.\n\nStart with:\n\n    "
    "walkforward run --preset demo --market planted --jobs 2\n",
)
@dataclass(frozen=True)
class Walkforward:
    command: Subcommands[Run | Submit | Status | Logs | Stop | Retry | Report | Doctor | Data | Render | Lint]


class Command(Protocol):
    """A parsed command."""

    @property
    def debug(self) -> bool:
        """Whether to show tracebacks."""

    def execute(self) -> int:
        """Do it; returns the exit code. Raises AlphaError."""


def main(argv: list[str] | None = None) -> int:
    """Parse and execute."""
    return run_command(cappa.parse(Walkforward, argv=argv, completion=False).command, "walkforward")


def run_command(command: Command, program: str) -> int:
    """Execute; an AlphaError becomes one line on stderr, after the program's name, and its exit code."""
    try:
        return command.execute()
    except AlphaError as error:
        if command.debug:
            traceback.print_exc()
        sys.stderr.write(f"{program}: {error}\n")
        return int(error.exit_code)
    except BrokenPipeError:
        # The reader (head) has what it wanted; without this the interpreter's last flush fails.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main())
