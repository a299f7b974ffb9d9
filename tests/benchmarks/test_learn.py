"""The learning benchmark end to end on a small market: resumable, exact, and clear about what it refuses."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from benchmarks import learn
from benchmarks.learn import main
from benchmarks.learning import jobs, run
from benchmarks.learning.experiment import Experiment, expand, variant_of
from benchmarks.learning.progress import Progress
from benchmarks.learning.result import Result, read_result
from tests.conftest import REPOSITORY
from trainer.errors import ExitCode
from trainer.learn.evaluate import Evaluation, evaluate
from trainer.learn.loop import train
from trainer.learn.prepare import prepare

STEPS, POINTS = 12, [4, 8, 12]
CONFIG = """
synthetic: {rows_per_session: 1024, sessions: 2}
data: {window_rows: 4, folds: 1}
agent: {hidden: 12, buckets: [4, 4, 4], ssd_blocks: 1, ssd_heads: 2, ssd_state: 4, head_hidden: 8}
learn: {n_backtests: 8, per_capacity: 64, batch_size: 8}
evaluate: {tile_decisions: 20, bootstrap_block_decisions: 5, bootstrap_resamples: 100, random_traders: 2}
run: {log_every: 1}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("learn")
    (directory / "small.yaml").write_text(CONFIG)
    return directory


def arguments(root: Path, out: Path, *more: str) -> list[str]:
    fixed = ["--config", str(root / "small.yaml"), "--device", "cpu", "--work", str(root / "work")]
    return [*fixed, "--steps", str(STEPS), "--curve", "3", "--out", str(out), *more]


@pytest.fixture(scope="module")
def out(root: Path) -> Path:
    """The results of seed 0 on the planted market; not to be written to."""
    threads = torch.get_num_threads()
    assert main([*arguments(root, root / "out"), "--json"]) == 0
    torch.set_num_threads(threads)
    return root / "out"


@pytest.fixture
def result(out: Path) -> Result:
    return read_result(out / "demo-planted-s0.json")


def experiment(root: Path) -> Experiment:
    variant = variant_of("demo", "demo", root / "small.yaml", {}, "--set")
    return expand([variant], ["planted"], [0], curve=3, run={"n_steps": STEPS, "device": "cpu"})[0]


def without_seconds(result: Result) -> dict[str, Any]:
    body = result.model_dump(mode="json", exclude={"prepare_s"})
    for fold in body["folds"]:
        del fold["train_s"], fold["evaluate_s"]
    return body


def test_the_result_says_what_was_run_and_what_came_out(result: Result, root: Path) -> None:
    assert (result.variant, result.market, result.seed, result.n_steps) == ("demo", "planted", 0, STEPS)
    assert result.digest == experiment(root).digest()
    assert result.config == experiment(root).config.model_dump(mode="json", exclude={"run"})
    assert set(result.environment) == {"device", "torch", "cuda", "commit"}
    (fold,) = result.folds
    assert [point.step for point in fold.curve] == POINTS
    assert fold.curve[-1].net_ticks_per_decision == fold.metrics.net_ticks_per_decision
    assert fold.untrained_ticks_per_decision == fold.metrics.baselines["untrained"]
    assert result.verdict.outcome == "inconclusive"
    assert result.oracle.net_ticks_per_decision > result.book.net_ticks_per_decision > 1.0
    assert fold.train_s > 0
    assert fold.evaluate_s > 0


def test_a_point_is_what_train_and_evaluate_say_after_as_many_steps(
    result: Result, root: Path, tmp_path: Path
) -> None:
    config = experiment(root).config.replaced(run={"n_steps": POINTS[1], "device": "cpu"})
    prepared = prepare(config, tmp_path / "run", root / "work" / "cache", lambda what, done, total: None)
    train(prepared, tmp_path / "run", 0, io.StringIO())
    found = evaluate(prepared, tmp_path / "run", 0)
    assert found is not None
    point = result.folds[0].curve[1]
    assert point.net_ticks_per_decision == found.net_ticks_per_decision
    assert point.net_lower_ticks == found.net_lower_ticks
    assert (point.num_trades, point.hold_percent) == (found.num_trades, found.hold_percent)
    assert point.entropy_share == found.entropy_mean_share


def test_a_second_call_runs_nothing_and_prints_the_same_figures(
    result: Result, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "measure", lambda *_: pytest.fail("ran again"))
    svg = root / "curves.svg"
    assert main([*arguments(root, out), "--svg", str(svg)]) == 0
    printed = capsys.readouterr()
    assert f"{result.net_ticks_per_decision:+.3f}" in printed.out.splitlines()[2]
    assert printed.err == ""
    label = f"demo {result.net_ticks_per_decision:+.2f}"
    assert label in [text.text for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_json_is_all_a_script_sees(out: Path, root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments(root, out), "--json"]) == 0
    printed = capfd.readouterr()
    (summary,) = json.loads(printed.out)
    assert (summary["variant"], summary["runs"], summary["passes"]) == ("demo", 1, 0)
    assert printed.err == ""


def test_a_call_stopped_while_training_goes_on_from_its_checkpoint_to_the_same_result(
    result: Result,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write = Progress.write

    def stopped_at_6(self: Progress, text: str) -> int:
        if text.startswith("step 6/"):
            os.kill(os.getpid(), signal.SIGTERM)
        return write(self, text)

    monkeypatch.setattr(Progress, "write", stopped_at_6)
    words = arguments(root, tmp_path / "out", "--work", str(tmp_path / "work"))
    assert main(words) == ExitCode.INTERRUPTED
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: ")
    assert "stopped by signal 15 at step 6/8, all saved; run the same command to go on" in said
    monkeypatch.setattr(Progress, "write", write)
    assert main(words) == 0
    assert without_seconds(read_result(tmp_path / "out" / "demo-planted-s0.json")) == without_seconds(result)
    logs = tmp_path / "work" / "demo-planted-s0" / "fold0" / "logs"
    assert any("resumed from step 6 (" in log.read_text() for log in logs.iterdir())


def test_a_call_stopped_while_evaluating_goes_on_without_training_again(
    result: Result, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Evaluation.agent_account

    def stopped(self: Evaluation, params: Any, what: str) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return account(self, params, what)

    monkeypatch.setattr(Evaluation, "agent_account", stopped)
    words = arguments(root, tmp_path / "out", "--work", str(tmp_path / "work"))
    assert main(words) == ExitCode.INTERRUPTED
    monkeypatch.setattr(Evaluation, "agent_account", account)
    assert main(words) == 0
    assert without_seconds(read_result(tmp_path / "out" / "demo-planted-s0.json")) == without_seconds(result)


def test_processes_share_the_work_and_a_longer_run_goes_on_from_a_shorter_one(
    result: Result, root: Path, tmp_path: Path
) -> None:
    shutil.copytree(root / "work", tmp_path / "work")
    command = [sys.executable, "-m", "benchmarks.learn"]
    command += arguments(root, tmp_path / "out", "--seeds", "0-1", "--jobs", "2", "--steps", "14")
    command += ["--work", str(tmp_path / "work")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    zero, one = (read_result(tmp_path / "out" / f"demo-planted-s{seed}.json") for seed in (0, 1))
    assert zero.data_fingerprint == result.data_fingerprint != one.data_fingerprint
    # Seed 0 was trained to 12 steps before: their points stay, and only 14 is new.
    assert [p.step for p in zero.folds[0].curve] == [4, 8, 12, 14]
    assert zero.folds[0].curve[:2] == result.folds[0].curve[:2]
    assert [p.step for p in one.folds[0].curve] == [4, 9, 14]
    assert "demo-planted-s1" in done.stderr


def test_another_curve_of_a_finished_run_keeps_the_points_whose_weights_are_gone(
    result: Result, root: Path, out: Path, tmp_path: Path
) -> None:
    assert main(arguments(root, tmp_path, "--curve", "2")) == 0
    again = read_result(tmp_path / "demo-planted-s0.json")
    assert again.folds[0].curve == result.folds[0].curve
    assert again.digest != result.digest


def test_no_run_is_begun_after_the_time_limit(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = arguments(root, tmp_path, "--seeds", "5-6", "--time-limit", "0")
    assert main(words) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "2 of 2 runs are left; the same command goes on\n"


def test_a_report_shows_all_results_of_a_directory(
    result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--report", "--out", str(tmp_path)]) == ExitCode.BAD_INPUT
    for name in ("a", "b"):
        body = result.model_copy(update={"variant": name}).model_dump(mode="json")
        (tmp_path / f"{name}-planted-s0.json").write_text(json.dumps(body))
    assert main(["--report", "--out", str(tmp_path)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["a", "b"]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--set", "learn.nope=1"], 2, "--set: learn.nope: unknown key; see trainer/config.py"),
        (["--set", "learn.n_step=many"], 2, "--set: learn.n_step: Input should be a valid integer"),
        (["--set", "learn.n_step"], 2, "--set: 'learn.n_step' is not section.field=value"),
        (["--preset", "huge"], 2, "--preset: unknown preset 'huge'"),
        (["--seeds", "4-2"], 2, "--seeds: '4-2' are no seeds"),
        (["--folds", "2"], 2, "--folds: cannot run 2 folds; demo has 1"),
        (["--variants", "absent.yaml"], 2, "absent.yaml: cannot read"),
        (["--variants", "absent.yaml", "--name", "x"], 2, "--variants: is not for --set or --name"),
        (["--set", "learn.n_step=2"], 78, "demo-planted-s0.json: config digest is"),
    ],
)
def test_what_cannot_be_run_is_one_line(
    root: Path, out: Path, more: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(root, out, *more)) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert said in printed.err
    assert printed.err.count("\n") == 1


def test_an_unusable_work_directory_is_one_line(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(arguments(root, tmp_path, "--work", str(tmp_path / "file"))) == ExitCode.BAD_INPUT
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Not a directory" in lines[0]


@pytest.mark.parametrize("text", ["{}", "not JSON"])
def test_a_file_that_is_no_result_is_one_line(
    root: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo-planted-s0.json").write_text(text)
    assert main(arguments(root, tmp_path)) == ExitCode.BAD_INPUT
    assert "demo-planted-s0.json: not a result of benchmarks.learn" in capsys.readouterr().err


def test_quick_ends_with_3_and_a_line_for_each_missed_target(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def stored(out: Path, experiment: Experiment) -> Result:
        asked.append(experiment.name)
        return result.model_copy(update={"market": experiment.market, "seed": experiment.seed})

    for module in (learn, jobs):
        monkeypatch.setattr(module, "finished", stored)
    assert main(["--quick", "--device", "cpu"]) == ExitCode.REJECTED
    lines = capsys.readouterr().err.splitlines()
    assert "missed: demo-planted-s1: the gate says inconclusive, not pass" in lines
    assert all(line.startswith("missed: demo-") for line in lines)
    assert len(set(asked)) == 3
    monkeypatch.setattr(learn, "missed", lambda results: [])
    assert main(["--quick", "--device", "cpu"]) == 0
