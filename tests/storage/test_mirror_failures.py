"""A mirror that fails, stalls, or is another's: training goes on, and nothing is mixed."""

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.conftest import SECRET, Bucket
from tests.storage.mirroring import *  # noqa: F403 (fixtures)
from tests.storage.mirroring import files, objects, of_files, puts, stage, the_error
from tests.storage.proxy import Answer, Proxy, Request, error
from trainer.cli import main
from trainer.config import Config
from trainer.learn import mirror
from trainer.learn.checkpoints import CheckpointStore
from trainer.learn.lock import fold_lock
from trainer.learn.markers import read_marker
from trainer.learn.prepare import prepare


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


FAILURES = [
    (error(403, "AccessDenied"), "access denied (HTTP 403); allow these credentials s3:ListBucket and"),
    (error(404, "NoSuchBucket"), "there is no such bucket (HTTP 404); check bucket and key"),
    (error(507, "XMinioStorageFull"), "the store is full (HTTP 507); free some space"),
    (error(400, "BadDigest"), "the bytes that arrived have another checksum (HTTP 400); run the same"),
    (Answer(200, {}, b"x", cut_after=0, reset=True), "no connection to http://127.0.0.1:"),
]


@pytest.mark.parametrize(("answer", "said"), FAILURES, ids=[said[:16] for _, said in FAILURES])
def test_a_mirror_that_fails_is_one_warning_and_75_and_the_files_here_are_whole(
    answer: Answer,
    said: str,
    here: Path,
    bucket: Bucket,
    proxy: Proxy,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxy.change = of_files(lambda request, _: answer)
    with caplog.at_level(logging.WARNING):
        assert stage("train", here, bucket, "--n-steps", "5") == 75
    (warning,) = warnings(caplog)
    assert warning.startswith(f"the mirror is behind, the stage goes on: {bucket}/runs/a1/fold0/")
    assert said in warning
    line = the_error(capsys)
    assert said.split(";")[0] in line
    assert "the files here are whole; run the same command to send what is missing" in line
    assert SECRET not in warning + line
    marker = read_marker(here / "fold0", "train")
    assert marker is not None
    assert marker.steps == 5
    proxy.change = lambda request, found: found
    assert stage("train", here, bucket, "--n-steps", "5") == 0
    assert objects(bucket)["fold0/train.DONE.json"] == files(here)["fold0/train.DONE.json"]


def test_a_store_that_damages_files_is_one_warning_though_each_is_damaged_in_another_way(
    here: Path, bucket: Bucket, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    damage: list[bytes] = []

    def other_bytes(request: Request, answer: Answer) -> Answer:
        key = request.target.partition(f"{bucket.name}/")[2].partition("?")[0]
        damage.append(bytes(len(damage)))
        bucket.put(key, damage[-1])
        return answer

    proxy.change = of_files(other_bytes)
    with caplog.at_level(logging.WARNING):
        assert stage("train", here, bucket) == 75
    assert len(damage) > 1, "it tried once"
    (warning,) = warnings(caplog)
    assert "the upload is not the file: " in warning


def test_an_answer_that_is_no_note_of_a_writer_takes_nothing_over(
    here: Path, bucket: Bucket, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    def page(request: Request, answer: Answer) -> Answer:
        asked = request.method == "GET" and request.target.endswith("/fold0/.writer.json")
        return Answer(200, {}, b"<html>log in</html>") if asked else answer

    proxy.change = page
    assert stage("train", here, bucket) == 75
    said = "/runs/a1/fold0/.writer.json: does not say who sends this fold's files; the files here are whole"
    assert the_error(capsys).startswith(f"{bucket}{said}")
    proxy.change = lambda request, answer: answer
    assert stage("train", here, bucket) == 0


BEGINNINGS = [
    (error(403, "AccessDenied"), 2, "access denied (HTTP 403); allow these credentials s3:List"),
    (error(404, "NoSuchBucket"), 2, "there is no such bucket (HTTP 404); check bucket and key"),
    (error(503, "SlowDown"), 75, "the store answers SlowDown (HTTP 503); run the same command again later"),
    (Answer(200, {}, b"x", cut_after=0, reset=True), 75, "no connection to http://127.0.0.1:"),
]


@pytest.mark.parametrize("begins_with", ["listing", "note"])
@pytest.mark.parametrize(("answer", "code", "said"), BEGINNINGS, ids=[said[:16] for _, _, said in BEGINNINGS])
def test_a_stage_does_not_begin_before_it_has_seen_the_mirror(
    answer: Answer,
    code: int,
    said: str,
    begins_with: str,
    here: Path,
    bucket: Bucket,
    proxy: Proxy,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(request: Request, found: Answer) -> Answer:
        asked = "list-type" in request.target if begins_with == "listing" else request.method == "PUT"
        return answer if asked else found

    proxy.change = refuse
    assert stage("train", here, bucket) == code
    line = the_error(capsys)
    assert line.startswith(f"{bucket}/runs/a1")
    assert said in line
    assert files(here) == {}


def test_an_endpoint_that_nobody_listens_at_is_tried_again_later(
    here: Path, settings: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    settings("http://127.0.0.1:9")
    assert stage("gate", here, "s3://bucket") == 75
    assert "no connection to http://127.0.0.1:9: refused, or the host is not known" in the_error(capsys)


def test_training_does_not_wait_for_a_store_that_stalls(here: Path, bucket: Bucket, proxy: Proxy) -> None:
    begun, seen = threading.Event(), []
    marker = here / "fold0" / "train.DONE.json"

    def stall(request: Request, answer: Answer) -> Answer:
        if not begun.is_set():  # the first file waits until all is trained
            begun.set()
            for _ in range(600):
                if marker.exists():
                    break
                threading.Event().wait(0.05)
            seen.append(marker.exists())
        return answer

    proxy.change = of_files(stall)
    assert stage("train", here, bucket) == 0
    assert seen == [True]
    sent = puts(proxy)
    assert "fold0/checkpoint-8.bin" not in sent, "a newer one waited, and took its place"
    assert objects(bucket)["fold0/checkpoint-12.bin"] == files(here)["fold0/checkpoint-12.bin"]


def test_the_bucket_keeps_its_newest_checkpoint_until_a_newer_one_has_arrived(
    here: Path, bucket: Bucket, proxy: Proxy
) -> None:
    left: list[list[str]] = []

    def slow(request: Request, answer: Answer) -> Answer:
        if "/fold0/checkpoint-" not in request.target:
            return answer
        # Until all is trained: then the directory no longer has what was sent.
        give_up = time.monotonic() + 60
        while request.method == "PUT" and read_marker(here / "fold0", "train") is None:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        if request.method == "DELETE":
            left.append([name for name in objects(bucket) if "/checkpoint-" in name])
        return answer

    proxy.change = slow
    assert stage("train", here, bucket) == 0
    assert left, "nothing was removed"
    assert all(left), "a volume lost now would cost all of the training"


def test_a_signal_while_the_store_stalls_ends_in_time_and_the_next_start_sends_the_rest(
    here: Path,
    bucket: Bucket,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(mirror, "STOP_S", 0.5)
    over = threading.Event()

    def stop(request: Request, answer: Answer) -> Answer:
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            over.wait(60)
        return answer

    proxy.change = of_files(stop)
    with caplog.at_level(logging.WARNING):
        assert stage("train", here, bucket, "--n-steps", "5000") == 75
    over.set()
    assert "stopped by signal 15 at step" in the_error(capsys)
    (warning,) = warnings(caplog)
    said = "lacks the newest files, the next start sends them: 0.5 s were not enough"
    assert warning == f"{bucket}/runs/a1/fold0 {said}"
    step = CheckpointStore(here / "fold0").steps()[0]
    assert stage("train", here, bucket, "--n-steps", str(step)) == 0
    assert f"fold0/checkpoint-{step}.bin" in objects(bucket)


def test_a_signal_is_obeyed_and_all_is_sent_in_the_time_there_is(
    here: Path, bucket: Bucket, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[str] = []

    def stop(request: Request, answer: Answer) -> Answer:
        if not sent:
            os.kill(os.getpid(), signal.SIGTERM)
        sent.append(request.target)
        return answer

    proxy.change = of_files(stop)
    with caplog.at_level(logging.WARNING):
        assert stage("train", here, bucket, "--n-steps", "5000") == 75
    assert warnings(caplog) == []
    newest = f"fold0/checkpoint-{CheckpointStore(here / 'fold0').steps()[0]}.bin"
    assert objects(bucket)[newest] == files(here)[newest]


def test_uploads_that_a_killed_process_left_are_aborted_by_the_next_start(here: Path, bucket: Bucket) -> None:
    keys = [f"runs/a1/fold{fold}/checkpoint-8.bin" for fold in (0, 1)]
    for key in keys:
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)
    assert stage("train", here, bucket, "--n-steps", "1") == 0
    left = bucket.client.list_multipart_uploads(Bucket=bucket.name)["Uploads"]
    assert [upload["Key"] for upload in left] == keys[1:], "another fold may be sending it now"


def test_files_of_another_run_are_neither_read_nor_written(
    here: Path,
    bucket: Bucket,
    proxy: Proxy,
    config: Config,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = config.replaced(learn={"seed": 9})
    prepare(other, tmp_path / "other" / "a1", here.parent / "cache", lambda *_: None)
    body = (tmp_path / "other" / "a1" / "run.json").read_bytes()
    bucket.put("runs/a1/run.json", body)
    for name in ("train", "evaluate", "gate"):
        assert stage(name, here, bucket) == 78
        said = (
            f"{bucket}/runs/a1/run.json: config digest is {other.digest()}, this run's is {config.digest()}"
        )
        assert the_error(capsys) == f"{said}; use another --run-id, or another --mirror"
    assert proxy.seen("PUT") == []
    assert objects(bucket) == {"run.json": body}


def test_prepare_refuses_a_run_id_that_is_anothers_in_the_mirror(
    bucket: Bucket, config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config.model_dump(mode="json", exclude={"run", "preset"})))
    first, second = tmp_path / "1" / "a1", tmp_path / "2" / "a1"
    words = ["--preset", "demo", "--config", str(file), "--cache-dir", str(tmp_path / "cache")]
    assert stage("prepare", first, bucket, *words) == 0
    assert objects(bucket)["run.json"] == (first / "run.json").read_bytes()
    assert objects(bucket)["prepare.DONE.json"] == (first / "prepare.DONE.json").read_bytes()
    assert stage("prepare", second, bucket, *words, "--seed", "5") == 78
    assert "run.json: config digest is" in the_error(capsys)
    assert stage("prepare", second, bucket, *words) == 0
    assert objects(bucket)["run.json"] == (first / "run.json").read_bytes()


def test_an_earlier_start_that_still_lives_stops_sending_and_training(
    here: Path,
    bucket: Bucket,
    proxy: Proxy,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = {"writer": "another", "host": "node-b", "process": 7, "since": "2024-01-08T00:00:00+00:00"}
    taken: list[str] = []

    def take_over(request: Request, answer: Answer) -> Answer:
        if not taken:
            bucket.put("runs/a1/fold0/.writer.json", json.dumps(later).encode())
            taken.append(request.target)
        return answer

    proxy.change = of_files(take_over)
    with caplog.at_level(logging.WARNING):
        assert stage("train", here, bucket, "--n-steps", "100000") == 78, "nobody would have the results"
    assert the_error(capsys) == (
        f"{bucket}/runs/a1/fold0: a later start sends this fold's files (process 7 of node-b "
        "since 2024-01-08T00:00:00+00:00); stop one of the two, or use another --run-id"
    )
    (warning,) = warnings(caplog)
    assert warning.startswith("nothing more is sent, the stage ends: ")
    assert len(objects(bucket, "runs/a1/fold0/")) == 1, "what was on its way"
    note = bucket.client.get_object(Bucket=bucket.name, Key="runs/a1/fold0/.writer.json")
    assert json.loads(note["Body"].read()) == later


def test_who_finds_the_fold_taken_does_not_take_its_copy(
    here: Path, bucket: Bucket, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    with fold_lock(here / "fold0"):
        assert stage("train", here, bucket) == 75
    assert "another process works in this fold" in the_error(capsys)
    assert [r.target for r in proxy.seen("PUT") if "/fold0/" in r.target] == []


@pytest.mark.parametrize("given", ["s3://", f"s3://AKID:{SECRET}@bucket/es", "/local/path"])
def test_a_mirror_that_is_no_url_is_one_line_without_what_it_holds(
    given: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", "--run-dir", str(here), "--mirror", given]) == 2
    line = the_error(capsys)
    assert line.startswith("--mirror: ")
    assert line.endswith("; give s3://bucket/prefix")
    assert SECRET not in line
