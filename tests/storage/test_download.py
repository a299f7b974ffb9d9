"""A directory of verified files: fetched once, resumed, never mixed, one run at a time."""

import json
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.conftest import A, B, Bucket, downloads, fetched, record
from tests.storage.proxy import Answer, Proxy, Request
from trainer.errors import BusyError, InputError
from trainer.storage import download
from trainer.storage.local import local_copy


def test_a_path_is_itself(tmp_path: Path) -> None:
    with local_copy(tmp_path, tmp_path / "cache", lambda *_: None) as path:
        assert path == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_the_files_and_what_they_are_of(url: str, bucket: Bucket, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    assert fetched(url, tmp_path, seen) == {"a.dbn": A, "b.dbn": B}
    assert downloads(tmp_path) == ["a.dbn", "a.dbn.s3.json", "b.dbn", "b.dbn.s3.json"]
    assert record(tmp_path, "b.dbn") == {
        "url": f"{bucket}/es/deep/b.dbn",
        "etag": bucket.client.head_object(Bucket=bucket.name, Key="es/deep/b.dbn")["ETag"],
        "num_bytes": len(B),
        "version_id": None,
        "verified_by": "CRC32",
    }
    assert seen == sorted(seen)
    assert {what for what, _, _ in seen} == {"download"}
    assert seen[-1] == ("download", len(A + B), len(A + B))


def test_a_single_object_is_a_file(url: str, tmp_path: Path) -> None:
    assert fetched(f"{url}/a.dbn", tmp_path) == {"a.dbn": A}


def test_verified_files_are_not_fetched_again(url: str, proxy: Proxy, tmp_path: Path) -> None:
    fetched(url, tmp_path)
    proxy.requests.clear()
    seen: list[tuple[str, int, int]] = []
    assert fetched(url, tmp_path, seen) == {"a.dbn": A, "b.dbn": B}
    assert [request.method for request in proxy.requests] == ["GET"], "one listing"
    assert (proxy.seen("GET"), seen) == ([], [])


def test_a_store_that_lists_etags_without_quotes_is_not_read_twice(
    url: str, proxy: Proxy, tmp_path: Path
) -> None:
    def unquoted(request: Request, answer: Answer) -> Answer:
        if "list-type" in request.target:
            answer.body = answer.body.replace(b"&quot;", b"").replace(b'<ETag>"', b"<ETag>")
            answer.body = answer.body.replace(b'"</ETag>', b"</ETag>")
        return answer

    proxy.change = unquoted
    fetched(url, tmp_path)
    proxy.requests.clear()
    assert fetched(url, tmp_path) == {"a.dbn": A, "b.dbn": B}
    assert proxy.seen("GET") == []


def test_only_a_changed_object_is_fetched_again(
    url: str, bucket: Bucket, proxy: Proxy, tmp_path: Path
) -> None:
    fetched(url, tmp_path)
    bucket.put("es/a.dbn", A[::-1])
    proxy.requests.clear()
    assert fetched(url, tmp_path) == {"a.dbn": A[::-1], "b.dbn": B}
    assert [request.target for request in proxy.seen("GET")] == [f"/{bucket.name}/es/a.dbn"]


def test_what_the_store_no_longer_lists_is_no_data(url: str, bucket: Bucket, tmp_path: Path) -> None:
    fetched(url, tmp_path)
    bucket.delete("es/a.dbn")
    assert fetched(url, tmp_path) == {"b.dbn": B}
    assert downloads(tmp_path) == ["b.dbn", "b.dbn.s3.json"]


@pytest.mark.parametrize("damage", ["shorter", "gone", "no record", "bad record", "unverified"])
def test_a_file_that_is_not_surely_the_object_is_fetched_again(damage: str, url: str, tmp_path: Path) -> None:
    fetched(url, tmp_path)
    (path,) = (tmp_path / "downloads").glob("*/a.dbn")
    note = path.with_name("a.dbn.s3.json")
    if damage == "shorter":
        path.write_bytes(A[:-1])
    elif damage == "gone":
        path.unlink()
    elif damage == "no record":
        note.unlink()
    elif damage == "bad record":
        note.write_text("{")
    else:
        note.write_text(json.dumps({**json.loads(note.read_text()), "verified_by": None}))
        path.write_bytes(b"\0" * len(A))
    assert fetched(url, tmp_path) == {"a.dbn": A, "b.dbn": B}


def test_another_run_waits_and_then_fetches_nothing(
    url: str, proxy: Proxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[dict[str, bytes]] = []
    with local_copy(url, tmp_path, lambda *_: None):
        proxy.requests.clear()
        other = threading.Thread(target=lambda: found.append(fetched(url, tmp_path)))
        other.start()
        give_up = time.monotonic() + 60
        while not caplog.messages and time.monotonic() < give_up:
            time.sleep(0.01)  # on a busy machine it takes a while to arrive at the lock
        other.join(0.3)
        assert found == [], "it must not touch files that are being read"
    other.join(30)
    assert found == [{"a.dbn": A, "b.dbn": B}]
    assert proxy.seen("GET") == []
    assert caplog.messages == [f"{url}: waiting for another run that fetches or reads these files"]


def test_another_run_that_never_ends_is_a_temporary_failure(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "WAIT_S", 0.0)
    with (
        local_copy(url, tmp_path, lambda *_: None),
        pytest.raises(BusyError, match=rf"another run has fetched or read the files of {url} for 0 h"),
    ):
        fetched(url, tmp_path)


@pytest.fixture
def small_files() -> Iterator[int]:
    """The kernel refuses to make a file longer than this, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (250_000, hard))
    yield 250_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_is_one_line_and_what_was_written_of_the_file_goes(
    url: str, small_files: int, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as full:
        fetched(url, tmp_path)
    (directory,) = (tmp_path / "downloads").iterdir()
    assert str(full.value) == (
        f"{directory}: cannot write here (File too large); free some space or choose another --cache-dir"
    )
    assert downloads(tmp_path) == ["a.dbn.s3.json"]


def test_too_little_space_is_told_before_anything_is_fetched(
    url: str, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    monkeypatch.setattr(download, "FREE_MARGIN_BYTES", free + (1 << 40))
    with pytest.raises(
        InputError, match=r"500,000 bytes are to be fetched, [\d,]+ are free; free some space"
    ):
        fetched(url, tmp_path)
    assert proxy.seen("GET") == []


def test_a_cache_that_cannot_be_made_is_one_line(url: str, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match=r"cannot use the directory: .*; choose a writable one"):
        fetched(url, tmp_path / "cache")


def test_each_endpoint_and_url_has_a_directory_of_its_own(
    url: str, server: str, settings, tmp_path: Path
) -> None:
    fetched(url, tmp_path)
    fetched(f"{url}/", tmp_path)
    assert len(list((tmp_path / "downloads").iterdir())) == 1
    fetched(f"{url}/deep", tmp_path)
    settings(server)
    fetched(url, tmp_path)
    assert len(list((tmp_path / "downloads").iterdir())) == 3
