"""The training loop: exact resume however a run ended, refusals, failed saves, crash counting, locking."""

import io
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from trainer.errors import CrashedTooOftenError, ExitCode, InputError, InterruptedRun, MismatchError
from trainer.learn import loop
from trainer.learn.checkpoints import CheckpointStore, file_sha256
from trainer.learn.foxc import read_foxc
from trainer.learn.lock import fold_lock
from trainer.learn.loop import train
from trainer.learn.markers import read_marker
from trainer.learn.run import Run, fold_dir
from trainer.market import DEFECTS

Trained = tuple[Run, Path]
FULL, HALF = 200, 100


def differing(one: Path, other: Path) -> list[str]:
    """Names of the sections in which two checkpoints differ; [] only if the files are equal byte for byte."""
    if one.read_bytes() == other.read_bytes():
        return []
    a, b = read_foxc(one).arrays, read_foxc(other).arrays
    names = [n for n in a.keys() | b.keys() if n not in a or n not in b or a[n].tobytes() != b[n].tobytes()]
    return names or ["meta or order"]


def records(run_dir: Path, steps: int) -> list[bytes]:
    """The lines of the first `steps` steps."""
    return (fold_dir(run_dir, 0) / "train.jsonl").read_bytes().splitlines(keepends=True)[:steps]


def quick(run: Run, steps: int, every: int = 0) -> Run:
    return run.with_run_options({"n_steps": steps, "checkpoint_every": every, "log_every": 1})


@pytest.fixture
def fresh(tiny_run: Trained, tmp_path: Path) -> Trained:
    """A prepared run without any training."""
    shutil.copytree(tiny_run[1], tmp_path / "fresh")
    return tiny_run[0], tmp_path / "fresh"


def test_100_steps_and_100_resumed_ones_equal_200_bit_for_bit(trained: Trained, stopped: Trained) -> None:
    stream = io.StringIO()
    marker = train(*stopped, 0, stream)
    final = fold_dir(trained[1], 0) / f"checkpoint-{FULL}.bin"
    assert differing(fold_dir(stopped[1], 0) / final.name, final) == []
    assert records(stopped[1], FULL + 1) == records(trained[1], FULL + 1)
    assert len(records(stopped[1], FULL + 1)) == FULL
    assert f"resumed from step {HALF} (" in stream.getvalue()
    assert marker == read_marker(fold_dir(trained[1], 0), "train")


def start(run_dir: Path, steps: int, every: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trainer", "train", "--run-dir", str(run_dir), "--fold-idx", "0"]
    command += ["--n-steps", str(steps), "--checkpoint-every", str(every), "--log-every", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=REPOSITORY, env=environment)


@pytest.mark.parametrize(
    ("signum", "code", "after"),
    [(signal.SIGTERM, 75, "step 7/"), (signal.SIGKILL, -9, "checkpoint saved")],
    ids=["SIGTERM", "kill -9"],
)
def test_a_killed_run_resumes_to_the_bits_of_a_whole_one(
    fresh: Trained, trained: Trained, signum: signal.Signals, code: int, after: str
) -> None:
    run, run_dir = fresh
    process = start(run_dir, 5000, every=12)
    assert process.stdout is not None
    next(line for line in process.stdout if line.startswith(after))
    process.send_signal(signum)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    left = CheckpointStore(fold_dir(run_dir, 0)).newest_valid()
    assert left is not None
    if signum == signal.SIGTERM:
        said = f"stopped by signal 15 at step {left[1].step}/5000, all saved; run the same command to go on"
        assert errors.splitlines() == [f"error: {left[0]}: {said}"]
    assert 7 <= left[1].step < HALF
    stream = io.StringIO()
    train(quick(run, HALF), run_dir, 0, stream)
    assert f"resumed from step {left[1].step}" in stream.getvalue()
    name = f"checkpoint-{HALF}.bin"
    assert differing(fold_dir(run_dir, 0) / name, fold_dir(trained[1], 0) / name) == []
    assert records(run_dir, HALF + 1) == records(trained[1], HALF)


def test_a_signal_stops_between_two_steps_and_saves(fresh: Trained) -> None:
    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("step 3/"):
                os.kill(os.getpid(), signal.SIGTERM)
            return super().write(text)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(InterruptedRun, match="at step 3/9, all saved") as caught:
        train(quick(fresh[0], 9), fresh[1], 0, Stream())
    assert caught.value.exit_code is ExitCode.INTERRUPTED
    assert CheckpointStore(fold_dir(fresh[1], 0)).steps() == [3]
    assert read_marker(fold_dir(fresh[1], 0), "train") is None
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_finished_fold_returns_at_once(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(loop, "open_training")
    stream = io.StringIO()
    marker = train(*trained, 0, stream)
    assert marker.checkpoint == f"checkpoint-{FULL}.bin"
    assert stream.getvalue() == f"already trained: {FULL} steps (checkpoint-{FULL}.bin)\n"


def test_more_steps_under_the_same_run_go_on_and_name_the_new_checkpoint(fresh: Trained) -> None:
    run, run_dir = fresh
    train(quick(run, 4), run_dir, 0, io.StringIO())
    stream = io.StringIO()
    marker = train(quick(run, 6), run_dir, 0, stream)
    assert "resumed from step 4 (" in stream.getvalue()
    path = fold_dir(run_dir, 0) / "checkpoint-6.bin"
    assert (marker.steps, marker.checkpoint, marker.checkpoint_sha256) == (6, path.name, file_sha256(path))


def test_fewer_steps_than_were_trained_are_refused(trained_copy: Trained) -> None:
    with pytest.raises(InputError, match=r"checkpoint-200\.bin: has 200 steps, more than the 50 asked for"):
        train(quick(trained_copy[0], 50), trained_copy[1], 0, io.StringIO())


def test_a_checkpoint_of_another_configuration_or_data_is_refused(fresh: Trained, trained: Trained) -> None:
    path = fold_dir(trained[1], 0) / f"checkpoint-{HALF}.bin"
    for field, label in (("config_digest", "config digest"), ("data_fingerprint", "data fingerprint")):
        other = fresh[0].model_copy(update={field: "0123456789abcdef"})
        with pytest.raises(MismatchError, match=f"{label} is .*, this run's is 0123456789abcdef") as caught:
            train(other, fresh[1], 0, io.StringIO(), resume_from=path)
        assert caught.value.exit_code is ExitCode.MISMATCH


def test_resume_from_takes_the_same_runs_checkpoint_of_another_directory(
    fresh: Trained, trained: Trained
) -> None:
    stream, source = io.StringIO(), fold_dir(trained[1], 0) / f"checkpoint-{HALF}.bin"
    train(quick(fresh[0], HALF + 1), fresh[1], 0, stream, resume_from=source)
    assert f"resumed from step {HALF} ({source})" in stream.getvalue()
    assert "has no records of the steps 1 to 100" in stream.getvalue()
    assert records(fresh[1], 9) == records(trained[1], FULL)[HALF : HALF + 1]


def test_a_broken_newest_checkpoint_is_skipped_with_a_warning(
    trained_copy: Trained, caplog: pytest.LogCaptureFixture
) -> None:
    run, run_dir = trained_copy
    newest = fold_dir(run_dir, 0) / f"checkpoint-{FULL}.bin"
    newest.write_bytes(newest.read_bytes()[:-7])
    stream = io.StringIO()
    with caplog.at_level(logging.WARNING):
        train(quick(run, HALF + 1), run_dir, 0, stream)
    assert f"broken checkpoint skipped: {newest}" in caplog.text
    assert f"resumed from step {HALF} (" in stream.getvalue()


def failing_save(monkeypatch: pytest.MonkeyPatch, fails: Callable[[int], bool]) -> None:
    whole = CheckpointStore.save

    def save(self: CheckpointStore, step: int, *rest: Any) -> Any:
        if fails(step):
            raise InputError("cannot write: No space left on device", where=str(self.path(step)))
        return whole(self, step, *rest)

    monkeypatch.setattr(CheckpointStore, "save", save)


def test_a_failed_periodic_save_warns_and_training_goes_on(
    fresh: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_save(monkeypatch, lambda step: step in (1, 3))
    stream = io.StringIO()
    marker = train(quick(fresh[0], 4, every=1), fresh[1], 0, stream)
    warnings = [line for line in stream.getvalue().splitlines() if line.startswith("warning:")]
    assert [w[9:31] for w in warnings] == ["checkpoint 1 not saved", "checkpoint 2 not saved"]
    assert all("No space left on device" in warning for warning in warnings)
    assert CheckpointStore(fold_dir(fresh[1], 0)).steps() == [4, 2]
    assert marker.steps == 4


def test_defects_of_the_replay_are_warned_of_by_name(fresh: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = loop._train_steps

    def with_defect(training: loop.Training, *rest: Any) -> None:
        training.state.lanes.defects[0, DEFECTS.index("clamped_exits")] += 7
        steps(training, *rest)

    monkeypatch.setattr(loop, "_train_steps", with_defect)
    stream = io.StringIO()
    train(quick(fresh[0], 1), fresh[1], 0, stream)
    (warning,) = [line for line in stream.getvalue().splitlines() if line.startswith("warning:")]
    assert "7 clamped_exits" in warning


def test_a_failed_final_save_is_an_error_and_no_crash(
    fresh: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_save(monkeypatch, lambda step: step == 2)
    for _ in range(4):  # a full disk is for a person to mend, and must not use up the tries
        with pytest.raises(InputError, match="No space left on device"):
            train(quick(fresh[0], 2), fresh[1], 0, io.StringIO())
    assert read_marker(fold_dir(fresh[1], 0), "train") is None


@pytest.mark.parametrize("where", ["open_training", "_train_steps"])
def test_the_fourth_start_after_three_crashes_at_one_place_is_refused(
    fresh: Trained, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(loop, where, crash)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="out of memory"):
            train(quick(fresh[0], 2), fresh[1], 0, io.StringIO())
    with pytest.raises(CrashedTooOftenError, match="3 crashes in a row behind step 0") as caught:
        train(quick(fresh[0], 2), fresh[1], 0, io.StringIO())
    assert caught.value.exit_code is ExitCode.CRASHED_TOO_OFTEN


def test_two_processes_never_train_one_fold(fresh: Trained) -> None:
    directory = fold_dir(fresh[1], 0)
    with (
        fold_lock(directory),
        pytest.raises(
            InputError, match=rf"fold0: another process works in this fold \(process {os.getpid()}\)"
        ),
    ):
        train(quick(fresh[0], 2), fresh[1], 0, io.StringIO())
    assert train(quick(fresh[0], 1), fresh[1], 0, io.StringIO()).steps == 1


def test_an_unusable_fold_directory_is_one_line(tiny_run: Trained, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("a file where the run directory should be")
    with pytest.raises(InputError, match="Not a directory"):
        train(quick(tiny_run[0], 1), tmp_path / "run.json", 0, io.StringIO())
