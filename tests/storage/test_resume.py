"""A download that something ended, and what the next one makes of what is there."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.storage.conftest import A, B, Bucket, downloads, fetched, record
from tests.storage.proxy import Answer, Proxy, Request, error
from trainer.errors import InputError


def cut(request: Request, answer: Answer) -> Answer:
    """The first connection for `a.dbn` brings a third; all others nothing."""
    if request.method == "GET" and request.target.endswith("a.dbn"):
        answer.cut_after = 131_072 if request.range == "bytes=0-" else 0
    return answer


def test_an_endpoint_that_fails_midway_keeps_the_part_and_the_next_run_goes_on_from_there(
    url: str, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.change = cut
    with pytest.raises(InputError, match=r"a\.dbn: the download stopped at 131,072 of 300,000 bytes"):
        fetched(url, tmp_path)
    assert downloads(tmp_path) == ["a.dbn.part", "a.dbn.s3.json"]
    assert record(tmp_path, "a.dbn")["verified_by"] is None
    proxy.change = lambda request, answer: answer
    proxy.requests.clear()
    assert fetched(url, tmp_path) == {"a.dbn": A, "b.dbn": B}
    assert [request.range for request in proxy.seen("GET")] == ["bytes=131072-", "bytes=0-"]
    assert downloads(tmp_path) == ["a.dbn", "a.dbn.s3.json", "b.dbn", "b.dbn.s3.json"]


def test_a_part_of_an_older_object_is_not_continued(
    url: str, bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.change = cut
    with pytest.raises(InputError):
        fetched(url, tmp_path)
    bucket.put("es/a.dbn", A[::-1])
    proxy.change = lambda request, answer: answer
    assert fetched(url, tmp_path)["a.dbn"] == A[::-1]


def test_a_part_without_a_record_is_not_continued(url: str, proxy: Proxy, tmp_path: Path) -> None:
    proxy.change = cut
    with pytest.raises(InputError):
        fetched(url, tmp_path)
    (note,) = (tmp_path / "downloads").glob("*/a.dbn.s3.json")
    note.unlink()
    (part,) = (tmp_path / "downloads").glob("*/a.dbn.part")
    part.write_bytes(b"of something else")
    proxy.change = lambda request, answer: answer
    assert fetched(url, tmp_path)["a.dbn"] == A


def test_an_object_replaced_during_its_transfer_is_fetched_as_it_is_now(
    url: str, bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    def replace_once(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and request.target.endswith("a.dbn") and len(proxy.seen("GET")) == 1:
            bucket.put("es/a.dbn", A[::-1])
            answer.cut_after = 100_000
        return answer

    proxy.change = replace_once
    assert fetched(url, tmp_path)["a.dbn"] == A[::-1]


def test_an_object_that_never_rests_is_one_line(
    url: str, bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    def replace(request: Request, answer: Answer) -> Answer:
        if request.method == "HEAD" and request.target.endswith("a.dbn"):
            bucket.put("es/a.dbn", os.urandom(1000))
        return answer

    proxy.change = replace
    with pytest.raises(
        InputError, match=r"es/a\.dbn: the object changed 3 times while it was read; run again"
    ):
        fetched(url, tmp_path)


def test_a_damaged_transfer_is_removed_and_the_next_run_fetches_it_anew(
    url: str, proxy: Proxy, tmp_path: Path
) -> None:
    def flip(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and request.target.endswith("b.dbn"):
            answer.body = bytes([answer.body[0] ^ 1]) + answer.body[1:]
        return answer

    proxy.change = flip
    with pytest.raises(InputError, match=r"es/deep/b\.dbn: the download is not the object: its CRC32 is "):
        fetched(url, tmp_path)
    assert [name for name in downloads(tmp_path) if "json" not in name] == ["a.dbn"]
    proxy.change = lambda request, answer: answer
    proxy.requests.clear()
    assert fetched(url, tmp_path) == {"a.dbn": A, "b.dbn": B}
    assert [request.range for request in proxy.seen("GET")] == ["bytes=0-"], "only b, from its start"


def test_a_store_that_sends_without_end_fills_no_disk(url: str, proxy: Proxy, tmp_path: Path) -> None:
    def more(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and request.target.endswith("a.dbn"):
            return Answer(200, {}, A + b"x" * 3_000_000)
        return answer

    proxy.change = more
    with pytest.raises(
        InputError, match=r"a\.dbn: the download is not the object: 3\d\d,\d+ bytes arrived, the"
    ):
        fetched(url, tmp_path)


def test_a_whole_part_that_cannot_be_verified_for_now_stays(
    url: str, bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    bucket.put_parts("es/a.dbn", [A[:100_000], A[100_000:]])

    def down(request: Request, answer: Answer) -> Answer:
        return error(503, "SlowDown") if "partNumber" in request.target else answer

    proxy.change = down
    with pytest.raises(
        InputError, match=r"a\.dbn: the store answers SlowDown|a\.dbn: the store answers with an"
    ):
        fetched(url, tmp_path)
    assert downloads(tmp_path) == ["a.dbn.part", "a.dbn.s3.json"]
    proxy.change = lambda request, answer: answer
    proxy.requests.clear()
    assert fetched(url, tmp_path) == {"a.dbn": A, "b.dbn": B}
    assert [request.target for request in proxy.seen("GET")] == [f"/{bucket.name}/es/deep/b.dbn"]


KILLED = """
import sys
from pathlib import Path
from trainer.storage.local import local_copy
with local_copy(sys.argv[1], Path(sys.argv[2]), lambda *_: None):
    print("done")
"""


def test_a_killed_run_is_continued(url: str, proxy: Proxy, tmp_path: Path) -> None:
    reached = threading.Event()

    def stall(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and request.range == "bytes=131072-":
            reached.set()
            time.sleep(30)
        answer.cut_after = 131_072 if request.method == "GET" and request.range == "bytes=0-" else None
        return answer

    proxy.change = stall
    process = subprocess.Popen([sys.executable, "-c", KILLED, url, str(tmp_path)], cwd=REPOSITORY)
    try:
        assert reached.wait(60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert downloads(tmp_path) == ["a.dbn.part", "a.dbn.s3.json"]
    proxy.change = lambda request, answer: answer
    proxy.requests.clear()
    assert fetched(url, tmp_path) == {"a.dbn": A, "b.dbn": B}
    assert [request.range for request in proxy.seen("GET")] == ["bytes=131072-", "bytes=0-"]
