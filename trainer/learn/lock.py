"""One writer per fold: two trainers in one would remove each other's checkpoints and mix their records."""

from contextlib import AbstractContextManager
from pathlib import Path

from trainer.lock import directory_lock


def fold_lock(directory: Path) -> AbstractContextManager[int]:
    """Holds the fold's directory (SYSTEM.md section 9). BusyError when another process works in it."""
    taken, do = "another process works in this fold", "wait for it, or use another --run-dir"
    return directory_lock(directory, taken, do)
