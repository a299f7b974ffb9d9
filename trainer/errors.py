"""Errors a person can act on, and the exit codes that scripts and the pipeline read.

Every command ends with one of these codes; `trainer.cli` prints an `AlphaError` as one line on stderr.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command (design page SYSTEM.md section 11)."""

    DONE = 0
    BAD_INPUT = 2
    REJECTED = 3
    INCONCLUSIVE = 4
    CRASHED_TOO_OFTEN = 70
    INTERRUPTED = 75
    MISMATCH = 78


class AlphaError(Exception):
    """Base of all errors meant for a person: what is wrong, where, and what to do about it.

    `str(error)` is one line: `WHERE: WHAT; DO`. `where` is a file, `file @ byte offset`, or a config field.
    """

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, what: str, *, where: str = "", do: str = "") -> None:
        self.what, self.where, self.do = what, where, do
        line = (f"{where}: " if where else "") + what + (f"; {do}" if do else "")
        super().__init__(" ".join(line.split()))


class InputError(AlphaError):
    """Bad data, bad option or an unusable path: exit code 2."""


class BusyError(InputError):
    """Another process works there: exit code 75, a temporary failure, so that the plan tries again later."""

    exit_code = ExitCode.INTERRUPTED


class MismatchError(AlphaError):
    """A checkpoint, marker or run directory made by another config or other data: exit code 78."""

    exit_code = ExitCode.MISMATCH


class InterruptedRun(AlphaError):  # noqa: N818 (nothing went wrong: the run was asked to stop)
    """Stopped by a signal after everything was saved: exit code 75."""

    exit_code = ExitCode.INTERRUPTED


class CrashedTooOftenError(AlphaError):
    """The run crashed repeatedly without progress: exit code 70."""

    exit_code = ExitCode.CRASHED_TOO_OFTEN
