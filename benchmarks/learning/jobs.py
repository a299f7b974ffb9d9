"""Works a list of experiments off, in this process or in several; each leaves its result file.

A process takes the next experiment when it is done with one. Experiments of one configuration run one after
the other in a process share its compiled step.
"""

import itertools
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.learning.experiment import Experiment
from benchmarks.learning.progress import Progress
from benchmarks.learning.result import finished, write_result
from trainer.errors import AlphaError, ExitCode, InputError, InterruptedRun
from trainer.parent import PARENT_VARIABLE, stop_with_parent


@dataclass(frozen=True)
class Plan:
    """What to run and where: results in `out`, run directories and caches in `work`."""

    experiments: tuple[Experiment, ...]
    out: Path
    work: Path
    quiet: bool = False
    stop_at: float | None = None  # of time.time(); no experiment is begun later


def carry_out(plan: Plan, jobs: int = 1) -> ExitCode:
    """Runs what is not finished, `jobs` processes at a time.

    DONE when every result is there; INTERRUPTED when the time was up before, or a signal came: the same call
    goes on. Raises AlphaError of an experiment; of several processes each says its own, and the code returned
    is the first bad one.
    """
    # Read before anything runs: a name that is taken by another configuration is said at once.
    left = tuple(e for e in plan.experiments if finished(plan.out, e) is None)
    if not left:
        return ExitCode.DONE
    todo = Plan(left, plan.out, plan.work, plan.quiet, plan.stop_at)
    with interruptible():
        if min(jobs, len(left)) > 1:
            return _in_processes(todo, min(jobs, len(left)))
        return _work_off(todo, itertools.count().__next__)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGINT raise InterruptedRun inside the block, but in training, which saves first."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        raise InterruptedRun(f"stopped by signal {signum}", do="run the same command to go on")

    old = {s: signal.signal(s, on_signal) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)


def _work_off(plan: Plan, claim: Callable[[], int]) -> ExitCode:
    """Runs the experiments whose index `claim()` gives, until there are no more of them or no more time."""
    from benchmarks.learning.run import measure  # loads torch, which the process that only waits needs not

    # What warnings say of the replay's defects is in the results as well.
    logging.basicConfig(level=logging.ERROR if plan.quiet else logging.WARNING, format="warning: %(message)s")
    while (index := claim()) < len(plan.experiments):
        if plan.stop_at is not None and time.time() >= plan.stop_at:
            return ExitCode.INTERRUPTED
        experiment = plan.experiments[index]
        progress = Progress(experiment.name, experiment.config.run.n_steps, quiet=plan.quiet)
        begin = time.perf_counter()
        result = measure(experiment, plan.work, progress)
        path = write_result(plan.out, experiment, result)
        progress.say(f"{result.verdict.outcome} after {time.perf_counter() - begin:.0f} s ({path})")
    return ExitCode.DONE


def _in_processes(plan: Plan, jobs: int) -> ExitCode:
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    counter = context.Value("i", 0)
    workers = [context.Process(target=_worker, args=(plan, counter)) for _ in range(jobs)]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    except BaseException:  # asked to stop: the workers save before they end
        started = [worker for worker in workers if worker.pid is not None]
        for worker in started:
            worker.terminate()
        for worker in started:
            worker.join()
        raise
    return next((code for code in map(_exit_code, workers) if code is not ExitCode.DONE), ExitCode.DONE)


def _exit_code(worker: Any) -> ExitCode:
    try:
        return ExitCode(worker.exitcode)
    except ValueError:  # a traceback or a signal of its own, such as that of a machine out of memory
        sys.stderr.write(f"error: a process ended with {worker.exitcode}; run the same command to go on\n")
        return ExitCode.CRASHED_TOO_OFTEN


def say_error(error: AlphaError | OSError) -> ExitCode:
    """One line on stderr; returns the exit code. An OSError is one that no layer below expected."""
    if isinstance(error, OSError):
        error = InputError(error.strerror or str(error), where=str(error.filename or "system"))
    sys.stderr.write(f"error: {error}\n")
    return error.exit_code


def _worker(plan: Plan, counter: Any) -> None:
    """What a process of its own does; its exit code says how it ended."""

    def claim() -> int:
        with counter.get_lock():
            counter.value += 1
            return int(counter.value) - 1

    os.environ[PARENT_VARIABLE] = str(os.getppid())
    stop_with_parent()
    try:
        with interruptible():
            code = _work_off(plan, claim)
    except (AlphaError, OSError) as error:
        code = say_error(error)
    sys.exit(int(code))
