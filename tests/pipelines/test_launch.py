"""From options to config, run id and the trainer's option values."""

import io
import subprocess
from pathlib import Path

import pytest

from pipelines.commands.run import Run
from pipelines.identity import code_key, data_key, run_id
from pipelines.launch import config_of, launch, option_values
from trainer.config import Config
from trainer.errors import InputError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Run(), "no data to train on; give --data FILE_OR_DIR, or --market planted"),
        (
            Run(mbp10_data_dir=Path("x"), market="planted"),
            "--data and --market are both given; give one",
        ),
        (
            Run(preset="huge", market="planted"),
            "--preset: unknown preset 'huge'",
        ),
        (Run(preset="demo", folds=2, fold_idx=2), "--fold-idx: there is no fold 2; give 0 to 1"),
        (Run(preset="demo", jobs=0), "--jobs: 0 is not a number of jobs"),
        (Run(preset="demo", run_id="../x"), "--run-id: '../x' cannot name a directory"),
        (Run(preset="demo", folds=0), "data.folds: Input should be greater than or equal"),
        (Run(preset="demo", per_capacity=100), "per_capacity 100 must be a power of two"),
    ],
)
def test_bad_options_are_one_line_that_says_what_to_do(options: Run, message: str) -> None:
    with pytest.raises(InputError) as refused:
        config_of(options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_absent_data_is_refused_before_anything_runs(tmp_path: Path) -> None:
    options = Run(mbp10_data_dir=tmp_path / "absent", runs=tmp_path / "runs")
    with pytest.raises(InputError, match=r"absent: no such file or directory; give --data"):
        launch(options, io.StringIO(), io.StringIO())
    assert not (tmp_path / "runs").exists()


def test_a_directory_without_recordings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"no \.dbn or \.csv file, plain or \.zst, in it"):
        data_key(tmp_path)


def test_data_replaces_the_presets_market(tmp_path: Path) -> None:
    file = tmp_path / "es.dbn"
    file.write_bytes(b"DBN")
    options = Run(preset="demo", mbp10_data_dir=file)
    config = config_of(options)
    assert config.market_source is None
    values = option_values(options)
    assert values == {"preset": "demo", "mbp10-data-dir": str(file)}


def test_only_given_options_reach_the_trainer() -> None:
    options = Run(preset="demo", folds=2, seed=4, device="cpu")
    assert option_values(options) == {"preset": "demo", "folds": "2", "seed": "4", "device": "cpu"}


def test_a_config_file_lies_between_preset_and_options(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("learn: {seed: 3, n_step: 2}\nrun: {n_steps: 7}\n")
    config = config_of(Run(preset="demo", config=file, seed=9))
    assert (config.learn.seed, config.learn.n_step, config.run.n_steps) == (9, 2, 7)
    assert config.learn.n_backtests == 64  # the preset's


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lern: {}", "lern: unknown key"),
        ("learn: {sed: 1}", "learn.sed: unknown key"),
        ("- 1", "not a mapping of sections"),
        ("a: [", "not YAML"),
    ],
)
def test_a_bad_config_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        config_of(Run(preset="demo", config=file))
    assert str(refused.value).startswith(f"{file}: ")
    assert message in str(refused.value)


def test_the_run_id_is_stable_and_names_code_config_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE_SHA", "0123456789abcdef")
    config = config_of(Run(preset="demo"))
    assert run_id(config) == f"0123456789ab-{config.digest()}-planted"
    longer = config_of(Run(preset="demo", n_steps=9, runs=Path("elsewhere"), jobs=2))
    assert run_id(longer) == run_id(config)
    other = config_of(Run(preset="demo", seed=1))
    assert run_id(other) != run_id(config)


def test_the_data_key_follows_content_and_names_but_not_the_place(tmp_path: Path) -> None:
    keys = []
    for place, name, body in [
        ("a", "x.dbn", b"1"),
        ("b", "x.dbn", b"1"),
        ("c", "x.dbn", b"2"),
        ("d", "y.dbn", b"1"),
    ]:
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_bytes(body)
        keys.append(data_key(tmp_path / place))
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_trades_change_the_run_id(tmp_path: Path) -> None:
    (tmp_path / "t.dbn").write_bytes(b"1")
    config = Config(market_source="planted")
    with_trades = config.replaced(run={"trades_data_dir": tmp_path})
    assert run_id(with_trades) != run_id(config)


def test_edited_sources_change_the_code_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODE_SHA", raising=False)
    monkeypatch.setattr("pipelines.identity.REPOSITORY", tmp_path)
    source = tmp_path / "trainer" / "a.py"
    source.parent.mkdir()
    source.write_text("one = 1\n")
    bare = code_key()
    assert bare.startswith("dev")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert code_key() == head[:12]
    source.write_text("one = 2\n")
    assert code_key().startswith("dev")
    assert code_key() != bare


def test_a_package_installed_inside_another_projects_tree_is_named_by_its_own_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade must change the key though the project around it stands still."""
    monkeypatch.delenv("CODE_SHA", raising=False)
    installed = tmp_path / ".venv" / "site-packages"
    monkeypatch.setattr("pipelines.identity.REPOSITORY", installed)
    (installed / "trainer").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text(".venv\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    keys = set()
    for text in ("one = 1\n", "one = 2\n"):
        (installed / "trainer" / "a.py").write_text(text)
        keys.add(code_key())
    assert len(keys) == 2
    assert all(key.startswith("dev") for key in keys)
