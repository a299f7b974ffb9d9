"""The lock that both the local runner and the trainer hold on the directory they write."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from trainer.errors import InputError
from trainer.lock import LOCK_NAME, directory_lock


def test_a_second_holder_is_refused_by_name_and_the_next_one_is_not(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "here"
    with (
        directory_lock(directory, "busy", "wait"),
        pytest.raises(InputError, match=rf"here: busy \(process {os.getpid()}\); wait$"),
        directory_lock(directory, "busy", "wait"),
    ):
        pytest.fail("two writers hold one directory")
    with directory_lock(directory, "busy", "wait"):
        assert (directory / LOCK_NAME).read_text() == f"{os.getpid()}\n"


def test_an_inherited_descriptor_keeps_the_lock_after_its_parent_let_go(tmp_path: Path) -> None:
    with directory_lock(tmp_path, "busy", "wait") as descriptor:
        inherited = os.dup(descriptor)
    try:
        with pytest.raises(InputError, match="busy"), directory_lock(tmp_path, "busy", "wait"):
            pytest.fail("the orphan's lock was ignored")
    finally:
        os.close(inherited)


def test_a_volume_without_locks_is_used_unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with (
        directory_lock(tmp_path, "busy", "wait") as first,
        directory_lock(tmp_path, "busy", "wait") as second,
    ):
        assert first != second


def test_a_file_in_the_way_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("not a directory")
    with (
        pytest.raises(
            InputError, match=r"^\S+run: cannot use the directory: File exists; choose a writable one$"
        ),
        directory_lock(tmp_path / "run", "busy", "wait"),
    ):
        pytest.fail("a file was locked as a directory")
