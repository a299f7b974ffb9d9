"""The command line of the trainer: flags, help, one-line errors, exit codes, and a whole tiny run."""

import json
import re
from pathlib import Path

import pytest

from trainer.cli import main

STAGES = ("prepare", "train", "evaluate", "gate")
PREPARE_FLAGS = (
    "--run-dir",
    "--out",
    "--preset",
    "--config",
    "--market",
    "--mbp10-data-dir",
    "--trades-data-dir",
    "--cache-dir",
    "--folds",
    "--instrument",
    "--n-steps",
    "--n-backtests",
    "--per-capacity",
    "--checkpoint-every",
    "--seed",
    "--mirror",
    "--debug",
)
FLAGS = {
    "prepare": PREPARE_FLAGS,
    "train": (
        *PREPARE_FLAGS,
        "--fold-idx",
        "--resume-from",
        "--device",
        "--no-graph",
        "--no-compile",
        "--log-every",
    ),
    "evaluate": ("--run-dir", "--fold-idx", "--device", "--mirror", "--debug"),
    "gate": ("--run-dir", "--json", "--mirror", "--debug"),
}
SMALL = """
synthetic: {rows_per_session: 1024, sessions: 2}
data: {window_rows: 8, folds: 1}
agent: {hidden: 24, buckets: [8, 8, 8], ssd_state: 8, head_hidden: 32}
learn: {n_backtests: 8, per_capacity: 64, batch_size: 16}
evaluate: {tile_decisions: 20, bootstrap_block_decisions: 5, bootstrap_resamples: 100, random_traders: 2}
run: {n_steps: 4, checkpoint_every: 2, log_every: 2, device: cpu}
"""


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Options of a run that takes seconds."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return ["--run-dir", str(tmp_path / "runs" / "small"), "--preset", "demo", "--config", str(path)]


def shown(stage: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        main([stage, "--help"] if stage else ["--help"])
    assert caught.value.code in (0, None)
    return capsys.readouterr().out


@pytest.mark.parametrize("stage", STAGES)
def test_help_shows_every_flag_and_an_example(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(stage, capsys)
    assert [flag for flag in FLAGS[stage] if flag not in text] == []
    assert f"python -m trainer {stage} --run-dir" in text


def test_help_lists_the_stages(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown("", capsys)
    assert [stage for stage in STAGES if stage not in text] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--preset", "fast"], "--preset: unknown preset 'fast'"),
        (["--per-capacity", "1000"], "per_capacity 1000 must be a power of two"),
        (["--n-steps", "0"], "run.n_steps"),
        (["--config", "no/such.yaml"], "no/such.yaml: cannot read"),
        (["--mbp10-data-dir", "no/such.dbn"], "no/such.dbn: no such file or directory"),
        ([], "--mbp10-data-dir: no data given"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_one_line_on_stderr_and_exit_code_2(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", "--run-dir", str(tmp_path / "run"), *options]) == 2
    written = capsys.readouterr()
    (line,) = written.err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert written.out == ""
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback_before_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", "--run-dir", str(tmp_path), "--debug"]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("Traceback (most recent call last):")
    assert errors.splitlines()[-1].startswith(f"error: {tmp_path}/run.json: every fold is missing")


@pytest.mark.parametrize(
    "words", [["gate"], ["train", "--fold"], ["fly"], ["prepare", "--run-dir", "x", "--folds", "two"]]
)
def test_words_that_are_no_command_exit_with_code_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["evaluate", "gate"])
def test_a_stage_without_a_prepared_run_says_what_to_run(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([stage, "--run-dir", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("run `python -m trainer prepare --run-dir` first")


def test_a_whole_run_stage_by_stage(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = small[:2]
    assert main(["prepare", *small]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1].startswith("prepared: 1 folds, config ")
    assert "progress 2/2 market" in out
    assert main(["train", *run_dir]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert "\r" not in text
    assert len(re.findall("step.*wr=", text)) == 2, "what people grep the log for"
    assert [line.split()[0] for line in lines[:6]] == [
        "config:",
        "code:",
        "versions:",
        "device:",
        "GPU",
        "seed:",
    ]
    steps = [line for line in lines if line.startswith("step ")]
    assert [line.split()[1] for line in steps] == ["2/4", "4/4"]
    assert all(" wr=" in line and " hold=" in line and " sps=" in line and " eta=" in line for line in steps)
    assert main(["train", *run_dir, "--n-steps", "6", "--fold-idx", "0"]) == 0
    assert "resumed from step 4 (" in capsys.readouterr().out
    assert main(["evaluate", *run_dir]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("fold 0: ")
    assert main(["evaluate", *run_dir]) == 0
    assert capsys.readouterr().out == "already evaluated\n"
    code = main(["gate", *run_dir, "--json"])
    assert code in (3, 4)
    assert json.loads(capsys.readouterr().out)["verdict"]["exit_code"] == code
    assert main(["train", *run_dir, "--fold-idx", "1"]) == 2
    assert "there is no fold 1; give 0 to 0" in capsys.readouterr().err
    before = (tmp_path / "runs" / "small" / "run.json").read_bytes()
    assert main(["train", *small, "--seed", "4"]) == 78
    (line,) = capsys.readouterr().err.splitlines()
    assert "config digest is" in line
    assert (tmp_path / "runs" / "small" / "run.json").read_bytes() == before


def test_train_prepares_by_itself_where_nothing_is_prepared(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *small, "--n-steps", "1", "--no-graph", "--no-compile"]) == 0
    assert (tmp_path / "runs" / "small" / "run.json").exists()
    assert (tmp_path / "runs" / "small" / "fold0" / "train.DONE.json").exists()
    assert "step 1/1 " in capsys.readouterr().out
