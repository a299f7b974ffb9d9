"""A real S3 server process, and a proxy before it that fails on demand."""

import itertools
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.storage.proxy import Proxy
from trainer.location import S3Url
from trainer.storage import transfer
from trainer.storage.local import local_copy

SECRET = "not-to-be-shown"
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "AKIDTEST",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "1",  # boto3's own retries only take time here
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
_numbers = itertools.count(1)


class Bucket:
    """A bucket of one test, filled without the proxy."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.name = f"bucket-{next(_numbers)}"
        self.client.create_bucket(Bucket=self.name)

    def put(self, key: str, body: bytes, **options: str) -> S3Url:
        self.client.put_object(Bucket=self.name, Key=key, Body=body, **options)
        return S3Url(self.name, key)

    def put_parts(self, key: str, parts: list[bytes]) -> S3Url:
        """Uploads in parts of these sizes."""
        place = {"Bucket": self.name, "Key": key}
        upload = self.client.create_multipart_upload(**place)["UploadId"]
        tags = []
        for number, body in enumerate(parts, 1):
            answer = self.client.upload_part(**place, UploadId=upload, PartNumber=number, Body=body)
            tags.append({"PartNumber": number, "ETag": answer["ETag"]})
        self.client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": tags})
        return S3Url(self.name, key)

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)

    def __str__(self) -> str:
        return f"s3://{self.name}"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """URL of an S3 server process with small parts allowed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        **os.environ,
        "S3_UPLOAD_PART_MIN_SIZE": "1",
        "MOTO_S3_DEFAULT_KEY_BUFFER_SIZE": "16777216",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        env=settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        give_up = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "the S3 server ended"
                assert time.monotonic() < give_up, "the S3 server does not listen"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def client(server: str) -> Any:
    """Of the server itself, not of the proxy."""
    keys = {"aws_access_key_id": "admin", "aws_secret_access_key": "admin", "region_name": "us-east-1"}
    return boto3.session.Session().client("s3", endpoint_url=server, **keys)


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets a person's AWS variables for the store at the given endpoint, and takes away this machine's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(transfer, "PAUSE_S", 0.0)

    def use(endpoint: str) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)

    return use


@pytest.fixture
def proxy(server: str, settings: Callable[[str], None]) -> Iterator[Proxy]:
    """The endpoint of the test."""
    made = Proxy(server)
    settings(made.url)
    yield made
    made.close()


@pytest.fixture
def bucket(client: Any, proxy: Proxy) -> Bucket:
    return Bucket(client)


def downloads(root: Path) -> list[str]:
    """Names below the download directories of a cache root, without locks."""
    return sorted(p.name for p in (root / "downloads").rglob("*") if p.is_file() and p.name != ".lock")


A, B = random.Random(1).randbytes(300_000), random.Random(2).randbytes(200_000)


@pytest.fixture
def url(bucket: Bucket) -> str:
    """A prefix of two objects, A and B."""
    bucket.put("es/a.dbn", A)
    bucket.put("es/deep/b.dbn", B)
    return f"{bucket}/es"


def fetched(url: str, root: Path, seen: list[tuple[str, int, int]] | None = None) -> dict[str, bytes]:
    """Name -> content of the data files."""
    with local_copy(url, root, lambda *words: None if seen is None else seen.append(words)) as path:
        paths = [path] if path.is_file() else path.glob("*.dbn")
        return {path.name: path.read_bytes() for path in paths}


def record(root: Path, name: str) -> dict:
    (path,) = (root / "downloads").glob(f"*/{name}.s3.json")
    return json.loads(path.read_text())
