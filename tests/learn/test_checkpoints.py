"""The checkpoint store: what is kept, what is skipped, what is refused; and completion markers of stages."""

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainer.errors import ExitCode, InputError, MismatchError
from trainer.learn import checkpoints
from trainer.learn.checkpoints import CheckpointStore, file_sha256, require_identity


def sections(value: int) -> dict[str, Any]:
    return {"w": np.full(5, value, np.float32)}


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "fold0")
    for step in (5, 10, 100, 1000):
        report = store.save(step, sections(step))
        assert report.path == tmp_path / "fold0" / f"checkpoint-{step}.bin"
        assert report.num_bytes == report.path.stat().st_size
        assert report.elapsed_ms > 0
        assert str(report).startswith(f"checkpoint saved: {report.path} ({report.num_bytes} bytes, ")
    assert store.steps() == [1000, 100]
    found = store.newest_valid()
    assert found is not None
    assert found[0].name == "checkpoint-1000.bin"
    assert found[1].arrays["w"].tolist() == [1000] * 5


def test_a_directory_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "absent").newest_valid() is None
    (tmp_path / "train.jsonl").write_text("{}")
    assert CheckpointStore(tmp_path).newest_valid() is None


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "another step"])
def test_a_broken_newest_is_skipped_with_a_warning(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path)
    store.save(10, sections(1))
    newest = store.save(20, sections(2)).path
    body = newest.read_bytes()
    changed = {
        "truncated": body[:-9],
        "flipped": body[:50] + bytes([body[50] ^ 4]) + body[51:],
        "empty": b"",
        "another step": store.path(10).read_bytes(),
    }
    newest.write_bytes(changed[damage])
    with caplog.at_level(logging.WARNING):
        found = store.newest_valid()
    assert found is not None
    assert found[1].step == 10
    assert f"broken checkpoint skipped: {newest}" in caplog.text


def test_older_files_go_only_after_the_new_one_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, sections(1))
    store.save(2, sections(2))

    def broken(*_: object) -> int:
        raise InputError("bad CRC")

    monkeypatch.setattr(checkpoints, "write_foxc", broken)
    with pytest.raises(InputError):
        store.save(3, sections(3))
    assert store.steps() == [2, 1]


def test_a_file_that_cannot_be_removed_only_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path)
    for step in (1, 2):
        store.save(step, sections(step))

    def busy(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "unlink", busy)
    with caplog.at_level(logging.WARNING):
        store.save(3, sections(3))
    assert store.steps() == [3, 2, 1]
    assert f"old checkpoint not removed: {store.path(1)}: Operation not permitted" in caplog.text


def test_resuming_from_further_back_keeps_the_file_just_written(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for step in (10, 20, 30):
        store.save(step, sections(step))
    store.save(5, sections(5))
    assert store.steps() == [30, 20, 5]


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    leftover = tmp_path / "checkpoint-7.bin.tmp"
    leftover.write_bytes(b"half")
    store = CheckpointStore(tmp_path)
    assert store.newest_valid() is None
    store.save(8, sections(8))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-8.bin"]


def test_an_unusable_directory_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot use the checkpoint directory: Not a directory"):
        CheckpointStore(tmp_path / "file" / "fold0").save(1, sections(1))


def test_a_checkpoint_of_another_run_is_refused_naming_both_values(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(1, sections(1), {"config_digest": "aaaa", "data_fingerprint": "dddd"})
    found = store.newest_valid()
    assert found is not None
    require_identity(found[1], config_digest="aaaa", data_fingerprint="dddd")
    with pytest.raises(MismatchError, match="config digest is aaaa, this run's is bbbb") as caught:
        require_identity(found[1], config_digest="bbbb", data_fingerprint="dddd")
    assert caught.value.exit_code is ExitCode.MISMATCH
    with pytest.raises(MismatchError, match="data fingerprint is dddd, this run's is eeee"):
        require_identity(found[1], config_digest="aaaa", data_fingerprint="eeee")
    with pytest.raises(MismatchError, match="versions is absent"):
        require_identity(found[1], versions="2.11")


def test_the_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    path = tmp_path / "c.bin"
    path.write_bytes(b"abc" * 100_000)
    assert file_sha256(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()
    with pytest.raises(InputError, match="No such file"):
        file_sha256(tmp_path / "absent")
