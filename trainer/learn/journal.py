"""The training log: one JSON record a step, one readable line every few steps, and progress for Argo.

Design page SYSTEM.md section 11. Three places are written: `train.jsonl` (exact, every step), the stream and
`logs/attempt-<n>.log` (the lines people read and grep), and the file that Argo shows as `N/M`.
`train.jsonl` holds no clock times, so that an interrupted and resumed run leaves the bytes of a whole one.
"""

import io
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

import numpy as np
from numpy.typing import NDArray

from trainer.config import Config
from trainer.learn.atomic import on_disk
from trainer.learn.records import RECORDS_FILE, cut_after, encoded

# What the step line shows, in order, and how. `hold` is a share in [0, 1], shown in percent; `ent` in nats.
# All other metrics are in train.jsonl only.
LINE_METRICS: Mapping[str, str] = {
    "wr": ".3f",
    "hold": ".1%",
    "ent": ".2f",
    "l_q": ".4g",
    "l_pi": ".4g",
    "l_v": ".4g",
    "lr_q": ".2e",
}


class Journal:
    """Writes the log of one attempt at one fold. Use as a context manager, or call `close`.

    Args:
        fold_dir: `<runs>/<run-id>/fold<k>`; made if missing.
        total_steps: the M of `N/M`, resumed steps included.
        log_every: steps between lines; the last step always has one.
        stream: where lines go besides the attempt's log, flushed after each.
        progress_file: rewritten with `N/M`; default: the environment's ARGO_PROGRESS_FILE; None there = none.
        attempt: number of this start, from 1 (`CrashCounter.start` gives it).
        clock: seconds, monotonic; replaced in tests.

    Raises:
        InputError: the directory cannot be written; also every later method, once the disk is full.
    """

    def __init__(
        self,
        fold_dir: Path,
        total_steps: int,
        log_every: int,
        stream: TextIO,
        progress_file: Path | None = None,
        attempt: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.records_path = fold_dir / RECORDS_FILE
        self.log_path = fold_dir / "logs" / f"attempt-{attempt}.log"
        self.last_step: int | None = None
        self._attempt = attempt
        self._total_steps, self._log_every, self._stream, self._clock = total_steps, log_every, stream, clock
        from_argo = os.environ.get("ARGO_PROGRESS_FILE")
        self._progress_file = progress_file or (Path(from_argo) if from_argo else None)
        self._mark_step, self._mark_s = 0, clock()
        with _on_disk(fold_dir):
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            self._log = self.log_path.open("a", encoding="utf-8")
            self._records = self.records_path.open("ab")

    def header(
        self, config: Config, code_sha: str, versions: Mapping[str, str], device: str, arch: str, seed: int
    ) -> None:
        """The first lines: what runs, from which code, on what. `arch` is `sm_NN`, or `cpu` without a GPU."""
        body = json.dumps(config.model_dump(mode="json"), separators=(",", ":"))
        self.write(f"config: preset={config.preset} digest={config.digest()} {body}")
        self.write(f"code: {code_sha}")
        self.write("versions: " + " ".join(f"{name}={version}" for name, version in versions.items()))
        self.write(f"device: {device}")
        self.write(f"GPU arch: {arch}")
        self.write(f"seed: {seed}")

    def resumed(self, step: int, path: Path | str) -> None:
        """Go on behind the checkpoint of `step`: later records of the earlier attempt are cut off exactly."""
        self.write(f"resumed from step {step} ({path}) resumed_from_step={step} attempt={self._attempt}")
        self._continue_after(step)
        self._mark_s = self._clock()  # loading took its time; the rate is of training alone

    def drain(self, records: NDArray[np.floating], names: Sequence[str], first_step: int) -> None:
        """Append the records of the steps from `first_step` on and write the lines that are due.

        The first call without `resumed` cuts off what an earlier attempt recorded from `first_step` on.

        Args:
            records: `[n, M] float32 or float64`, one row a step; nan where a metric has no value (no trade
                closed, say). Nan and infinities are null in train.jsonl.
            names: M metric names; all of `LINE_METRICS` among them.
            first_step: step of row 0, counted from 1.

        Raises:
            ValueError: shape and names differ, a metric of the line is missing, steps skipped or repeated.
        """
        self._check(records, names, first_step)
        if self.last_step is None:
            self._continue_after(first_step - 1)
        if not len(records):
            return
        with _on_disk(self.records_path):
            self._records.write(b"".join(encoded(records, names, first_step)))
            self._records.flush()
        self.last_step = first_step + len(records) - 1
        self._write_due_lines(records, names, first_step)
        self._write_progress()

    def checkpoint_saved(self, path: Path, num_bytes: int, ms: float) -> None:
        """Say that a checkpoint is on disk and verified."""
        self.write(f"checkpoint saved: {path} ({num_bytes} bytes, {ms:.0f} ms)")

    def warn(self, text: str) -> None:
        """Write a line beginning with `warning:`."""
        self.write(f"warning: {text}")

    def write(self, text: str) -> None:
        """Write one line, whatever white space `text` holds, to stream and attempt's log; flush both."""
        line = " ".join(text.split()) + "\n"
        try:
            self._stream.write(line)
            self._stream.flush()
        except (
            BrokenPipeError
        ):  # its reader is gone; what is being saved matters more, and the log has the line
            self._stream = io.StringIO()
        with _on_disk(self.log_path):
            self._log.write(line)
            self._log.flush()

    def sync(self) -> None:
        """Force records and log to disk. Call before saving a checkpoint: it must not outlive its records."""
        for file in (self._records, self._log):
            with _on_disk(self.records_path.parent):
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        """Sync and close the files; the stream stays open. Safe to call twice."""
        if self._records.closed:
            return
        with _on_disk(self.records_path.parent), self._log, self._records:
            self.sync()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self, records: NDArray[np.floating], names: Sequence[str], first_step: int) -> None:
        if records.ndim != 2 or records.shape[1] != len(names):
            raise ValueError(f"records have shape {records.shape}, names count {len(names)}")
        if missing := [name for name in LINE_METRICS if name not in names]:
            raise ValueError(f"the step line needs the metrics {missing}")
        if first_step < 1 or (self.last_step is not None and first_step != self.last_step + 1):
            raise ValueError(f"records of step {first_step} cannot follow step {self.last_step}")

    def _continue_after(self, step: int) -> None:
        with _on_disk(self.records_path):
            kept = cut_after(self.records_path, step)
        if kept < step:
            self.warn(f"{self.records_path} has no records of the steps {kept + 1} to {step}")
        self.last_step = step
        self._mark_step = step
        self._write_progress()

    def _write_due_lines(self, records: NDArray[np.floating], names: Sequence[str], first_step: int) -> None:
        steps = range(first_step, first_step + len(records))
        due = [step for step in steps if step % self._log_every == 0 or step == self._total_steps]
        if not due:
            return
        # Blocks arrive late and whole, so the rate is known for all steps since the last line together.
        now_s = self._clock()
        elapsed_s = now_s - self._mark_s
        steps_per_s = (steps[-1] - self._mark_step) / elapsed_s if elapsed_s > 0 else math.nan
        for step in due:
            values = dict(zip(names, records[step - first_step].tolist(), strict=True))
            shown = " ".join(f"{name}={values[name]:{spec}}" for name, spec in LINE_METRICS.items())
            left_s = (self._total_steps - step) / steps_per_s
            rate = f"sps={steps_per_s:.4g} eta={_duration(left_s)}"
            self.write(f"step {step}/{self._total_steps} {shown} {rate}")
        self._mark_step, self._mark_s = steps[-1], now_s

    def _write_progress(self) -> None:
        if self._progress_file is None:
            return
        try:
            self._progress_file.write_text(f"{self.last_step}/{self._total_steps}\n")
        except OSError as error:
            # Progress is only shown; training goes on without it, and says so once.
            self.warn(f"progress cannot be written to {self._progress_file} ({error.strerror})")
            self._progress_file = None


def _on_disk(path: Path) -> AbstractContextManager[None]:
    """A failing disk is one clear line: the run can go on from its last checkpoint once there is room."""
    do = "make the run directory writable, with free space, and run the same command to go on"
    return on_disk(path, "the training log cannot be written", do)


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "nan"
    minutes, rest_s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest_s:02d}s" if minutes else f"{rest_s}s"
