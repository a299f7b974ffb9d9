"""Completion markers: a stage is done only for exactly what it completed."""

import json
from pathlib import Path

import pytest

from trainer.errors import InputError
from trainer.learn.markers import Marker, is_done, marker_path, read_marker, write_marker

MARKER = Marker(
    stage="train",
    fold=1,
    config_digest="aaaa",
    data_fingerprint="dddd",
    steps=200,
    checkpoint="checkpoint-200.bin",
    checkpoint_sha256="ff" * 32,
)


def test_a_marker_round_trips_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = write_marker(tmp_path, MARKER)
    assert path == tmp_path / "train.DONE.json" == marker_path(tmp_path, "train")
    assert read_marker(tmp_path, "train") == MARKER
    assert [entry.name for entry in tmp_path.iterdir()] == ["train.DONE.json"]
    assert json.loads(path.read_text())["steps"] == 200


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("steps", 400),
        ("config_digest", "bbbb"),
        ("data_fingerprint", "eeee"),
        ("checkpoint_sha256", "00" * 32),
        ("fold", 0),
    ],
)
def test_a_marker_of_anything_else_does_not_count(tmp_path: Path, key: str, value: object) -> None:
    write_marker(tmp_path, MARKER)
    expected = {"fold": 1, "config_digest": "aaaa", "data_fingerprint": "dddd", "steps": 200}
    assert is_done(tmp_path, "train", expected)
    assert not is_done(tmp_path, "train", {**expected, key: value})


def test_no_marker_is_not_done(tmp_path: Path) -> None:
    assert read_marker(tmp_path, "evaluate") is None
    assert not is_done(tmp_path, "evaluate", {})


def test_expecting_an_unknown_field_is_a_mistake_not_a_mismatch() -> None:
    with pytest.raises(KeyError):
        MARKER.matches({"step": 200})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"stage": "train"}', '{"stage": "other"}'])
def test_a_damaged_marker_is_one_clear_line(tmp_path: Path, text: str) -> None:
    marker_path(tmp_path, "train").write_text(text)
    with pytest.raises(InputError, match=r"train.DONE.json: not a completion marker: .*; delete it"):
        read_marker(tmp_path, "train")


def test_a_marker_of_another_stage_is_refused(tmp_path: Path) -> None:
    write_marker(tmp_path, MARKER).rename(marker_path(tmp_path, "gate"))
    with pytest.raises(InputError, match="found stage train, expected gate"):
        read_marker(tmp_path, "gate")


def test_an_unwritable_directory_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the marker"):
        write_marker(tmp_path / "absent", MARKER)
