"""`walkforward data inspect` starts the trainer and is its exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.inspect import inspect
from tests.data import conftest as made

ROOT = Path(__file__).resolve().parents[2]


def fake(tmp_path: Path, body: str) -> tuple[str, ...]:
    """A program in the trainer's place."""
    path = tmp_path / "trainer.py"
    path.write_text(f"import json, os, signal, sys, time\n{body}\n")
    return sys.executable, str(path)


def test_options_reach_the_trainer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trainer = fake(tmp_path, "print(json.dumps(sys.argv[1:])); sys.exit(2)")
    options = {"preset": "demo", "instrument_id": 7, "folds": None, "cache_dir": Path("runs/cache")}
    code = inspect("s3://bucket/es", options, json=True, debug=False, trainer_command=trainer)
    words = ["inspect", "--preset", "demo", "--instrument-id", "7", "--cache-dir", "runs/cache", "--json"]
    assert (code, json.loads(capfd.readouterr().out)) == (2, [*words, "--", "s3://bucket/es"])


def test_a_trainer_that_was_killed_is_128_and_its_signal(tmp_path: Path) -> None:
    trainer = fake(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert inspect("x", {}, json=False, debug=False, trainer_command=trainer) == 137


@pytest.mark.parametrize("obeys", [True, False])
def test_an_interrupt_ends_the_trainer(tmp_path: Path, obeys: bool) -> None:
    trainer = fake(tmp_path, f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    program = (
        "import pipelines.inspect as i\n"
        "i.END_WAIT_S = 0.2\n"
        f"raise SystemExit(i.inspect('x', {{}}, json=False, debug=False, trainer_command={trainer!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL) as runner:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.02)
        pid = int((tmp_path / "pid").read_text())
        if obeys:
            os.kill(pid, signal.SIGINT)
            assert runner.wait(30) in (1, 130), "the trainer's own code"
        else:
            runner.send_signal(signal.SIGINT)
            assert runner.wait(30) == 75
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_damaged_file_end_to_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = made._write(tmp_path / "es.dbn", made._encode(made._records(600))[:-1])
    assert main(["data", "inspect", str(source), "--preset", "demo", "--folds", "1", "--json"]) == 2
    streams = capfd.readouterr()
    body = json.loads(streams.out)
    assert (body["usable"], body["rows"]["rows"], len(body["problems"])) == (False, 599, 1)
    assert streams.err == ""


@pytest.mark.parametrize("words", [["data"], ["data", "inspect"]])
def test_help_shows_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert "walkforward data inspect" in capsys.readouterr().out
