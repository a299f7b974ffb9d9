"""One runner per run directory; its children keep the lock, also as orphans of a killed runner."""

from contextlib import AbstractContextManager
from pathlib import Path

from trainer.lock import directory_lock


def run_lock(run_dir: Path, wait_s: float = 0.0) -> AbstractContextManager[int]:
    """Holds the run directory; yields the descriptor, for children to inherit. BusyError when it is held."""
    taken, do = "another run is writing here", "wait for it, or give another --run-id"
    return directory_lock(run_dir, taken, do, wait_s)
