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
