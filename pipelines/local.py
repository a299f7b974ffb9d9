"""Runs the plan on this machine: the same commands, order, exit codes and retries as in the cluster.

Stages are child processes of the trainer. A failed fold does not stop the others, and the gate then reports
it as missing. `trainer_command` is the seam where a test puts another program in the trainer's place.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.identity import REPOSITORY
from pipelines.markers import is_done
from pipelines.plan import EVALUATE, FOLD_STAGES, GATE, PREPARE, Stage
from pipelines.progress import Display
from trainer.errors import ExitCode
from trainer.parent import PARENT_VARIABLE

# One core a trainer: results depend on the number of threads (SYSTEM.md 9), and folds run side by side.
CHILD_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
LINE_LIMIT_BYTES = 1 << 20
TRAINER_COMMAND = (sys.executable, "-m", "trainer")


@dataclass(frozen=True)
class LocalRun:
    """What to run: directory, option values by name, folds, training steps of a fold, and how.

    pause_scale multiplies the plan's pauses between attempts: here no scheduler has to recover in between.
    """

    run_dir: Path
    values: Mapping[str, str]
    folds: int
    n_steps: int
    fold_idx: int | None = None
    jobs: int = 1
    json: bool = False
    lock_fd: int | None = None
    trainer_command: tuple[str, ...] = TRAINER_COMMAND
    grace_s: float = 120.0
    pause_scale: float = 0.1


@dataclass
class Attempt:
    """How one child ended: shell-style exit code (128 + signal), last error line, lines of stdout."""

    code: int
    error: str = ""
    stdout: list[str] = field(default_factory=list)


class LocalRunner:
    """One execution of the plan. `result` holds the gate's stdout afterwards."""

    def __init__(self, run: LocalRun, display: Display) -> None:
        self.run, self.display = run, display
        self.result: list[str] = []
        self.children: set[asyncio.subprocess.Process] = set()
        self.stopping = asyncio.Event()

    async def execute(self) -> int:
        """Run everything; returns the exit code: the gate's, or prepare's when prepare failed.

        With one fold only there is no verdict: that fold's code. After SIGINT or SIGTERM: 75.
        """
        with self._signals():
            code = await self._plan()
        return int(ExitCode.INTERRUPTED) if self.stopping.is_set() else code

    async def _plan(self) -> int:
        (self.run.run_dir / "logs").mkdir(parents=True, exist_ok=True)
        prepared = await self._stage(PREPARE, None)
        if prepared.code != ExitCode.DONE:
            # No gate: what it would find in the directory belongs to another config or an earlier run.
            return prepared.code
        wanted = range(self.run.folds) if self.run.fold_idx is None else [self.run.fold_idx]
        slots = asyncio.Semaphore(self.run.jobs)
        codes = await asyncio.gather(*(self._fold(fold_idx, slots) for fold_idx in wanted))
        if self.run.fold_idx is not None:
            return max(codes)
        if self.stopping.is_set():
            return int(ExitCode.INTERRUPTED)
        gated = await self._stage(GATE, None)
        self.result = gated.stdout
        return gated.code

    async def _fold(self, fold_idx: int, slots: asyncio.Semaphore) -> int:
        async with slots:
            for stage in FOLD_STAGES:
                # With a mirror only the trainer can say whether it has what is done here.
                alone = "mirror" not in self.run.values
                if alone and is_done(self.run.run_dir, stage, fold_idx, self.run.n_steps):
                    self.display.ended(stage.label(fold_idx), "done: in an earlier run")
                    continue
                attempt = await self._stage(stage, fold_idx)
                if attempt.code != ExitCode.DONE:
                    if stage is not EVALUATE and not self.stopping.is_set():
                        self.display.ended(EVALUATE.label(fold_idx), f"omitted: {stage.name} failed")
                    return attempt.code
        return int(ExitCode.DONE)

    async def _stage(self, stage: Stage, fold_idx: int | None) -> Attempt:
        label, attempts, crashes = stage.label(fold_idx), 0, 0
        while True:
            if self.stopping.is_set():
                return Attempt(int(ExitCode.INTERRUPTED), "stopped before it began")
            self.display.started(label)
            attempt = await self._attempt(stage, fold_idx)
            attempts, crashes = attempts + 1, crashes + (attempt.code == 1)
            if attempt.code == ExitCode.DONE or _is_verdict(stage, attempt.code):
                self.display.ended(label, "done")
                return attempt
            failure = f"failed (exit {attempt.code})" + (f": {attempt.error}" if attempt.error else "")
            if self.stopping.is_set():
                self.display.ended(label, failure.replace("failed", "interrupted", 1))
                return attempt
            if not stage.retry.allows(attempt.code, attempts, crashes):
                self.display.ended(label, failure)
                return attempt
            pause_s = stage.retry.pause_s(attempts) * self.run.pause_scale
            self.display.note(label, f"{failure}; attempt {attempts + 1} follows in {pause_s:.0f} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), timeout=pause_s)

    async def _attempt(self, stage: Stage, fold_idx: int | None) -> Attempt:
        own = {"run-dir": str(self.run.run_dir)} | ({} if fold_idx is None else {"fold-idx": str(fold_idx)})
        command = [*self.run.trainer_command, *stage.argv({**self.run.values, **own})]
        if stage is GATE and self.run.json:
            command.append("--json")
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT_BYTES,
            env=_child_environment(),
            pass_fds=() if self.run.lock_fd is None else (self.run.lock_fd,),
            # Its own group: Ctrl-C reaches the runner alone, which forwards one signal and not two.
            start_new_session=True,
        )
        self.children.add(child)
        if self.stopping.is_set():  # the signal came while the child was being made
            self._signal_children(signal.SIGTERM)
        try:
            return await self._follow(stage, stage.label(fold_idx), child)
        finally:
            self.children.discard(child)
            if child.returncode is None:  # an error of the runner itself: leave no orphan
                child.kill()
                await child.wait()

    async def _follow(self, stage: Stage, label: str, child: asyncio.subprocess.Process) -> Attempt:
        attempt = Attempt(code=0)
        assert child.stdout is not None
        assert child.stderr is not None
        log_path = self.run.run_dir / "logs" / f"{label.replace(' ', '-')}.log"
        with log_path.open("a", encoding="utf-8") as log:

            async def drain(stream: asyncio.StreamReader, is_stdout: bool) -> None:
                async for raw in stream:
                    text = raw.decode(errors="replace").rstrip()
                    log.write(text + "\n")
                    log.flush()
                    if is_stdout:
                        attempt.stdout.append(text)
                    elif text:
                        attempt.error = text.removeprefix("error: ")
                    # The gate's stdout is the run's result; an error stands in the line that ends the stage.
                    result = is_stdout and stage is GATE
                    error = not is_stdout and text.startswith("error: ")
                    if not (result or error):
                        self.display.line(label, text)

            await asyncio.gather(drain(child.stdout, True), drain(child.stderr, False))
            code = await child.wait()
        attempt.code = code if code >= 0 else 128 - code
        return attempt

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        """First signal: forward SIGTERM and wait for the children to save. Second, or too long: kill."""
        again = self.stopping.is_set()
        self.stopping.set()
        if again:
            self._kill()
            return
        self.display.note("walkforward", "stopping: waiting for the stages to save (again to kill)")
        self._signal_children(signal.SIGTERM)
        asyncio.get_running_loop().call_later(self.run.grace_s, self._kill)

    def _kill(self) -> None:
        self._signal_children(signal.SIGKILL)

    def _signal_children(self, number: signal.Signals) -> None:
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself a moment ago
                child.send_signal(number)


def _is_verdict(stage: Stage, code: int) -> bool:
    return stage is GATE and code in (ExitCode.REJECTED, ExitCode.INCONCLUSIVE)


def _child_environment() -> dict[str, str]:
    environment = {**os.environ, **CHILD_ENVIRONMENT, PARENT_VARIABLE: str(os.getpid())}
    paths = [str(REPOSITORY), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
