"""The run directory's `run.json`: what it fixes, what it refuses."""

import json
from pathlib import Path

import pytest

from trainer.errors import ExitCode, InputError, MismatchError
from trainer.learn.run import RUN_FILE, Run, fold_dir

Tiny = tuple[Run, Path]


def test_a_run_reads_back_as_it_was_written(tiny_run: Tiny, tmp_path: Path) -> None:
    tiny_run[0].save(tmp_path / "runs" / "new")
    assert Run.load(tmp_path / "runs" / "new") == tiny_run[0]
    assert [path.name for path in (tmp_path / "runs" / "new").iterdir()] == [RUN_FILE]


def test_run_options_change_nothing_that_the_digest_covers(tiny_run: Tiny, tmp_path: Path) -> None:
    run = tiny_run[0]
    longer = run.with_run_options({"n_steps": 999, "device": "cpu"})
    assert longer.config.run.n_steps == 999
    assert longer.config.digest() == run.config_digest == longer.config_digest
    run.save(tmp_path)
    longer.save(tmp_path)
    assert Run.load(tmp_path).config.run.n_steps == 999
    assert run.with_run_options({}) is run


@pytest.mark.parametrize("field", ["config_digest", "data_fingerprint"])
def test_another_configuration_or_data_never_replaces_a_run(
    tiny_run: Tiny, tmp_path: Path, field: str
) -> None:
    tiny_run[0].save(tmp_path)
    before = (tmp_path / RUN_FILE).read_bytes()
    with pytest.raises(MismatchError, match="this run's is 0000; use another --run-id") as caught:
        tiny_run[0].model_copy(update={field: "0000"}).save(tmp_path)
    assert caught.value.exit_code is ExitCode.MISMATCH
    assert (tmp_path / RUN_FILE).read_bytes() == before


@pytest.mark.parametrize("damage", ["", "{}", '{"config": 3}', "not json"])
def test_a_damaged_run_file_is_one_line(tiny_run: Tiny, tmp_path: Path, damage: str) -> None:
    (tmp_path / RUN_FILE).write_text(damage)
    with pytest.raises(InputError, match=r"run\.json: unreadable: .*; prepare again") as caught:
        Run.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_unknown_fields_of_a_later_version_are_refused(tiny_run: Tiny, tmp_path: Path) -> None:
    body = json.loads(tiny_run[0].model_dump_json()) | {"extra": 1}
    (tmp_path / RUN_FILE).write_text(json.dumps(body))
    with pytest.raises(InputError, match="unreadable"):
        Run.load(tmp_path)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_fold_that_does_not_exist_is_refused(tiny_run: Tiny, index: int) -> None:
    with pytest.raises(InputError, match=f"--fold-idx: there is no fold {index}; give 0 to 1"):
        tiny_run[0].fold(index)


def test_folds_train_before_they_test_and_lie_in_one_directory_each(tiny_run: Tiny) -> None:
    for fold in tiny_run[0].folds:
        assert fold.train.start_row < fold.train.end_row < fold.test.start_row < fold.test.end_row
        assert fold.train.end_ns < fold.test.start_ns
    assert fold_dir(Path("runs/x"), 1) == Path("runs/x/fold1")


def test_a_file_in_place_of_the_directory_is_one_line(tiny_run: Tiny, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"cannot write: .*; choose a writable --run-dir|unreadable"):
        tiny_run[0].save(tmp_path / "taken")
