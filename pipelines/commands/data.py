"""`walkforward data inspect`: look at data before a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import cappa
from cappa import Arg, Subcommands

from trainer.arguments import whole
from trainer.location import data_location

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
    folds: Annotated[int | None, whole("Walk-forward folds.")] = None
    instrument: Annotated[str | None, Arg(long=True, help="Instrument preset; inferred unless given.")] = None
    instrument_id: Annotated[int | None, whole("The one to judge of several.")] = None
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
