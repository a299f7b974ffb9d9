"""The training loop of one fold: resume, step, log, checkpoint, finish."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from trainer.data.cache import open_cache
from trainer.data.normaliser import Normaliser
from trainer.data.windows import Window
from trainer.errors import AlphaError, InputError, InterruptedRun
from trainer.learn.checkpoints import CheckpointStore, file_sha256, require_identity
from trainer.learn.compile_cache import CompileCache, kernels_of
from trainer.learn.foxc import Checkpoint, read_foxc
from trainer.learn.header import write_header
from trainer.learn.journal import Journal
from trainer.learn.learner import Learner
from trainer.learn.lock import fold_lock
from trainer.learn.markers import Marker, read_marker, write_marker
from trainer.learn.mirror import OnSaved, no_mirror
from trainer.learn.progress import CrashCounter
from trainer.learn.run import Run, fold_dir
from trainer.learn.runner import Runner, configure_device
from trainer.learn.snapshot import restore, sections
from trainer.learn.state import TrainState, initial_state
from trainer.learn.stopping import StopRequest
from trainer.learn.telemetry import METRIC_NAMES, RECORD_RING
from trainer.market.finite import require_finite
from trainer.market.lanes import defect_counts, defects_text
from trainer.market.tape import build_tape, fit_normaliser, window_labels

_log = logging.getLogger(__name__)


@dataclass
class Training:
    """One fold being trained."""

    run: Run
    directory: Path
    learner: Learner
    normaliser: Normaliser
    runner: Runner
    store: CheckpointStore
    kernels: CompileCache | None = None
    on_saved: OnSaved = no_mirror
    failed_saves: int = field(default=0)

    @property
    def state(self) -> TrainState:
        return self.runner.state

    def meta(self) -> dict[str, str]:
        """What a checkpoint must share with a run that loads it, and what made it."""
        return {
            "config_digest": self.run.config_digest,
            "data_fingerprint": self.run.data_fingerprint,
            "torch": torch.__version__,
            "code_sha": self.run.code_sha,
        }

    def save(self, journal: Journal) -> Path:
        """A verified checkpoint of the present step."""
        journal.sync()
        report = self.store.save(
            self.runner.completed, sections(self.learner, self.state, self.normaliser), self.meta()
        )
        journal.checkpoint_saved(report.path, report.num_bytes, report.elapsed_ms)
        if self.kernels is not None and (told := self.kernels.store()):
            journal.write(told)
        return report.path


def resolve_device(name: str) -> torch.device:
    """`auto` takes the GPU when there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def open_training(run: Run, index: int, directory: Path) -> Training:
    """Tape, agent and fresh state of a fold. Reads the train window's rows and nothing later."""
    config, rows = run.config, run.fold(index).train
    device = resolve_device(config.run.device)
    configure_device(device)
    cache = open_cache(run.cache_dir)
    window = Window(rows.start_row, rows.end_row, rows.start_ns, rows.end_ns)
    require_finite(cache, window, config)
    labels = window_labels(cache, window, config)
    normaliser = fit_normaliser(cache, window, labels, config)
    tape = build_tape(cache, window, normaliser, config, device, labels)
    move_sd = torch.from_numpy(normaliser.move_sd).to(device).clamp(min=1e-3)
    learner = Learner.build(config, cache.instrument, tape, move_sd)
    state = initial_state(config, learner.agent, tape)
    kernels = kernels_of(config, run.code_sha, run.cache_dir.parent, device)
    runner, store = Runner(learner, state), CheckpointStore(directory)
    return Training(run, directory, learner, normaliser, runner, store, kernels)


def train(
    run: Run,
    run_dir: Path,
    index: int,
    stream: TextIO,
    resume_from: Path | None = None,
    on_saved: OnSaved = no_mirror,
) -> Marker:
    """Trains fold `index` to `run.config.run.n_steps` completed steps and leaves its marker.

    Finished folds return at once. The newest valid checkpoint is found by itself; `resume_from` forces one.
    `on_saved` is called after each checkpoint but the last; what it raises ends the training. Raises
    InterruptedRun (75) after saving on SIGTERM, MismatchError (78), CrashedTooOftenError (70) and InputError.
    """
    directory, steps = fold_dir(run_dir, index), run.config.run.n_steps
    done = read_marker(directory, "train")
    if done is not None and resume_from is None and done.matches(_expected(run, index, steps)):
        stream.write(f"already trained: {done.steps} steps ({done.checkpoint})\n")
        return done
    with fold_lock(directory):
        found = _find_checkpoint(run, CheckpointStore(directory), resume_from)
        with _counted(CrashCounter(directory), found.step if found else 0) as attempt:
            training = open_training(run, index, directory)
            training.on_saved = on_saved
            path = _attempt(training, attempt, found, stream)
            marker = Marker(
                **_expected(run, index, steps), checkpoint=path.name, checkpoint_sha256=file_sha256(path)
            )
            write_marker(directory, marker)
    return marker


@contextmanager
def _counted(crashes: CrashCounter, step: int) -> Iterator[int]:
    """Counts the block as a crash behind `step` unless it ends, or ends with an error meant for a person."""
    attempt = crashes.start(step)
    try:
        yield attempt
    except AlphaError:
        with suppress(AlphaError):  # on a full disk the error at hand says more than this one would
            crashes.finish()
        raise
    crashes.finish()


def _attempt(training: Training, attempt: int, found: Checkpoint | None, stream: TextIO) -> Path:
    """One start of a fold: resumes, steps to the end or a signal, saves. Returns the last checkpoint."""
    run = training.run.config.run
    with Journal(training.directory, run.n_steps, run.log_every, stream, attempt=attempt) as journal:
        write_header(journal, training.run.config, training.run.code_sha, training.learner.tape)
        if found is not None:
            _resume(training, found, journal)
        if training.kernels is not None and (told := training.kernels.restore()):
            journal.write(told)
        with StopRequest().installed() as stop:
            _train_steps(training, run.n_steps, journal, stop)
            path = training.save(journal)
        if found_defects := defects_text(defect_counts(training.state.lanes.defects)):
            journal.warn(f"market defects of all lanes so far: {found_defects}")
        if stop.signum is not None and training.runner.completed < run.n_steps:
            reached = f"step {training.runner.completed}/{run.n_steps}"
            raise InterruptedRun(
                f"stopped by signal {stop.signum} at {reached}, all saved",
                where=str(path), do="run the same command to go on",
            )  # fmt: skip
    return path


def _expected(run: Run, index: int, steps: int) -> dict[str, Any]:
    """What the train marker of this very training says; also what its skip is decided by."""
    return {
        "stage": "train", "fold": index, "config_digest": run.config_digest,
        "data_fingerprint": run.data_fingerprint, "steps": steps,
    }  # fmt: skip


def _find_checkpoint(run: Run, store: CheckpointStore, resume_from: Path | None) -> Checkpoint | None:
    if resume_from is not None:
        found = read_foxc(resume_from)
    else:
        newest = store.newest_valid()
        if newest is None:
            return None
        found = newest[1]
    require_identity(found, config_digest=run.config_digest, data_fingerprint=run.data_fingerprint)
    if found.step > run.config.run.n_steps:
        raise InputError(
            f"has {found.step} steps, more than the {run.config.run.n_steps} asked for",
            where=str(found.path), do=f"give --n-steps {found.step} or more, or another run id",
        )  # fmt: skip
    return found


def _resume(training: Training, checkpoint: Checkpoint, journal: Journal) -> None:
    restore(checkpoint, training.learner, training.state)
    training.runner.completed = checkpoint.step
    journal.resumed(checkpoint.step, checkpoint.path)


def _train_steps(training: Training, steps: int, journal: Journal, stop: StopRequest) -> None:
    run, runner = training.run.config.run, training.runner
    drained = runner.completed
    while runner.completed < steps and stop.signum is None:
        runner.advance()
        now = runner.completed
        save_due = run.checkpoint_every > 0 and now % run.checkpoint_every == 0 and now < steps
        if save_due or now % run.log_every == 0 or now - drained == RECORD_RING or now == steps:
            drained = _drain(training, journal, drained)
        if save_due:
            try:
                training.save(journal)
            except AlphaError as error:  # a failed periodic save must not stop training: the last two stay
                training.failed_saves += 1
                journal.warn(f"checkpoint {training.failed_saves} not saved: {error}")
            else:
                training.on_saved()
    _drain(training, journal, drained)


def _drain(training: Training, journal: Journal, drained: int) -> int:
    """Copies the records of steps `drained + 1 .. completed` from the device ring to the journal.

    Warns of updates among them that were skipped because their gradient was not finite.
    """
    now = training.runner.completed
    if now > drained:
        records = training.state.records.cpu().numpy()[np.arange(drained, now) % RECORD_RING]
        journal.drain(records, METRIC_NAMES, drained + 1)
        if skipped := int(np.sum(~np.isfinite(records[:, METRIC_NAMES.index("grad_norm")]))):
            journal.warn(f"{skipped} of the last {now - drained} updates skipped: gradient not finite")
    return now
