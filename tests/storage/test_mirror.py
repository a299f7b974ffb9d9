"""`--mirror` of the stages, whole: out to the bucket, and back into an empty or older directory."""

import logging
import shutil
from pathlib import Path

import pytest

from tests.storage.conftest import SECRET, Bucket
from tests.storage.mirroring import *  # noqa: F403 (fixtures)
from tests.storage.mirroring import files, objects, puts, said, stage
from tests.storage.proxy import Proxy
from trainer.learn import mirror
from trainer.learn.checkpoints import CheckpointStore
from trainer.learn.mirror import no_mirror


def test_a_trained_fold_is_in_the_bucket_as_it_is_here(here: Path, bucket: Bucket, proxy: Proxy) -> None:
    assert stage("train", here, bucket) == 0
    there, local = objects(bucket), files(here)
    assert there.pop("run.json") == (here / "run.json").read_bytes()
    older = local.pop("fold0/checkpoint-8.bin")
    assert {name: there[name] for name in local} == local
    assert set(there) - set(local) <= {"fold0/checkpoint-8.bin"}, "older ones are removed there too"
    assert there.get("fold0/checkpoint-8.bin", older) == older
    assert {"fold0/checkpoint-12.bin", "fold0/train.jsonl", "fold0/logs/attempt-1.log"} < set(local)
    sent = puts(proxy)
    assert sent[-1] == "fold0/train.DONE.json", "behind what it names"
    assert sent.index("fold0/train.jsonl") < sent.index("fold0/checkpoint-12.bin")


def test_a_run_goes_on_in_another_cluster_with_the_bits_of_one_that_never_moved(
    here: Path, elsewhere: Path, trained: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage("train", here, bucket, "--n-steps", "8") == 0
    capsys.readouterr()
    assert stage("train", elsewhere, bucket) == 0
    assert f"resumed from step 8 ({elsewhere}/fold0/checkpoint-8.bin)" in capsys.readouterr().out
    whole, moved = files(trained), files(elsewhere)
    for name in ("fold0/checkpoint-12.bin", "fold0/train.jsonl", "fold0/train.DONE.json"):
        assert moved[name] == whole[name], name
    assert "fold0/logs/attempt-1.log" in moved, "of the first cluster"
    assert "fold0/logs/attempt-2.log" in moved
    assert objects(bucket)["fold0/train.DONE.json"] == whole["fold0/train.DONE.json"]


def test_finished_stages_return_at_once_elsewhere_and_send_nothing(
    here: Path,
    elsewhere: Path,
    bucket: Bucket,
    proxy: Proxy,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for fold in (0, 1):
        assert stage("train", here, bucket, fold=fold) == 0
        assert stage("evaluate", here, bucket, fold=fold) == 0
    assert stage("gate", here, bucket) == 4, "too few trades"
    proxy.requests.clear()
    capsys.readouterr()
    assert stage("train", elsewhere, bucket) == 0
    assert stage("evaluate", elsewhere, bucket) == 0
    assert said(capsys) == ["already trained: 12 steps (checkpoint-12.bin)", "already evaluated"]
    assert puts(proxy) == []
    there = objects(bucket)
    for name in ("run.json", "summary.json", "report.txt", "report.html", "gate.DONE.json"):
        assert there[name] == (here / name).read_bytes()
    assert there["fold0/metrics.json"] == (elsewhere / "fold0" / "metrics.json").read_bytes()
    # A gate that has neither run.json nor folds judges those of the bucket.
    alone = tmp_path / "alone" / "a1"
    assert stage("gate", alone, bucket) == 4
    assert (alone / "summary.json").read_bytes() == (here / "summary.json").read_bytes()
    assert not list(alone.glob("fold*/checkpoint-*")), "the gate needs none"


def test_a_directory_that_is_ahead_keeps_its_files_and_sends_them(
    here: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage("train", here, bucket, "--n-steps", "4") == 0
    from trainer.cli import main

    assert main(["train", "--run-dir", str(here), "--n-steps", "8"]) == 0
    capsys.readouterr()
    assert stage("train", here, bucket, "--n-steps", "8") == 0
    assert said(capsys) == ["already trained: 8 steps (checkpoint-8.bin)"]
    there, local = objects(bucket), files(here)
    assert {name: there.get(name) for name in local} == local


def test_a_directory_that_is_behind_takes_the_newer_state(
    here: Path, elsewhere: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage("train", elsewhere, bucket, "--n-steps", "4") == 0
    shutil.copytree(elsewhere, here, dirs_exist_ok=True)
    assert stage("train", here, bucket, "--n-steps", "8") == 0
    capsys.readouterr()
    assert stage("train", elsewhere, bucket, "--n-steps", "8") == 0
    assert said(capsys) == ["already trained: 8 steps (checkpoint-8.bin)"]
    assert files(elsewhere) == files(here)


def test_a_broken_checkpoint_in_the_bucket_is_passed_over(
    here: Path,
    elsewhere: Path,
    bucket: Bucket,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert stage("train", here, bucket, "--n-steps", "8") == 0
    whole = (here / "fold0" / "checkpoint-8.bin").read_bytes()
    bucket.put("runs/a1/fold0/checkpoint-10.bin", whole[:-50])
    bucket.put("runs/a1/fold0/checkpoint-9.bin", whole)
    bucket.put("runs/a1/fold0/train.jsonl", b"".join(b'{"step":%d}\n' % step for step in range(1, 11)))
    bucket.put("runs/a1/fold0/checkpoint-11.bin", whole)
    capsys.readouterr()
    with caplog.at_level(logging.WARNING):
        assert stage("train", elsewhere, bucket, "--n-steps", "8") == 0
    assert said(capsys) == ["already trained: 8 steps (checkpoint-8.bin)"]
    assert "checkpoint-11.bin was not restored: its records end at step 10" in caplog.text
    assert "truncated in section" in caplog.text
    assert "checkpoint-9.bin: found step 8, expected 9" in caplog.text
    assert CheckpointStore(elsewhere / "fold0").steps() == [8]


def test_a_marker_counts_only_with_the_checkpoint_that_it_names(
    here: Path, elsewhere: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    assert stage("train", here, bucket, "--n-steps", "4") == 0
    assert stage("evaluate", here, bucket) == 0
    other = shutil.copytree(here, here.parent / "other" / "a1")
    done = other / "fold0" / "train.DONE.json"
    digest = objects(bucket)["fold0/train.DONE.json"].decode().split('"checkpoint_sha256": "')[1][:64]
    bucket.put("runs/a1/fold0/train.DONE.json", done.read_text().replace(digest, "ab" * 32).encode())
    with caplog.at_level(logging.WARNING):
        assert stage("train", elsewhere, bucket, "--n-steps", "4") == 0
    assert "fold0/train.DONE.json was not restored: its checkpoint is not here" in caplog.text
    assert digest in objects(bucket)["fold0/train.DONE.json"].decode(), "trained again, to the same bits"


def test_only_known_names_of_the_bucket_become_files(here: Path, bucket: Bucket) -> None:
    bad = ["x", "logs/../../x", "logs/attempt-1.log/x", "logs/attempt-x.log", ".lock", "../../x", "/x"]
    for name in bad:
        bucket.put(f"runs/a1/fold0/{name}", b"bad")
    bucket.put("runs/a1/fold0/logs/attempt-7.log", b"good")
    assert stage("train", here, bucket, "--n-steps", "1") == 0
    assert [name for name, body in files(here).items() if body == b"bad"] == []
    assert not (here.parent / "x").exists()
    assert (here / "fold0" / "logs" / "attempt-7.log").read_bytes() == b"good"


def test_no_secret_is_in_the_bucket_nor_in_the_directory(
    here: Path, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage("train", here, bucket, "--n-steps", "1") == 0
    listed = bucket.client.list_objects_v2(Bucket=bucket.name)["Contents"]
    bodies = [bucket.client.get_object(Bucket=bucket.name, Key=e["Key"])["Body"].read() for e in listed]
    bodies += [path.read_bytes() for path in here.rglob("*") if path.is_file()]
    bodies.append(capsys.readouterr().out.encode())
    assert not any(secret in body for body in bodies for secret in (SECRET.encode(), b"AKIDTEST"))


def test_a_slow_transfer_shows_its_bytes(
    here: Path,
    elsewhere: Path,
    bucket: Bucket,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mirror, "QUIET_S", 0.0)
    assert stage("train", here, bucket, "--n-steps", "2") == 0
    capsys.readouterr()
    assert stage("train", elsewhere, bucket, "--n-steps", "2") == 0
    size = (here / "fold0" / "checkpoint-2.bin").stat().st_size
    assert f"progress {size}/{size} restore\n" in capsys.readouterr().out


@pytest.mark.parametrize("location", [None, ""])
def test_without_a_mirror_there_is_nothing_to_wait_for(location: str | None, tmp_path: Path) -> None:
    with mirror.mirror(location, tmp_path / "none", "train", 0, lambda *_: None) as on_saved:
        assert on_saved is no_mirror
    assert list(tmp_path.iterdir()) == []
