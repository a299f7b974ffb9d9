"""What a start of the trainer leaves for the next one and for a person: code sha, last words, crash count.

Design pages SYSTEM.md section 11 (exit codes, termination log) and PIPELINE.md "Retry and resume". Imports
no torch.
"""

import json
import os
import socket
import subprocess
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainer.errors import CrashedTooOftenError
from trainer.learn.atomic import on_disk, write_json

TERMINATION_LOG = Path("/dev/termination-log")
TERMINATION_LOG_BYTES = 4096  # Kubernetes keeps no more of the message

SOURCE = Path(__file__).resolve().parents[2]
STARTS_FILE = "starts.json"
ATTEMPTS_FILE = "attempts.jsonl"
"""One line a start of the fold, never rewritten: attempt, resumed_from_step, host, at (UTC)."""


def termination_message(text: str, path: Path = TERMINATION_LOG) -> bool:
    """Leave `text` as one line where Kubernetes looks for the reason a container ended.

    Does nothing outside a container (the file does not exist) and never fails: it runs while an error is
    being reported. Returns whether the line was written.
    """
    line = " ".join(text.split()).encode()[:TERMINATION_LOG_BYTES]
    try:
        if not path.exists():
            return False
        path.write_bytes(line.decode(errors="ignore").encode())
    except OSError:
        return False
    return True


def code_sha(source: Path = SOURCE) -> str:
    """Commit of the running code: the environment's CODE_SHA (set in images), git's HEAD, or `unknown`.

    Git is believed only when `source` is the root of its work tree: an installed package may lie inside the
    work tree of another project. Never fails.
    """
    if given := os.environ.get("CODE_SHA", "").strip():
        return given
    command = ["git", "-C", str(source), "rev-parse", "--show-toplevel", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        root, sha = done.stdout.splitlines()
    except (OSError, ValueError, subprocess.SubprocessError):
        return "unknown"
    return sha if Path(root).resolve() == source.resolve() else "unknown"


class CrashCounter:
    """Counts, in the fold's directory, crashes of the trainer at the same place.

    The orchestrator's retry count also counts preemptions, so it cannot say when to give up; this can. A
    start that never called `finish` crashed, and the place of a crash is the checkpoint that the next start
    goes on from. After `limit` crashes at one place the next start is refused. The refusal clears the count:
    no machine retries exit code 70, so a start after it is a person's decision and gets all its tries.

    Args:
        fold_dir: `<runs>/<run-id>/fold<k>`; made if missing. The caller holds the lock on it.
        limit: crashes at the same place that end the retries; 3 = a crash is retried at most twice.
    """

    def __init__(self, fold_dir: Path, limit: int = 3) -> None:
        self.path = fold_dir / STARTS_FILE
        self._limit = limit

    def start(self, step: int) -> int:
        """Note a start that goes on behind `step` (0 = from nothing); returns the attempt's number, from 1.

        Raises:
            CrashedTooOftenError: `limit` starts in a row crashed behind this step.
            InputError: the directory cannot be written.
        """
        last = self._read()
        crashes = last["crashes"] if step <= last["step"] else 0
        if not last["finished"]:
            crashes += 1
        if crashes >= self._limit:
            self._write({**last, "crashes": 0, "finished": True})
            raise CrashedTooOftenError(
                f"{crashes} crashes in a row behind step {step} without a new checkpoint",
                where=str(self.path.parent),
                do="read logs/attempt-*.log there, remove the cause and start again",
            )
        attempt = int(last["attempt"]) + 1
        self._write({"attempt": attempt, "step": step, "crashes": crashes, "finished": False})
        self._append(
            {
                "attempt": attempt,
                "resumed_from_step": step,
                "host": socket.gethostname(),  # in a cluster the pod's name
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
        return attempt

    def finish(self) -> None:
        """Note that this start ended on purpose: trained to the end, or stopped by a signal after saving."""
        self._write({**self._read(), "finished": True})

    def _read(self) -> dict[str, Any]:
        state: dict[str, Any] = {"attempt": 0, "step": 0, "crashes": 0, "finished": True}
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return state  # a count that cannot be read is no reason to refuse the run
        return found if isinstance(found, dict) and found.keys() == state.keys() else state

    def _write(self, state: dict[str, Any]) -> None:
        with _noted_in(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, state)

    def _append(self, attempt: dict[str, Any]) -> None:
        path = self.path.with_name(ATTEMPTS_FILE)
        with _noted_in(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(attempt) + "\n")


def _noted_in(path: Path) -> AbstractContextManager[None]:
    return on_disk(path, "the start cannot be noted", "make the run directory writable, with free space")
