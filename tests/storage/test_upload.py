"""Files into a store: in parts, several at once, compared with what arrived; nothing half-sent is left."""

import base64
import random
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.storage.conftest import SECRET, Bucket
from tests.storage.proxy import Answer, Proxy, Request, error
from trainer.errors import ExitCode, InputError
from trainer.location import S3Url
from trainer.storage.head import Head
from trainer.storage.upload import PART_BYTES, WritableStore

LARGE = random.Random(3).randbytes(2 * PART_BYTES + 1000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"1234567")
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


@pytest.fixture
def url(bucket: Bucket) -> S3Url:
    return S3Url(bucket.name, "runs/a/file")


def put(url: S3Url, path: Path) -> list[int]:
    sent: list[int] = []
    with Head(path) as file:
        WritableStore(url).put(url, file, sent.append)
    return sent


def body_of(bucket: Bucket, url: S3Url) -> bytes:
    return bucket.client.get_object(Bucket=bucket.name, Key=url.key)["Body"].read()


def uploads(bucket: Bucket) -> list[str]:
    """Keys of uploads in parts that have not ended."""
    return [u["Key"] for u in bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])]


def test_a_small_file_is_one_request_with_a_checksum(
    bucket: Bucket, url: S3Url, file: Path, proxy: Proxy
) -> None:
    assert sum(put(url, file)) == 7
    assert body_of(bucket, url) == b"1234567"
    assert [request.method for request in proxy.requests] == ["PUT", "HEAD"]
    assert (
        proxy.requests[0].headers["x-amz-checksum-crc32"]
        == base64.b64encode(zlib.crc32(b"1234567").to_bytes(4, "big")).decode()
    )


def test_a_large_file_goes_in_parts_four_at_once(
    bucket: Bucket, url: S3Url, large: Path, proxy: Proxy
) -> None:
    large.write_bytes(LARGE + LARGE)
    lock, four, now, most = threading.Lock(), threading.Event(), [0], [0]

    def count(request: Request, answer: Answer) -> Answer:
        if "partNumber" in request.target and request.method == "PUT":
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
                if now[0] == 4:
                    four.set()
            four.wait(20)
            with lock:
                now[0] -= 1
        return answer

    proxy.change = count
    assert sum(put(url, large)) == 2 * len(LARGE)
    assert body_of(bucket, url) == LARGE + LARGE
    assert most[0] == 4
    assert uploads(bucket) == []
    parts = [r for r in proxy.seen("PUT") if "partNumber" in r.target]
    assert len(parts) == 5
    assert all("x-amz-checksum-crc32" in part.headers for part in parts)


def test_the_object_has_the_bytes_that_the_file_had_when_it_was_opened(
    bucket: Bucket, url: S3Url, large: Path
) -> None:
    with Head(large) as file:
        with large.open("ab") as more:
            more.write(b"later")
        large.unlink()
        WritableStore(url).put(url, file, lambda _: None)
    assert body_of(bucket, url) == LARGE


def test_a_part_that_fails_once_is_sent_again(
    bucket: Bucket, url: S3Url, large: Path, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    failed: list[str] = []

    def once(request: Request, answer: Answer) -> Answer:
        if "partNumber=3" in request.target and request.method == "PUT" and not failed:
            failed.append(request.target)
            return error(503, "SlowDown")
        return answer

    proxy.change = once
    put(url, large)
    assert failed
    assert body_of(bucket, url) == LARGE


def cut(request: Request, answer: Answer) -> Answer:
    """The store's answer to the third part is lost."""
    if "partNumber=3" in request.target and request.method == "PUT":
        return Answer(200, {}, b"x", cut_after=0, reset=True)
    return answer


CASES: list[tuple[Callable[[Request, Answer], Answer], str, bool]] = [
    (lambda r, a: error(404, "NoSuchBucket"), "there is no such bucket (HTTP 404); check bucket", False),
    (
        lambda r, a: error(403, "AccessDenied"),
        "access denied (HTTP 403); allow these credentials s3:ListB",
        False,
    ),
    (cut, "no connection to http://127.0.0.1:", True),
    (lambda r, a: error(400, "BadDigest"), "the bytes that arrived have another checksum (HTTP 400)", False),
    (lambda r, a: error(507, "XMinioStorageFull"), "the store is full (HTTP 507); free some space", True),
    (lambda r, a: error(403, "QuotaExceeded"), "the store is full (HTTP 403); free some space", False),
    (lambda r, a: error(503, "SlowDown"), "the store answers SlowDown (HTTP 503); run the same", True),
]


@pytest.mark.parametrize(("change", "said", "passes"), CASES, ids=[said[:22] for _, said, _ in CASES])
def test_a_failure_is_one_line_and_leaves_no_upload(
    change: Callable[[Request, Answer], Answer],
    said: str,
    passes: bool,
    bucket: Bucket,
    url: S3Url,
    large: Path,
    proxy: Proxy,
) -> None:
    # The upload begins, and its abort is let through: as a store fails in the middle.
    def in_parts(request: Request, answer: Answer) -> Answer:
        return change(request, answer) if "partNumber" in request.target else answer

    proxy.change = in_parts
    with pytest.raises(InputError) as caught:
        put(url, large)
    line = str(caught.value)
    assert line.startswith(f"{url}: {said}")
    assert "\n" not in line
    assert SECRET not in line
    assert (caught.value.exit_code == ExitCode.INTERRUPTED) == passes
    assert uploads(bucket) == []
    assert "Contents" not in bucket.client.list_objects_v2(Bucket=bucket.name)


def test_a_real_store_without_the_bucket(bucket: Bucket, file: Path) -> None:
    with pytest.raises(InputError, match=r"s3://no-such-bucket/a: there is no such bucket \(HTTP 404\)"):
        put(S3Url("no-such-bucket", "a"), file)


def test_an_endpoint_that_nobody_listens_at(file: Path, settings: Callable[[str], None]) -> None:
    settings("http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"no connection to http://127.0.0.1:9: refused") as caught:
        put(S3Url("bucket", "a"), file)
    assert caught.value.exit_code == ExitCode.INTERRUPTED


def test_an_object_with_other_bytes_than_the_file_is_told(
    bucket: Bucket, url: S3Url, file: Path, proxy: Proxy
) -> None:
    def other(request: Request, answer: Answer) -> Answer:
        if request.method == "PUT":
            bucket.put(url.key, b"7654321")
        return answer

    proxy.change = other
    with pytest.raises(
        InputError, match=r"runs/a/file: the upload is not the file: its .* is [0-9a-f]+, the"
    ) as caught:
        put(url, file)
    assert caught.value.exit_code == ExitCode.INTERRUPTED


def test_a_file_is_held_only_if_the_store_proves_it(
    bucket: Bucket, url: S3Url, file: Path, large: Path, proxy: Proxy
) -> None:
    store = WritableStore(url)
    for path in (file, large):
        put(url, path)
        with Head(path) as same:
            assert store.holds(url, same)
    put(url, file)
    file.write_bytes(b"1234568")
    with Head(file) as other:
        assert not store.holds(url, other)

    def silent(request: Request, answer: Answer) -> Answer:
        tells = ("x-amz-checksum-crc32", "x-amz-checksum-type")
        kept = {k: v for k, v in answer.headers.items() if k not in tells}
        answer.headers = kept | {"etag": '"opaque"'}
        return answer

    proxy.change = silent
    file.write_bytes(b"1234567")
    with Head(file) as unproven:
        assert not store.holds(url, unproven)


KILLED = """
import sys
from pathlib import Path
from trainer.location import S3Url
from trainer.storage.head import Head
from trainer.storage.upload import WritableStore
url = S3Url.parse(sys.argv[1])
WritableStore(url).put(url, Head(Path(sys.argv[2])), lambda _: None)
"""


@pytest.fixture
def stalled(proxy: Proxy) -> Iterator[threading.Event]:
    """Set when the store was asked for its answer to the second part, which comes after the test."""
    reached, over = threading.Event(), threading.Event()

    def stall(request: Request, answer: Answer) -> Answer:
        if "partNumber=2" in request.target and request.method == "PUT":
            reached.set()
            over.wait(60)
        return answer

    proxy.change = stall
    yield reached
    over.set()


def test_what_a_killed_process_left_is_aborted_and_no_other_upload_is(
    bucket: Bucket, url: S3Url, large: Path, stalled: threading.Event
) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(url), str(large)], cwd=REPOSITORY)
    try:
        assert stalled.wait(60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    others = ["runs/a-other/file", "runs/a/deep/file"]
    for key in others:
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)
    assert sorted(uploads(bucket)) == sorted([url.key, *others])
    store = WritableStore(url)
    assert store.abort_uploads(url.at("runs/a"), lambda name: "/" not in name) == 1
    assert sorted(uploads(bucket)) == sorted(others)


def test_a_process_ends_while_its_upload_stalls(url: S3Url, large: Path, stalled: threading.Event) -> None:
    code = KILLED.replace("WritableStore(url).put(", "thread = threading.Thread(daemon=True, args=(")
    code = code.replace(
        "_: None)", "_: None), target=WritableStore(url).put)\nthread.start()\nsys.stdin.read()"
    )
    command = [sys.executable, "-c", f"import threading{code}", str(url), str(large)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE)
    assert stalled.wait(60)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(10) == 0


def test_a_note_that_is_not_there_is_none_and_a_bucket_that_is_not_is_an_error(bucket: Bucket) -> None:
    url = S3Url(bucket.name, "note")
    store = WritableStore(url)
    assert store.note(url) is None
    store.put_note(url, b"text")
    assert store.note(url) == b"text"
    store.remove(url)
    store.remove(url)
    assert store.note(url) is None
    with pytest.raises(InputError, match="there is no such bucket"):
        store.note(S3Url("no-such-bucket", "note"))
