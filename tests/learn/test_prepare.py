"""The prepare stage: what it writes, and that doing it again does nothing over."""

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from trainer.config import Config
from trainer.data import synthetic
from trainer.errors import InputError, MismatchError
from trainer.learn.markers import read_marker
from trainer.learn.prepare import prepare
from trainer.learn.run import Run
from trainer.presets import INSTRUMENTS

Tiny = tuple[Run, Path]


def quiet(what: str, done: int, total: int) -> None:
    """No progress wanted."""


def files(root: Path) -> dict[str, int]:
    """Path and time of last change of every file under `root`."""
    return {
        str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()
    }


@pytest.fixture
def copied(tiny_run: Tiny, tmp_path: Path) -> Path:
    """A copy of the runs' root: the cache, the market and the run."""
    shutil.copytree(tiny_run[1].parent, tmp_path / "runs")
    return tmp_path / "runs"


@pytest.fixture
def small(tiny_config: Config) -> Config:
    """A market of its own that is quick to write."""
    return tiny_config.replaced(synthetic={"rows_per_session": 512, "sessions": 2}, data={"folds": 1})


def test_a_prepared_run_has_windows_a_marker_and_a_cache(tiny_run: Tiny) -> None:
    run, run_dir = tiny_run
    assert len(run.folds) == 2
    marker = read_marker(run_dir, "prepare")
    assert marker is not None
    assert (marker.config_digest, marker.data_fingerprint) == (run.config_digest, run.data_fingerprint)
    assert run.cache_dir.name == run.data_fingerprint
    names = [path.name for path in run_dir.parent.joinpath("cache").iterdir()]
    assert len(names) == 2, f"a market and a cache, nothing half-written: {names}"


def test_preparing_again_writes_neither_market_nor_cache(
    tiny_run: Tiny, tiny_config: Config, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = files(copied / "cache"), []
    monkeypatch.delattr(synthetic, "write_market")
    again = prepare(tiny_config, copied / "tiny", copied / "cache", lambda what, *_: seen.append(what))
    assert files(copied / "cache") == before
    assert (again.folds, again.data_fingerprint) == (tiny_run[0].folds, tiny_run[0].data_fingerprint)
    assert seen == []


def test_going_on_with_other_code_is_told_once_and_the_run_is_then_that_codes(
    tiny_config: Config, copied: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The old code's markers answer for finished stages: nobody may take that for the new code's result."""
    told = []
    for sha in ("a" * 40, "b" * 40, "b" * 40):
        monkeypatch.setenv("CODE_SHA", sha)
        caplog.clear()
        assert prepare(tiny_config, copied / "tiny", copied / "cache", quiet).code_sha == sha
        told.append([text for text in caplog.messages if "begun by code" in text])
    assert told[2] == []
    assert (
        f"begun by code {'a' * 12}, goes on with {'b' * 12}: finished stages are not run again" in told[1][0]
    )


def test_preparing_again_loads_neither_torch_nor_pandas_nor_signal_processing(
    tiny_config: Config, copied: Path, tmp_path: Path
) -> None:
    """What makes a finished run's repetition quick: only the files' digests are checked."""
    body = tiny_config.model_dump(mode="json", exclude={"preset"})
    (tmp_path / "same.yaml").write_text(json.dumps(body))
    words = [
        "prepare",
        "--run-dir",
        str(copied / "tiny"),
        "--preset",
        "demo",
        "--config",
        str(tmp_path / "same.yaml"),
    ]
    program = (
        f"import sys; from trainer.cli import main; code = main({words!r})\n"
        "found = {'torch', 'pandas', 'scipy.signal', 'scipy.stats', 'pyarrow'} & sys.modules.keys()\n"
        "sys.exit(f'loaded {found}' if found else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_market_that_lost_a_file_is_written_whole_again(
    tiny_run: Tiny, tiny_config: Config, copied: Path
) -> None:
    (market,) = (copied / "cache").glob("planted-*")
    whole = {path.name: path.read_bytes() for path in market.iterdir()}
    next(market.iterdir()).unlink()
    again = prepare(tiny_config, copied / "tiny", copied / "cache", quiet)
    assert {path.name: path.read_bytes() for path in market.iterdir()} == whole
    assert again.data_fingerprint == tiny_run[0].data_fingerprint


def test_a_market_whose_writing_fails_is_never_seen(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, count = synthetic._write, [0]

    def fails_second(path: Path, records: object) -> None:
        count[0] += 1
        if count[0] == 2:
            raise OSError(28, "No space left on device")
        whole(path, records)  # type: ignore[arg-type]

    monkeypatch.setattr(synthetic, "_write", fails_second)
    with pytest.raises(InputError, match="cannot write: No space left on device"):
        prepare(small, tmp_path / "run", tmp_path / "cache", quiet)
    assert list((tmp_path / "cache").iterdir()) == []
    assert not (tmp_path / "run").exists()


def test_another_seed_of_the_learner_shares_the_market_and_the_cache(small: Config, tmp_path: Path) -> None:
    one = prepare(small, tmp_path / "one", tmp_path / "cache", quiet)
    other = prepare(small.replaced(learn={"seed": 5}), tmp_path / "other", tmp_path / "cache", quiet)
    assert one.cache_dir == other.cache_dir
    assert one.config_digest != other.config_digest
    with pytest.raises(MismatchError, match="config digest is"):
        prepare(small.replaced(learn={"seed": 5}), tmp_path / "one", tmp_path / "cache", quiet)


def test_agents_of_other_decisions_share_a_market_with_a_clock_of_its_own(
    small: Config, tmp_path: Path
) -> None:
    for signal_rows, num_markets in ((8, 1), (None, 2)):
        root = tmp_path / str(signal_rows)
        for name, decision_rows in (("one", 8), ("two", 2)):
            config = small.replaced(
                data={"decision_rows": decision_rows, "window_rows": 4 + decision_rows},
                synthetic={"signal_rows": signal_rows},
            )
            prepare(config, root / name, root / "cache", quiet)
        assert len(list(root.glob("cache/planted-*"))) == num_markets


def test_a_fee_of_nothing_is_warned_about(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free = INSTRUMENTS["synthetic"].model_copy(update={"fee_per_lot": 0.0})
    with caplog.at_level(logging.WARNING):
        prepare(small, tmp_path / "run", tmp_path / "cache", quiet)
        assert caplog.text == ""
        monkeypatch.setitem(INSTRUMENTS, "synthetic", free)
        prepare(small, tmp_path / "free", tmp_path / "free-cache", quiet)
    assert "synthetic: fee_per_lot is 0, trading costs the spread only" in caplog.text


def test_no_data_at_all_is_refused(tiny_config: Config, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--mbp10-data-dir: no data given; give .* or --market planted"):
        prepare(tiny_config.replaced(market_source=None), tmp_path / "run", tmp_path / "cache", quiet)  # type: ignore[arg-type]


def test_progress_counts_sessions_then_bytes(small: Config, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    prepare(small, tmp_path / "run", tmp_path / "cache", lambda *step: seen.append(step))
    assert seen[:2] == [("market", 1, 2), ("market", 2, 2)]
    assert {what for what, _, _ in seen[2:]} == {"cache"}
    assert seen[-1][1] == seen[-1][2]
