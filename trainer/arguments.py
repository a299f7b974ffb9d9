"""Options that decide what a run computes and on which data, each declared once for every command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cappa import Arg

from trainer.location import data_location


def whole_number(text: str) -> int:
    """Of a word of the command line; ValueError says so in one line."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None


def whole(help: str, **more: Any) -> Any:
    """A long option for a whole number or none, which the library alone would refuse in three lines."""
    return Arg(long=True, parse=whole_number, parse_inference=False, help=help, **more)


Mirror = Annotated[
    str | None,
    Arg(
        long=True,
        help="s3://bucket/prefix: results go to PREFIX/RUN-ID/, and a run that is there goes on.",
    ),
]


# Not frozen, as mypy allows `cappa.command` no frozen base.
@dataclass
class RunOptions:
    """None: the preset's own value."""

    preset: Annotated[str, Arg(long=True, help="Starting point: default, demo or seed.")] = "default"
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
    folds: Annotated[int | None, whole("Walk-forward folds.")] = None
    instrument: Annotated[str | None, Arg(long=True, help="Instrument preset; inferred unless given.")] = None
    n_steps: Annotated[int | None, whole("Training steps of a fold, resumed ones included.")] = None
    n_backtests: Annotated[int | None, whole("Lanes: market replays in parallel.")] = None
    per_capacity: Annotated[int | None, whole("Transitions the replay keeps; a power of two.")] = None
    checkpoint_every: Annotated[int | None, whole("Steps between checkpoints; 0: at the end.")] = None
    seed: Annotated[int | None, whole("Of weights, sampling and anchors.")] = None
    device: Annotated[
        str | None, Arg(long=True, choices=["cpu", "cuda", "auto"], help="Where to train; auto unless given.")
    ] = None
    mirror: Mirror = None
