"""A staged directory appears whole or not at all, also when its writer is killed."""

import subprocess
import sys

import pytest

from trainer.data.staging import staged_directory
from trainer.errors import InputError

SLOW_BUILD = """
import sys, time
from pathlib import Path
from trainer.data.staging import staged_directory

with staged_directory(Path(sys.argv[1]), lambda path: True) as staging:
    (staging / "half").write_text("half")
    sys.stdout.write("building" + chr(10))
    sys.stdout.flush()
    time.sleep(60)
"""


def usable(path):
    return (path / "done").exists()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_killed_build_is_never_seen_and_its_leftover_goes_with_the_next(tmp_path):
    root = tmp_path / "root"
    command = [sys.executable, "-c", SLOW_BUILD, str(root / "target")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout.readline() == "building\n"
        with staged_directory(root / "other", usable) as staging:
            (staging / "done").touch()
        assert len(names(root)) == 2, "the living build keeps its directory"
        build.kill()
    assert not (root / "target").exists()
    with staged_directory(root / "target", usable) as staging:
        assert len([name for name in names(root) if "partial" in name]) == 1
        (staging / "done").touch()
    assert names(root) == ["other", "target"]
    assert names(root / "target") == ["done"]


def test_failed_block_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), staged_directory(tmp_path / "target", usable):
        raise ZeroDivisionError
    assert names(tmp_path) == []


def test_unusable_target_is_replaced_and_a_usable_one_kept(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "broken").touch()
    with staged_directory(target, usable) as staging:
        (staging / "done").write_text("first")
    assert names(target) == ["done"]
    with staged_directory(target, usable) as staging:
        (staging / "done").write_text("second")
    assert (target / "done").read_text() == "first"
    assert names(tmp_path) == ["target"]


def test_unwritable_place_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"file: cannot write here"),
        staged_directory(tmp_path / "file" / "target", usable),
    ):
        pytest.fail("the block must not run")
