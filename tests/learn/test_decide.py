"""The gate stage: which folds count, what it writes and which code it ends with."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import REPOSITORY
from tests.learn.evaluated import put
from trainer.errors import ExitCode, InputError
from trainer.learn.decide import SUMMARY_FILE, decide
from trainer.learn.markers import read_marker, write_marker
from trainer.learn.metrics import FoldMetrics
from trainer.learn.run import METRICS_FILE, Run, fold_dir
from trainer.learn.verdict import read_summary

Judged = tuple[Run, Path]


def winner(make_fold, number: int) -> FoldMetrics:  # type: ignore[no-untyped-def]
    """A fold that meets every criterion: 300 trades, over two of three won, half the decisions idle."""
    pnl = np.random.default_rng(number).normal(0.9, 1.5, 300)
    return make_fold(pnl).model_copy(update={"fold": number})  # type: ignore[no-any-return]


@pytest.fixture
def judged(tiny_run: Judged, tmp_path: Path, make_fold) -> Judged:  # type: ignore[no-untyped-def]
    """Both folds evaluated, both winners."""
    run, run_dir = tiny_run[0], tmp_path / "judged"
    run.save(run_dir)
    for number in range(2):
        put(run, run_dir, winner(make_fold, number))
    return run, run_dir


def test_winners_in_all_folds_pass(judged: Judged) -> None:
    stream = io.StringIO()
    code = decide(judged[1], stream)
    summary = read_summary(judged[1] / SUMMARY_FILE)
    assert (code, summary.verdict.outcome, summary.verdict.reasons) == (0, "pass", ())
    assert [fold.fold for fold in summary.folds if fold is not None] == [0, 1]
    assert (summary.config_digest, summary.run_id) == (judged[0].config_digest, "judged")
    assert "verdict: PASS, exit code 0" in stream.getvalue()
    assert f"summary: {judged[1] / SUMMARY_FILE}" in stream.getvalue()
    assert read_marker(judged[1], "gate") is not None


def test_json_is_the_summary_and_nothing_else(judged: Judged) -> None:
    stream = io.StringIO()
    decide(judged[1], stream, as_json=True)
    assert json.loads(stream.getvalue()) == json.loads((judged[1] / SUMMARY_FILE).read_text())


def test_a_verdict_that_is_no_pass_leaves_its_reason_where_an_orchestrator_looks(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("trainer.learn.decide.termination_message", said.append)
    decide(judged[1], io.StringIO())
    assert said == [], "a pass needs no reason"
    (fold_dir(judged[1], 1) / METRICS_FILE).unlink()
    decide(judged[1], io.StringIO())
    assert len(said) == 1
    assert said[0].startswith("verdict: FAIL, exit code 3:")
    assert said[0].endswith("; fold 1: missing, it was not evaluated")


def missing(run_dir: Path) -> list[int]:
    """Folds that the summary calls missing; the verdict must have failed."""
    code = decide(run_dir, io.StringIO())
    summary = read_summary(run_dir / SUMMARY_FILE)
    assert (code, summary.verdict.outcome) == (ExitCode.REJECTED, "fail")
    said = [criterion.fold for criterion in summary.verdict.reasons]
    assert [number for number, fold in enumerate(summary.folds) if fold is None] == said
    return said


def test_a_fold_that_was_never_evaluated_fails_the_run(judged: Judged) -> None:
    for path in fold_dir(judged[1], 1).iterdir():
        path.unlink()
    assert missing(judged[1]) == [1]


@pytest.mark.parametrize("name", ["evaluate.DONE.json", "train.DONE.json", METRICS_FILE])
def test_a_fold_without_a_marker_or_metrics_is_missing(judged: Judged, name: str) -> None:
    (fold_dir(judged[1], 0) / name).unlink()
    assert missing(judged[1]) == [0]


@pytest.mark.parametrize(
    "change", [{"config_digest": "0" * 16}, {"data_fingerprint": "0" * 16}, {"fold": 0}], ids=str
)
def test_markers_of_another_run_or_fold_count_as_missing(judged: Judged, change: dict[str, object]) -> None:
    directory = fold_dir(judged[1], 1)
    for stage in ("train", "evaluate"):
        marker = read_marker(directory, stage)  # type: ignore[arg-type]
        assert marker is not None
        write_marker(directory, marker.model_copy(update=change))
    assert missing(judged[1]) == [1]


@pytest.mark.parametrize("change", [{"steps": 400}, {"checkpoint_sha256": "cd" * 32}], ids=str)
def test_a_fold_trained_on_since_is_not_answered_with_its_old_metrics(
    judged: Judged, change: dict[str, object]
) -> None:
    directory = fold_dir(judged[1], 0)
    marker = read_marker(directory, "train")
    assert marker is not None
    write_marker(directory, marker.model_copy(update=change))
    assert missing(judged[1]) == [0]


def test_damaged_metrics_are_one_line_that_says_what_to_do(judged: Judged) -> None:
    (fold_dir(judged[1], 0) / METRICS_FILE).write_text("{}")
    with pytest.raises(
        InputError, match=r"metrics\.json: not the metrics of a fold: .*; evaluate this fold again"
    ):
        decide(judged[1], io.StringIO())


def test_one_folds_metrics_in_anothers_place_are_refused(judged: Judged) -> None:
    """A good fold does not count twice."""
    one, other = (fold_dir(judged[1], index) / METRICS_FILE for index in range(2))
    other.write_bytes(one.read_bytes())
    with pytest.raises(InputError, match=r"fold1/metrics\.json: metrics of fold 0, not 1; evaluate"):
        decide(judged[1], io.StringIO())


def test_an_unprepared_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json: every fold is missing: nothing was prepared"):
        decide(tmp_path, io.StringIO())


def test_the_gate_loads_neither_torch_nor_pandas(judged: Judged) -> None:
    heavy = "{'torch', 'pandas', 'pyarrow', 'scipy.stats', 'scipy.signal'}"
    program = (
        f"import sys; from trainer.cli import main; code = main(['gate', '--run-dir', {str(judged[1])!r}])\n"
        f"sys.exit(f'loaded {{found}}' if (found := {heavy} & sys.modules.keys()) else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
