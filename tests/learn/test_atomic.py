"""Atomic files: wholly there or not at all."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.learn.atomic import write_file, write_json


def test_chunks_are_joined_and_no_temporary_file_stays(tmp_path: Path) -> None:
    write_file(tmp_path / "a", [b"one", memoryview(b"two"), b""])
    assert (tmp_path / "a").read_bytes() == b"onetwo"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_failing_check_keeps_the_old_file_and_sees_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    seen = []

    def check(written: Path) -> None:
        seen.append(written.read_bytes())
        raise OSError("not what was meant")

    with pytest.raises(OSError, match="not what was meant"):
        write_file(path, [b"new"], check=check)
    assert seen == [b"new"]
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_an_interruption_between_chunks_leaves_nothing(tmp_path: Path) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"first"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", chunks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_json_without_a_number_is_refused(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", {"x": value})
    write_json(tmp_path / "a.json", {"x": 1.5})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1.5}
