"""The local runner against a trainer that only plays its part (fake_trainer.py)."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.commands.run import Run
from pipelines.launch import launch
from pipelines.lock import run_lock
from trainer.errors import InputError

FAKE = Path(__file__).with_name("fake_trainer.py")
REPOSITORY = FAKE.parents[2]


class Launched:
    """One finished launch: exit code, streams and the calls that the fake trainer saw."""

    def __init__(self, run_dir: Path, **options: Any) -> None:
        stdout, stderr = io.StringIO(), io.StringIO()
        given: dict[str, Any] = {"preset": "demo", "runs": run_dir.parent, "run_id": run_dir.name, **options}
        self.code = launch(Run(**given), stdout, stderr, (sys.executable, "-S", str(FAKE)))
        self.out, self.err = stdout.getvalue(), stderr.getvalue()


def begun(run_dir: Path) -> list[str]:
    return [line.split()[2] for line in (run_dir / "calls.txt").read_text().splitlines() if " begin " in line]


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # No waiting between attempts; the pause itself is tested with the plan.
    monkeypatch.setattr("pipelines.plan.RetryRule.pause_s", lambda self, attempts: 0.0)
    return tmp_path / "run"


def codes(monkeypatch: pytest.MonkeyPatch, **planned: list[int]) -> None:
    monkeypatch.setenv("FAKE_CODES", json.dumps(planned))


def test_success_runs_every_stage_once_in_order(run_dir: Path) -> None:
    done = Launched(run_dir, folds=2)
    assert done.code == 0, done.err
    assert begun(run_dir) == ["prepare", "train0", "evaluate0", "train1", "evaluate1", "gate"]
    assert done.out == f"verdict: pass, missing folds []\nsummary: {run_dir / 'summary.json'}\n"
    assert "fold0 train | step 25000/25000 wr=0.561" in done.err
    assert "wr=0.561" in (run_dir / "logs" / "fold0-train.log").read_text()


def test_json_prints_the_verdict_alone(run_dir: Path) -> None:
    done = Launched(run_dir, folds=1, json=True)
    assert json.loads(done.out) == {"outcome": "pass", "missing": []}


def test_a_second_run_trains_nothing_again(run_dir: Path) -> None:
    Launched(run_dir, folds=2, n_steps=100)
    again = Launched(run_dir, folds=2, n_steps=100)
    assert again.code == 0
    assert begun(run_dir)[6:] == ["prepare", "gate"]
    assert "fold1 evaluate | done: in an earlier run" in again.err


def test_with_a_mirror_finished_stages_are_asked_again_as_it_may_lack_them(run_dir: Path) -> None:
    Launched(run_dir, folds=1)
    again = Launched(run_dir, folds=1, mirror="s3://bucket/runs")
    assert again.code == 0, again.err
    assert begun(run_dir)[4:] == ["prepare", "train0", "evaluate0", "gate"]
    calls = [line for line in (run_dir / "calls.txt").read_text().splitlines() if " begin " in line]
    assert [" --mirror s3://bucket/runs" in call for call in calls] == [False] * 4 + [True] * 4


def test_a_longer_run_under_the_same_id_trains_again(run_dir: Path) -> None:
    Launched(run_dir, folds=1, n_steps=100)
    Launched(run_dir, folds=1, n_steps=200)
    assert begun(run_dir)[4:] == ["prepare", "train0", "evaluate0", "gate"]


def test_a_lost_checkpoint_is_trained_again(run_dir: Path) -> None:
    Launched(run_dir, folds=1, n_steps=100)
    (run_dir / "fold0" / "checkpoint.bin").unlink()
    Launched(run_dir, folds=1, n_steps=100)
    # The same checkpoint comes out, bit for bit, so its evaluation stands.
    assert begun(run_dir)[4:] == ["prepare", "train0", "gate"]


def test_a_failed_fold_is_reported_by_the_gate_and_stops_no_other(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes(monkeypatch, train1=[2])
    done = Launched(run_dir, folds=3)
    assert done.code == 3
    assert "missing folds [1]" in done.out
    assert "fold1 train | failed (exit 2): train1: planned failure 2" in done.err
    assert "fold1 evaluate | omitted: train failed" in done.err
    assert begun(run_dir) == ["prepare", "train0", "evaluate0", "train1", "train2", "evaluate2", "gate"]


@pytest.mark.parametrize("code", [75, 137, 143, -signal.SIGKILL, -signal.SIGTERM])
def test_preempted_attempts_are_repeated(run_dir: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    codes(monkeypatch, train0=[code, code, 0])
    done = Launched(run_dir, folds=1)
    assert done.code == 0, done.err
    assert begun(run_dir).count("train0") == 3
    assert f"failed (exit {code if code > 0 else 128 - code})" in done.err


@pytest.mark.parametrize("code", [2, 3, 4, 70, 78])
def test_final_codes_are_not_repeated(run_dir: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    codes(monkeypatch, train0=[code])
    assert Launched(run_dir, folds=1).code == 3
    assert begun(run_dir).count("train0") == 1


def test_preemptions_end_at_the_limit(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes(monkeypatch, train0=[75])
    assert Launched(run_dir, folds=1).code == 3
    assert begun(run_dir).count("train0") == 11


def test_a_crash_is_repeated_twice(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes(monkeypatch, train0=[1])
    assert Launched(run_dir, folds=1).code == 3
    assert begun(run_dir).count("train0") == 3


def test_a_refused_config_passes_through_and_nothing_is_judged(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Launched(run_dir, folds=1)
    codes(monkeypatch, prepare=[78])
    refused = Launched(run_dir, folds=1, seed=5)
    assert refused.code == 78
    assert refused.out == ""
    assert begun(run_dir)[4:] == ["prepare"]


@pytest.mark.parametrize("code", [3, 4])
def test_the_gates_code_is_the_exit_code(run_dir: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    codes(monkeypatch, gate=[code])
    done = Launched(run_dir, folds=1)
    assert done.code == code
    assert begun(run_dir).count("gate") == 1


def test_one_fold_only_has_no_verdict(run_dir: Path) -> None:
    done = Launched(run_dir, folds=3, fold_idx=1)
    assert done.code == 0
    assert begun(run_dir) == ["prepare", "train1", "evaluate1"]
    assert done.out == ""


def test_two_jobs_train_two_folds_at_the_same_time(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_SECONDS", "0.4")
    assert Launched(run_dir, folds=2, jobs=2).code == 0
    times = {}
    for line in (run_dir / "calls.txt").read_text().splitlines():
        at, what, key = line.split()[:3]
        times[what, key] = float(at)
    assert times["begin", "train1"] < times["end", "train0"]
    assert times["begin", "train0"] < times["end", "train1"]


def test_a_second_runner_on_the_directory_is_refused_with_one_line(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.launch.LOCK_WAIT_S", 0.2)
    with run_lock(run_dir), pytest.raises(InputError) as refused:
        Launched(run_dir, folds=1)
    assert f"another run is writing here (process {os.getpid()})" in str(refused.value)
    assert Launched(run_dir, folds=1).code == 0  # free again


@contextmanager
def started(run_dir: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The runner as a process of its own, because it installs signal handlers; ended at the latest here."""
    code = (
        "import sys; from pathlib import Path; from pipelines.launch import Run, launch\n"
        f"options = Run(preset='demo', folds=2, jobs=2, runs=Path({str(run_dir.parent)!r}),"
        f" run_id={run_dir.name!r})\n"
        f"sys.exit(launch(options, sys.stdout, sys.stderr, (sys.executable, '-S', {str(FAKE)!r})))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as runner:
        try:
            yield runner
        finally:
            runner.kill()


def wait_for(path: Path, runner: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + 30
    while not path.exists():
        assert runner.poll() is None, f"the runner ended: {runner.communicate()[1]}"
        assert time.monotonic() < deadline_s, f"{path} never appeared"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_stages_which_save(tmp_path: Path, number: signal.Signals) -> None:
    run_dir = tmp_path / "run"
    with started(run_dir, FAKE_WAIT="train") as runner:
        for fold in range(2):
            wait_for(run_dir / f"waiting-train{fold}", runner)
        runner.send_signal(number)
        out, err = runner.communicate(timeout=20)
    assert runner.returncode == 75, err
    assert (run_dir / "saved-train0").exists()
    assert (run_dir / "saved-train1").exists()
    assert out == ""
    assert "fold0 train | interrupted (exit 75): interrupted: saved" in err
    assert sorted(begun(run_dir)) == ["prepare", "train0", "train1"]  # nothing began after the signal


def test_orphans_of_a_killed_runner_keep_the_lock(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    with started(run_dir, FAKE_WAIT="train") as runner:
        wait_for(run_dir / "waiting-train0", runner)
        runner.kill()
    try:
        with pytest.raises(InputError, match="another run is writing here"), run_lock(run_dir):
            pass
    finally:
        stop_orphans(run_dir)


def stop_orphans(run_dir: Path) -> None:
    """End the fake trainers of this run directory, found by their own command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if str(FAKE) in words and str(run_dir) in words:
                os.kill(int(entry.name), signal.SIGTERM)
