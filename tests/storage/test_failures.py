"""Every failure of a store is one line: the URL, what happened, what to do, and no secret."""

import socket
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from tests.storage.conftest import SECRET, Bucket, downloads
from tests.storage.proxy import Answer, Proxy, error
from trainer.errors import InputError
from trainer.storage.local import local_copy


def refused(text: str, root: Path) -> str:
    """The one line, without the URL it begins with; nothing may be left on the disk."""
    with pytest.raises(InputError) as caught, local_copy(text, root, lambda *_: None):
        pytest.fail("there are data")
    line = str(caught.value)
    assert line.startswith(f"{text}: ")
    assert SECRET not in line
    assert "\n" not in line
    assert downloads(root) == []
    return line.removeprefix(f"{text}: ")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 forgets the credentials of earlier tests."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (error(403, "AccessDenied"), "access denied (HTTP 403); allow these credentials s3:ListBucket"),
        (error(403, "InvalidAccessKeyId"), "the store does not know the access key (HTTP 403); renew"),
        (error(403, "SignatureDoesNotMatch"), "the secret key does not fit the access key (HTTP 403)"),
        (error(400, "ExpiredToken"), "the credentials have expired (HTTP 400); renew or correct"),
        (error(403, "RequestTimeTooSkewed"), "this machine's clock is wrong (HTTP 403); set the clock"),
        (error(404, "NoSuchBucket"), "there is no such bucket (HTTP 404); check bucket and key"),
        (
            error(301, "PermanentRedirect", **{"x-amz-bucket-region": "eu-west-3"}),
            "the bucket is in another region, eu-west-3 (HTTP 301); set AWS_REGION",
        ),
        (error(400, "AuthorizationHeaderMalformed"), "the bucket is in another region (HTTP 400)"),
        (error(503, "SlowDown"), "the store answers SlowDown (HTTP 503); run the same command again later"),
        (error(500, "a b"), "the store answers with an error, or is no S3 store (HTTP 500); check AWS_END"),
        (error(404, "OwnWordForIt"), "there is no such object, or no such bucket; check bucket and key"),
        (error(409, "SomethingNew"), "the store refuses the request: SomethingNew (HTTP 409)"),
        (Answer(200, {"content-type": "text/html"}, b"<html><p>Hello"), "is no S3 store (HTTP 500)"),
        (Answer(200, {"content-type": "text/html"}, b"<html/>"), "does not answer like an S3 store; check"),
        (Answer(200, {}, b""), "does not answer like an S3 store; check AWS_ENDPOINT_URL"),
        (Answer(404, {"content-type": "text/html"}, b"<p>Not here"), "there is no such object, or no such"),
        (
            Answer(200, {}, b"<ListBucketResult>", cut_after=3, reset=True),
            ": cut; check the network and AWS_ENDPOINT_URL",
        ),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Answer) else value[:30],
)
def test_an_answer_that_refuses_a_listing(answer: Answer, said: str, proxy: Proxy, tmp_path: Path) -> None:
    proxy.change = lambda request, _: answer
    assert said in refused("s3://bucket/es", tmp_path)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "access denied, or the credentials are refused (HTTP 403); allow these credentials"),
        (404, "there is no such object, or no such bucket"),
        (400, "the store refuses the request: 400 (HTTP 400); renew or correct the credentials"),
        (301, "redirects every request; set AWS_ENDPOINT_URL to where it redirects"),
        (200, "does not answer like an S3 store; check AWS_ENDPOINT_URL"),
    ],
)
def test_an_answer_without_a_body_to_a_single_object(
    status: int, said: str, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.change = lambda request, _: Answer(status)
    assert said in refused("s3://bucket/es.dbn", tmp_path)


def test_a_failure_that_passes_is_not_even_seen(
    bucket: Bucket, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("es/a.dbn", b"x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    proxy.change = lambda request, answer: answer if len(proxy.requests) > 1 else error(503, "SlowDown")
    with local_copy(f"{bucket}/es", tmp_path, lambda *_: None) as path:
        assert (path / "a.dbn").read_bytes() == b"x"
    assert [request.method for request in proxy.requests] == ["GET", "GET", "HEAD", "GET"]


def test_an_archived_object_is_told(bucket: Bucket, proxy: Proxy, tmp_path: Path) -> None:
    url = bucket.put("es.dbn", b"x" * 100)
    proxy.change = lambda request, answer: (
        error(403, "InvalidObjectState") if request.method == "GET" else answer
    )
    with (
        pytest.raises(InputError, match=rf"{url}: the object is archived \(HTTP 403\); restore it"),
        local_copy(str(url), tmp_path, lambda *_: None),
    ):
        pytest.fail("there are data")


def test_a_real_store_without_the_bucket_or_the_object(bucket: Bucket, tmp_path: Path) -> None:
    assert refused("s3://no-such-bucket/es", tmp_path).startswith("there is no such bucket (HTTP 404)")
    assert refused(f"{bucket}/no.dbn", tmp_path).startswith("there is no such object, or no such bucket")


def test_no_credentials(proxy: Proxy, fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    line = refused("s3://bucket/es", tmp_path)
    assert line.startswith("no credentials found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and")
    assert proxy.requests == []


def test_half_of_the_credentials(
    proxy: Proxy, fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    file = tmp_path / "credentials"
    file.write_text(f"[default]\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    line = refused("s3://bucket/es", tmp_path)
    assert "credentials" in line


def test_a_profile_that_is_not_there(
    proxy: Proxy, fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "absent")
    assert refused("s3://bucket/es", tmp_path).startswith("the profile of AWS_PROFILE does not exist; check")


def test_a_damaged_settings_file(
    proxy: Proxy, fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    file.write_text(f"[default\nsecret = {SECRET}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    line = refused("s3://bucket/es", tmp_path)
    assert line.startswith("the AWS settings are not usable (ConfigParseError); check profile, region")


def test_an_endpoint_where_nobody_listens(settings: Callable[[str], None], tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings(f"http://user:{SECRET}@127.0.0.1:{closed.getsockname()[1]}")
        line = refused("s3://bucket/es", tmp_path)
        port = closed.getsockname()[1]
    assert line == (
        f"no connection to http://127.0.0.1:{port}: refused, or the host is not known; "
        "check the network and AWS_ENDPOINT_URL"
    )


@pytest.mark.parametrize("endpoint", [f"{SECRET}", f"http://[{SECRET}", "ftp://x"])
def test_an_endpoint_that_is_no_url(endpoint: str, settings: Callable[[str], None], tmp_path: Path) -> None:
    settings(endpoint)
    assert "AWS_ENDPOINT_URL" in refused("s3://bucket/es", tmp_path)


def test_an_encrypted_endpoint_that_speaks_plainly(
    proxy: Proxy, settings: Callable[[str], None], tmp_path: Path
) -> None:
    settings(proxy.url.replace("http", "https"))
    line = refused("s3://bucket/es", tmp_path)
    assert f"no connection to {proxy.url.replace('http', 'https')}: the certificate or the TLS" in line
