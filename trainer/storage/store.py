"""An S3 store through boto3: list, facts of an object, its bytes from any offset.

Endpoint, region, credentials, profile and proxies are boto3's: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
AWS_PROFILE, AWS_REGION and the rest, in its own order. Imports boto3.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from trainer.errors import InputError
from trainer.location import S3Url
from trainer.storage.failures import CONNECTION, FAILURES, explain, explained, reason, status_of

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
# Bytes of a piece are lost when the connection is cut within it; larger pieces are no faster.
READ_BYTES = 64 * 1024
CHECKSUMS = ("SHA256", "CRC64NVME", "CRC32C", "CRC32", "SHA1")
# Encrypted with a customer's key, or in a directory bucket, the ETag is not made of MD5 sums.
MD5_ENCRYPTION = (None, "AES256")
OPAQUE_CLASS = "EXPRESS_ONEZONE"


class Interrupted(Exception):  # noqa: N818 (an event that the transfer answers, not an error of its own)
    """The connection or the store failed in a way that may pass; says how."""


class Changed(Exception):  # noqa: N818
    """The object is no longer the one whose transfer began."""


@dataclass(frozen=True)
class Listed:
    """One line of a listing."""

    url: S3Url
    num_bytes: int
    etag: str  # in its quotes, as the store writes it


@dataclass(frozen=True)
class Facts:
    """What the store says about an object."""

    num_bytes: int
    etag: str
    version_id: str | None  # None: the bucket keeps no versions
    checksums: dict[str, str]  # algorithm of CHECKSUMS -> base64, with "-<parts>" where made of parts' sums
    checksum_type: str | None  # FULL_OBJECT, COMPOSITE, or not told
    etag_is_md5: bool


class Store:
    """A client of one bucket's store. Its methods raise InputError with the URL unless they say otherwise."""

    def __init__(self, url: S3Url) -> None:
        config = Config(
            retries={"mode": "standard"},  # AWS_MAX_ATTEMPTS says how many
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            # A part of an object cannot be checked against the sum of the whole: the file is, at its end.
            response_checksum_validation="when_required",
        )
        self.endpoint = "the store"
        with explained(url, self.endpoint):
            try:
                self._client: Any = boto3.client("s3", config=config)
            except ValueError:  # botocore's answer to an endpoint that is no URL; it repeats the text
                what, do = "the endpoint is not a URL", "check AWS_ENDPOINT_URL"
                raise InputError(what, where=str(url), do=do) from None
        self.endpoint = _without_user(self._client.meta.endpoint_url)

    def list(self, directory: S3Url) -> Iterator[Listed]:
        """Every object below the key as a directory, at any depth, in the order of keys, page after page."""
        prefix = f"{directory.key}/" if directory.key else ""
        with explained(directory, self.endpoint):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=directory.bucket, Prefix=prefix):
                if "IsTruncated" not in page:  # else a web page would be an empty bucket
                    raise KeyError("IsTruncated")
                for entry in page.get("Contents", ()):
                    yield Listed(directory.at(entry["Key"]), int(entry["Size"]), entry["ETag"])

    def facts(self, url: S3Url) -> Facts:
        """Size, version and checksums of an object."""
        with explained(url, self.endpoint):
            head = self._client.head_object(Bucket=url.bucket, Key=url.key, ChecksumMode="ENABLED")
            num_bytes, etag = int(head["ContentLength"]), str(head["ETag"])
        sums = {name: head[f"Checksum{name}"] for name in CHECKSUMS if head.get(f"Checksum{name}")}
        return Facts(
            num_bytes=num_bytes,
            etag=etag,
            version_id=head.get("VersionId"),
            checksums=sums,
            checksum_type=head.get("ChecksumType"),
            etag_is_md5=head.get("ServerSideEncryption") in MD5_ENCRYPTION
            and not head.get("SSECustomerAlgorithm")
            and head.get("StorageClass") != OPAQUE_CLASS,
        )

    def part_bytes(self, url: S3Url, part: int) -> tuple[int, int] | None:
        """Size of part 1, 2, ... of an object uploaded in parts, and their number; None: not told."""
        with explained(url, self.endpoint):
            try:
                head = self._client.head_object(Bucket=url.bucket, Key=url.key, PartNumber=part)
            except ClientError as error:
                if status_of(error) in (400, 405, 416, 501):
                    return None
                raise
        count = head.get("PartsCount")
        return None if count is None else (int(head["ContentLength"]), int(count))

    def read(self, url: S3Url, etag: str, start: int) -> Iterator[bytes]:
        """The object's bytes from offset `start` on, in pieces of READ_BYTES at most.

        The request holds for this ETag only: Changed when the object is another one by now. A version id
        would hold too, but needs a permission of its own. Raises Interrupted for what may pass.
        """
        try:
            answer = self._client.get_object(
                Bucket=url.bucket, Key=url.key, Range=f"bytes={start}-", IfMatch=etag
            )
            with contextlib.closing(answer["Body"]) as body:
                skip = _bytes_to_skip(answer, start)
                while piece := body.read(READ_BYTES):
                    yield piece[skip:]
                    skip = max(0, skip - len(piece))
        except (*CONNECTION, OSError) as error:
            raise Interrupted(reason(error)) from error
        except ClientError as error:
            status = status_of(error)
            if status in (412, 416):  # another ETag, or shorter than the offset
                raise Changed from error
            what, do = explain(error, self.endpoint)
            if status >= 500 or status == 429:
                raise Interrupted(what) from error
            raise InputError(what, where=str(url), do=do) from error
        except FAILURES as error:
            what, do = explain(error, self.endpoint)
            raise InputError(what, where=str(url), do=do) from error


def _bytes_to_skip(answer: dict[str, Any], start: int) -> int:
    """Bytes that an answer holds before `start`: all of them where the store knows no ranges."""
    found = re.match(r"bytes (\d+)-", answer.get("ContentRange") or "bytes 0-")
    first = int(found[1]) if found else -1
    if not 0 <= first <= start:
        raise Interrupted("the store answers with another range")
    return start - first


def _without_user(endpoint: str) -> str:
    """An endpoint for messages: user and password, if someone put them there, are left out."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
