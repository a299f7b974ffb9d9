"""`python -m trainer prepare|train|evaluate|gate|finish`: what the stages of the plan run; and `inspect`."""

import logging
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cappa
from cappa import Arg, Subcommands

from trainer.arguments import whole
from trainer.errors import AlphaError, InputError
from trainer.location import data_location
from trainer.options import build_config
from trainer.parent import stop_with_parent
from trainer.stages import Evaluate, Finish, Gate, Prepare, Train


@cappa.command(
    name="inspect",
    help="What data holds, and whether prepare takes it.",
    description="What order-book data holds, and whether prepare takes it: exit code 0, or 2 where not.\n\n"
    "Example:\n\n"
    "    python -m trainer inspect es.dbn.zst --json\n",
)
@dataclass
class Inspect:
    path: Annotated[
        Path | str, Arg(parse=data_location, parse_inference=False, help="File, directory or s3:// URL.")
    ]
    preset: Annotated[str, Arg(long=True, help="Whose decisions and folds are counted.")] = "default"
    config: Annotated[Path | None, Arg(long=True, help="YAML file over the preset.")] = None
    folds: Annotated[int | None, whole("Walk-forward folds.")] = None
    instrument: Annotated[str | None, Arg(long=True, help="Instrument preset; inferred unless given.")] = None
    instrument_id: Annotated[int | None, whole("The one to judge of several.")] = None
    cache_dir: Annotated[Path, Arg(long=True, help="Where s3:// data is downloaded to.")] = Path("runs/cache")
    json: Annotated[bool, Arg(long=True, help="Print the report as JSON.")] = False
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from trainer.data.inspection.command import inspect_command

        config = build_config(self.preset, self.config, {"folds": self.folds, "instrument": self.instrument})
        if self.instrument_id is not None:
            config = config.replaced(data={"instrument_id": self.instrument_id})
        return inspect_command(config, self.path, self.cache_dir, self.json, sys.stdout, sys.stderr)


@cappa.command(name="trainer", help="Train and judge an order-book agent, stage by stage.")
@dataclass
class Trainer:
    stage: Subcommands[Prepare | Train | Evaluate | Gate | Finish | Inspect]


def main(argv: list[str] | None = None) -> int:
    """Runs a stage; an error meant for a person is one line on stderr and in the termination log."""
    from trainer.learn.progress import termination_message

    logging.basicConfig(level=logging.WARNING, format="warning: %(message)s", stream=sys.stderr)
    words = sys.argv[1:] if argv is None else argv
    stop_with_parent()
    try:
        command = cappa.parse(Trainer, argv=words, backend=cappa.backend)
        return int(command.stage.execute())
    except AlphaError as error:
        if "--debug" in words:
            traceback.print_exc()
        sys.stderr.write(f"error: {error}\n")
        termination_message(str(error))
        return int(error.exit_code)
    except OSError as error:  # what no layer below expected: still one line, with the path
        if "--debug" in words:
            traceback.print_exc()
        failure = InputError(
            error.strerror or str(error), where=str(error.filename or "system"), do="see --debug"
        )
        sys.stderr.write(f"error: {failure}\n")
        termination_message(str(failure))
        return int(failure.exit_code)
