"""What a check says: results with a level, and the checks themselves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.cluster.doctor.cluster import Cluster


class Level(StrEnum):
    """How bad it is: an error stops a run or its verdict, a warning may."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Result:
    """One line for a person: what is so, and what to do about it (empty where nothing is to be done)."""

    level: Level
    what: str
    do: str = ""


@dataclass(frozen=True)
class Check:
    """One question, independent of all others. An InputError of `look` becomes a warning."""

    group: str
    name: str
    look: "Callable[[Cluster], Iterable[Result]]"


def ok(what: str) -> Result:
    """Nothing to do."""
    return Result(Level.OK, what)


def warning(what: str, do: str) -> Result:
    """May stop a run, or cannot be seen from here."""
    return Result(Level.WARNING, what, do)


def error(what: str, do: str) -> Result:
    """Stops a run or its verdict."""
    return Result(Level.ERROR, what, do)
