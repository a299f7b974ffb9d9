"""The seed preset on the whole path: prepared, trained, resumed, evaluated and judged; and other windows."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest

from trainer.agent.layout import GROUPS
from trainer.config import Config
from trainer.errors import ExitCode
from trainer.learn.decide import decide
from trainer.learn.evaluate import evaluate
from trainer.learn.foxc import read_foxc
from trainer.learn.loop import train
from trainer.learn.records import read_records
from trainer.learn.reward import CLOSE_SLOTS
from trainer.learn.run import Run, fold_dir
from trainer.learn.telemetry import METRIC_NAMES
from trainer.presets import seed

FULL, HALF = 60, 30
TINY = {
    "synthetic": {"rows_per_session": 1024, "sessions": 3},
    "agent": {"hidden": 24, "buckets": (8, 8, 8), "ssd_state": 8, "head_hidden": 32},
    "learn": {"n_backtests": 16, "per_capacity": 256, "batch_size": 32},
    "evaluate": {
        "tile_decisions": 60,
        "bootstrap_block_decisions": 10, "bootstrap_resamples": 100, "random_traders": 2,
    },
    "run": {"n_steps": FULL, "checkpoint_every": HALF, "log_every": 20, "device": "cpu"},
}  # fmt: skip


def tiny(**sections: dict[str, object]) -> Config:
    planted = seed().replaced(market_source="planted", data={"window_rows": 8, "folds": 2})
    return planted.replaced(**TINY).replaced(**sections)


def prepared(config: Config, root: Path, name: str) -> tuple[Run, Path]:
    from trainer.learn.prepare import prepare

    return prepare(config, root / name, root / "cache", lambda what, done, total: None), root / name


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seed")


@pytest.fixture(scope="module")
def trained(root: Path) -> tuple[Run, Path]:
    """Both folds trained without a stop."""
    run, run_dir = prepared(tiny(), root, "seed")
    for fold in (0, 1):
        train(run, run_dir, fold, io.StringIO())
    return run, run_dir


def test_a_run_of_the_documents_forms_stays_finite_and_is_paid_at_closes(trained: tuple[Run, Path]) -> None:
    found = read_records(fold_dir(trained[1], 0), METRIC_NAMES)
    assert len(found["step"]) == FULL
    broken = [name for name in METRIC_NAMES if not np.isfinite(found[name]).all()]
    assert broken == []
    assert found["trades"].sum() > 50, "closes are all that pays"
    assert np.all(found["skipped"] == 0)
    assert found["reward_scale"][-1] > 1.0, "mean |trade P&L|, ticks"
    rows = read_foxc(fold_dir(trained[1], 0) / f"checkpoint-{FULL}.bin").arrays["replay.rows"][:256]
    reward, done, close, closes = rows[:, -10], rows[:, -3] > 0.5, rows[:, -2], rows[:, -1] > 0.5
    assert (reward <= 1.0).all()
    assert np.ptp(reward[done]) > 0.5
    assert (np.abs(reward[~done]) < 0.3).all(), "the drawdown penalty is all that an open trade is charged"
    assert np.array_equal(reward, close), "n = 1: the return up to the close is the reward"
    assert np.array_equal(done, closes)


def test_the_checkpoint_holds_all_that_the_documents_forms_add(trained: tuple[Run, Path]) -> None:
    arrays = read_foxc(fold_dir(trained[1], 0) / f"checkpoint-{FULL}.bin").arrays
    wanted = {f"bus.{name}" for name in CLOSE_SLOTS} | {f"optimizer.{group}" for group in GROUPS}
    assert wanted <= set(arrays)
    assert 1.0 <= float(arrays["bus.loss_clamp"]) <= 3.0
    assert float(arrays["bus.ema.close_loss"]) > 0.0


def test_half_a_run_and_its_resumed_rest_equal_the_whole_bit_for_bit(
    trained: tuple[Run, Path], tmp_path: Path
) -> None:
    shutil.copytree(trained[1], tmp_path / "stopped")
    directory = fold_dir(tmp_path / "stopped", 0)
    whole = (directory / f"checkpoint-{FULL}.bin").read_bytes()
    (directory / "train.DONE.json").unlink()
    (directory / f"checkpoint-{FULL}.bin").unlink()
    stream = io.StringIO()
    train(trained[0], tmp_path / "stopped", 0, stream)
    assert f"resumed from step {HALF} (" in stream.getvalue()
    assert (directory / f"checkpoint-{FULL}.bin").read_bytes() == whole


def test_both_folds_are_evaluated_and_the_gate_judges_them(trained: tuple[Run, Path], tmp_path: Path) -> None:
    shutil.copytree(trained[1], tmp_path / "judged")
    for fold in (0, 1):
        metrics = evaluate(trained[0], tmp_path / "judged", fold)
        assert metrics is not None
        assert metrics.num_decisions > 900, "every row is a decision"
        assert metrics.unexplained_ticks == pytest.approx(0.0, abs=1e-9)
    verdict = decide(tmp_path / "judged", io.StringIO(), as_json=True)
    assert verdict in (ExitCode.REJECTED, ExitCode.INCONCLUSIVE), "nothing is learned in 60 steps"


@pytest.mark.parametrize("window_rows", [64])
def test_a_longer_window_trains_and_is_evaluated(root: Path, window_rows: int) -> None:
    config = tiny(run={"n_steps": 4, "checkpoint_every": 0}, data={"window_rows": window_rows})
    run, run_dir = prepared(config, root, f"k{window_rows}")
    train(run, run_dir, 0, io.StringIO())
    metrics = evaluate(run, run_dir, 0)
    assert metrics is not None
    assert metrics.unexplained_ticks == pytest.approx(0.0, abs=1e-9)
    assert np.isfinite(read_records(fold_dir(run_dir, 0), ["l_label", "l_q"])["l_label"]).all()
