"""The lock of a fold's directory; what every lock does is tested in tests/test_lock.py."""

import os
from pathlib import Path

import pytest

from trainer.errors import ExitCode, InputError
from trainer.learn.lock import fold_lock


def test_a_second_process_in_a_fold_gets_one_line_and_exit_code_75_so_that_it_is_retried(
    tmp_path: Path,
) -> None:
    with fold_lock(tmp_path / "fold0"), pytest.raises(InputError) as caught, fold_lock(tmp_path / "fold0"):
        pass
    said = f"fold0: another process works in this fold (process {os.getpid()}); wait for it, or use another"
    assert said in str(caught.value)
    assert caught.value.exit_code is ExitCode.INTERRUPTED


def test_two_folds_of_a_run_are_worked_on_side_by_side_and_the_lock_ends_with_an_error(
    tmp_path: Path,
) -> None:
    with pytest.raises(RuntimeError), fold_lock(tmp_path / "fold0"), fold_lock(tmp_path / "fold1"):
        raise RuntimeError
    with fold_lock(tmp_path / "fold0"), fold_lock(tmp_path / "fold1"):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["fold0", "fold1"]
