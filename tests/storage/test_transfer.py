"""One object over connections that end when they like."""

import time
from pathlib import Path

import pytest

from tests.storage.conftest import Bucket
from tests.storage.proxy import Answer, Proxy, Request, error
from trainer.errors import InputError
from trainer.location import S3Url
from trainer.storage import store as store_module
from trainer.storage.store import READ_BYTES, Changed, Store
from trainer.storage.transfer import MAX_FAILURES, transfer

BODY = b"".join(number.to_bytes(4, "big") for number in range(100_000))  # 400,000 bytes, no two alike


@pytest.fixture
def url(bucket: Bucket) -> S3Url:
    return bucket.put("es.dbn", BODY)


def fetch(url: S3Url, part: Path) -> list[int]:
    """Transfers and returns what was reported."""
    store, seen = Store(url), []
    transfer(store, url, store.facts(url), part, seen.append)
    return seen


def starts(proxy: Proxy) -> list[int]:
    """First byte of every request for the object's bytes; each must name the ETag."""
    assert all("if-match" in request.headers for request in proxy.seen("GET"))
    return [
        int((request.range or "").removeprefix("bytes=").removesuffix("-")) for request in proxy.seen("GET")
    ]


def test_an_undisturbed_object_comes_in_one_request(url: S3Url, proxy: Proxy, tmp_path: Path) -> None:
    seen = fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == BODY
    assert starts(proxy) == [0]
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, len(BODY))


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("at", [1, READ_BYTES, 150_000, len(BODY) - 1])
def test_a_cut_connection_is_resumed_where_it_ended(
    at: int, reset: bool, url: S3Url, proxy: Proxy, tmp_path: Path
) -> None:
    def cut_first(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and len(proxy.seen("GET")) == 1:
            answer.cut_after, answer.reset = at, reset
        return answer

    proxy.change = cut_first
    fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == BODY
    first, second = starts(proxy)
    assert first == 0
    assert second <= at
    assert reset or at - READ_BYTES < second, "less than a piece is fetched twice"


def test_a_body_that_ends_early_in_good_order_is_resumed(url: S3Url, proxy: Proxy, tmp_path: Path) -> None:
    def short(request: Request, answer: Answer) -> Answer:
        if request.method == "GET":
            answer.body = answer.body[:90_000]
        return answer

    proxy.change = short
    fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == BODY
    assert starts(proxy) == [0, 90_000, 180_000, 270_000, 360_000]


def test_more_cuts_than_the_limit_are_fine_while_each_connection_brings_something(
    url: S3Url, proxy: Proxy, tmp_path: Path
) -> None:
    def cut(request: Request, answer: Answer) -> Answer:
        answer.cut_after = READ_BYTES if request.method == "GET" else None
        return answer

    proxy.change = cut
    fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == BODY
    assert len(starts(proxy)) > MAX_FAILURES
    assert starts(proxy) == list(range(0, len(BODY), READ_BYTES))


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        (lambda answer: Answer(answer.status, answer.headers, answer.body, cut_after=0), "nothing: cut;"),
        (lambda answer: Answer(answer.status, answer.headers, b""), "ended early"),
        (lambda answer: error(503, "SlowDown"), "SlowDown (HTTP 503)"),
        (lambda answer: error(500, "InternalError"), "InternalError (HTTP 500)"),
    ],
    ids=["cut", "empty", "slow down", "internal error"],
)
def test_connections_that_bring_nothing_end_after_a_bounded_number_and_keep_the_part(
    broken, cause: str, url: S3Url, proxy: Proxy, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    part.write_bytes(BODY[:100])
    proxy.change = lambda request, answer: broken(answer) if request.method == "GET" else answer
    with pytest.raises(InputError) as stopped:
        fetch(url, part)
    line = str(stopped.value)
    assert line.startswith(
        f"{url}: the download stopped at 100 of 400,000 bytes: 5 connections in a row brought"
    )
    assert cause in line
    assert line.endswith("run the same command again later: it goes on from there")
    assert part.read_bytes() == BODY[:100]
    assert starts(proxy) == [100] * MAX_FAILURES


def test_a_store_that_stalls_is_a_failed_connection(
    url: S3Url, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stall_once(request: Request, answer: Answer) -> Answer:
        if len(proxy.seen("GET")) == 1 and request.method == "GET":
            time.sleep(0.6)
        return answer

    monkeypatch.setattr(store_module, "READ_TIMEOUT_S", 0.2)
    proxy.change = stall_once
    fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == BODY
    assert starts(proxy) == [0, 0]


def test_a_store_without_ranges_still_completes_a_part(url: S3Url, proxy: Proxy, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(BODY[:200_001])

    def whole(request: Request, answer: Answer) -> Answer:
        if request.method == "GET":
            headers = {name: value for name, value in answer.headers.items() if name != "content-range"}
            return Answer(200, headers, BODY)
        return answer

    proxy.change = whole
    fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == BODY


def test_an_answer_with_a_later_range_is_not_taken(url: S3Url, proxy: Proxy, tmp_path: Path) -> None:
    def later(request: Request, answer: Answer) -> Answer:
        if request.method == "GET":
            answer.headers["content-range"] = f"bytes 8-{len(BODY) - 1}/{len(BODY)}"
        return answer

    proxy.change = later
    with pytest.raises(InputError, match=r"stopped at 0 of .*the store answers with another range"):
        fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == b""


def test_an_object_replaced_meanwhile_is_not_mixed_with_the_old_one(
    bucket: Bucket, url: S3Url, tmp_path: Path
) -> None:
    store = Store(url)
    facts = store.facts(url)
    (tmp_path / "part").write_bytes(BODY[:100])
    bucket.put("es.dbn", BODY[::-1])
    with pytest.raises(Changed):
        transfer(store, url, facts, tmp_path / "part", lambda _: None)
    assert (tmp_path / "part").read_bytes() == BODY[:100]


def test_a_refusal_is_not_tried_again(url: S3Url, proxy: Proxy, tmp_path: Path) -> None:
    proxy.change = lambda request, answer: error(403, "AccessDenied") if request.method == "GET" else answer
    with pytest.raises(InputError, match=r"es\.dbn: access denied \(HTTP 403\); allow these credentials"):
        fetch(url, tmp_path / "part")
    assert len(starts(proxy)) == 1


def test_an_endpoint_that_begins_to_redirect_is_one_line(url: S3Url, proxy: Proxy, tmp_path: Path) -> None:
    store = Store(url)
    facts = store.facts(url)
    proxy.change = lambda request, answer: Answer(301)
    with pytest.raises(
        InputError, match=r"es\.dbn: http://\S+ redirects every request; set AWS_ENDPOINT_URL"
    ):
        transfer(store, url, facts, tmp_path / "part", lambda _: None)


def test_a_part_longer_than_the_object_begins_anew(url: S3Url, tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"x" * (len(BODY) + 1))
    fetch(url, tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == BODY


def test_a_whole_part_and_an_empty_object_need_no_request(
    bucket: Bucket, url: S3Url, proxy: Proxy, tmp_path: Path
) -> None:
    (tmp_path / "part").write_bytes(BODY)
    fetch(url, tmp_path / "part")
    fetch(bucket.put("empty.dbn", b""), tmp_path / "empty")
    assert (tmp_path / "empty").read_bytes() == b""
    assert starts(proxy) == []
