"""`python -m trainer inspect`: streams, exit codes, progress."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data import conftest as made
from trainer.cli import main
from trainer.data.inspection import command
from trainer.data.inspection.command import inspect_command
from trainer.errors import InputError
from trainer.presets import default

ROOT = Path(__file__).resolve().parents[3]
FEW = ["--preset", "demo", "--folds", "1"]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return made._write(tmp_path / "es.dbn.zst", made._encode(made._records(600)))


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return made._write(tmp_path / "bad.dbn", made._encode(made._records(600))[:-100])


def test_usable_data_is_exit_code_0_and_stdout_alone(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(good), *FEW]) == 0
    streams = capsys.readouterr()
    assert streams.out.startswith("✓ prepare takes this data\n")
    assert streams.err == ""


def test_unusable_data_is_exit_code_2_with_the_report(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bad), *FEW]) == 2
    streams = capsys.readouterr()
    said = "the file ends inside a record: 268 of 368 bytes; download it again"
    assert f"✗ error: {bad} @ 220632: {said}\n" in streams.out
    assert streams.err == ""


def test_json_is_one_object_on_stdout(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(bad), "--json", *FEW]) == 2
    body = json.loads(capsys.readouterr().out)
    assert (body["usable"], body["rows"]["rows"], body["path"]) == (False, 599, str(bad))


def test_nothing_to_report_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "absent"), "--json"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err == f"error: {tmp_path / 'absent'}: no such file or directory; check the data path\n"


def test_real_legacy_file_is_the_one_line(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shared_data / "dbn_official" / "test_data.mbp-10.dbz"
    assert main(["inspect", str(path)]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.count("\n") == 1
    assert f"{path} @ 0: a legacy .dbz file, which is not read; convert it" in streams.err


@pytest.mark.parametrize("name", ["", "dbn_official", "dbn_official/IFEU.IMPACT.mbp-10.dbn.zst"])
def test_real_files_of_several_venues_are_told_apart(
    shared_data: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(shared_data / name), "--json"]) == 2
    body = json.loads(capsys.readouterr().out)
    errors = [problem["what"] for problem in body["problems"] if problem["severity"] == "error"]
    assert any("dataset" in error for error in errors)
    assert [file["complete"] for file in body["files"]] == [True] * len(body["files"])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_real_files_of_every_dbn_version_hold_the_same_records(
    shared_data: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_data / "dbn_official" / f"test_data.mbp-10.v{version}.dbn.zst"
    assert main(["inspect", str(path), "--json"]) == 2, "two records are enough for nothing"
    body = json.loads(capsys.readouterr().out)
    assert body["files"][0]["format"] == f"DBN {version}"
    assert body["instrument_ids"][0]["symbol"] == "ESH1"
    assert (body["rows"]["rows"], body["rows"]["book"]["low"]) == (2, "3720.25")


def test_options_choose_instrument_and_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = made._records(900)
    records["instrument_id"][::3] = 9
    source = made._write(tmp_path / "cl.dbn", made._encode(records, symbols=("CL.FUT",)))
    words = ["inspect", str(source), "--instrument", "ES", "--instrument-id", "9", "--json", *FEW]
    assert main(words) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["instrument"]["inferred"], body["rows"]["instrument_ids"]) == (False, [9])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("quiet_s", "shown"), [(0.0, True), (3600.0, False)])
def test_a_terminal_sees_progress_of_long_inspections_only(
    good: Path, quiet_s: float, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "QUIET_S", quiet_s)
    for stream, expected in ((Terminal(), shown), (io.StringIO(), False)):
        inspect_command(default(), good, good.parent, True, io.StringIO(), stream)
        assert ("read" in stream.getvalue()) == expected
        assert expected or stream.getvalue() == ""


def test_an_error_ends_the_progress_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "QUIET_S", 0.0)

    def failing(config: object, source: object, on_progress: "command.Callable") -> None:  # type: ignore[name-defined]
        on_progress(1, 2)
        raise InputError("damaged")

    monkeypatch.setattr(command, "inspect_data", failing)
    stream = Terminal()
    with pytest.raises(InputError):
        inspect_command(default(), tmp_path, tmp_path, True, io.StringIO(), stream)
    assert stream.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K"), "cursor back, bar gone"


def test_an_interrupt_is_exit_code_75(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "inspect_data", interrupted)
    out = io.StringIO()
    assert inspect_command(default(), good, good.parent, True, out, io.StringIO()) == 75
    assert out.getvalue() == ""


def test_a_reader_that_leaves_early_is_no_error(good: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "trainer", "inspect", str(good), *FEW],
            cwd=ROOT,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert (done.returncode, done.stderr) == (0, "")
