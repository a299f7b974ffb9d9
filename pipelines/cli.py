"""The command `walkforward`: run the plan here or on a cluster, inspect data, write and check its YAML."""

import os
import sys
import traceback
from dataclasses import dataclass

import cappa
from cappa import Subcommands

from pipelines.commands.data import Data
from pipelines.commands.manifests import Lint, Render
from pipelines.commands.run import Run
from trainer.errors import AlphaError, ExitCode


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
