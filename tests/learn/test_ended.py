"""What the exit handler leaves: Argo's failures in either quoting, and no directory for a run without one."""

import io
import json
from pathlib import Path

import pytest

from trainer.errors import InputError
from trainer.learn.ended import ENDED_FILE, note_end

POD = {
    "displayName": "train(0)",
    "templateName": "train",
    "phase": "Failed",
    "message": "Error (exit code 2): es.dbn @ 12: bad record",
    "podName": "w-train-1",
    "finishedAt": "2026-01-01T00:00:00Z",
}
RETRY = {"displayName": "train", "phase": "Failed", "message": "retryStrategy.expression evaluated to false"}


@pytest.mark.parametrize("quote", [json.dumps, lambda body: json.dumps(json.dumps(body))])
def test_failures_are_kept_and_the_attempts_reason_is_said(tmp_path: Path, quote) -> None:  # type: ignore[no-untyped-def]
    stream = io.StringIO()
    note_end(tmp_path, "w", "Failed", quote([RETRY, {**POD, "id": "w-1"}]), stream)
    body = json.loads((tmp_path / ENDED_FILE).read_text())
    assert body == {"workflow": "w", "status": "Failed", "failures": [RETRY, POD]}
    assert stream.getvalue() == (
        "train(0): Failed: Error (exit code 2): es.dbn @ 12: bad record\nworkflow w ended: Failed\n"
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "main: Error (exit code 137): .bin (1 bytes)\nstep 25/100 wr=0.5\nstep 50/100 wr=0.6\n"
            'time=2026-01-01T00:00:00Z level=INFO msg="exited" argo=true\nError: exit status 137\n',
            "main: Error (exit code 137): step 50/100 wr=0.6",
        ),
        ("main: Error (exit code 2): es.dbn: bad", "main: Error (exit code 2): es.dbn: bad"),
        ("pod\n deleted", "pod deleted"),
        ("", "no message"),
    ],
)
def test_a_failure_is_one_line_though_argo_quotes_a_log(tmp_path: Path, message: str, said: str) -> None:
    stream = io.StringIO()
    note_end(tmp_path, "w", "Failed", json.dumps([{**POD, "message": message}]), stream)
    assert stream.getvalue() == f"train(0): Failed: {said}\nworkflow w ended: Failed\n"


@pytest.mark.parametrize("text", ["", "null", "[]", '""', '"null"'])
def test_no_failures(tmp_path: Path, text: str) -> None:
    stream = io.StringIO()
    note_end(tmp_path, "w", "Succeeded", text if text != '""' else "", stream)
    assert json.loads((tmp_path / ENDED_FILE).read_text())["failures"] == []
    assert stream.getvalue() == "workflow w ended: Succeeded\n"


def test_a_run_without_directory_gets_none(tmp_path: Path) -> None:
    note_end(tmp_path / "absent", "w", "Failed", "", io.StringIO())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["{", "3", '["a"]', '"x"'])
def test_text_that_is_no_list_of_nodes_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="--failures: not a JSON list of failed nodes"):
        note_end(tmp_path, "w", "Failed", text, io.StringIO())
