"""Where data is: a path on this machine, or the text of an `s3://bucket/key` URL."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.errors import InputError

S3_SCHEME = "s3://"
# What botocore accepts as a bucket's name; other stores allow more than AWS does.
BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}")


@dataclass(frozen=True)
class S3Url:
    """An object, or everything under a prefix."""

    bucket: str
    key: str  # without a last slash; empty: the whole bucket

    @classmethod
    def parse(cls, text: str) -> "S3Url":
        """Reads `s3://bucket/key`. ValueError says what is wrong without repeating the text."""
        if not text.startswith(S3_SCHEME):
            raise ValueError("not an s3:// URL")
        bucket, _, key = text.removeprefix(S3_SCHEME).partition("/")
        if "@" in bucket or ":" in bucket:
            raise ValueError(
                "an s3:// URL holds no credentials and no port; set AWS_PROFILE or the AWS_* variables"
            )
        if not BUCKET.fullmatch(bucket):
            raise ValueError("the s3:// URL names no valid bucket; write s3://bucket/prefix")
        return cls(bucket, key.removesuffix("/"))

    def at(self, key: str) -> "S3Url":
        """Another key of the same bucket."""
        return S3Url(self.bucket, key)

    def __str__(self) -> str:
        return f"{S3_SCHEME}{self.bucket}/{self.key}"


def mirror_url(text: str | None) -> S3Url | None:
    """`--mirror` as a URL; None when absent or empty. The InputError for anything else does not repeat it."""
    if not text:
        return None
    try:
        return S3Url.parse(text)
    except ValueError as error:
        raise InputError(str(error), where="--mirror", do="give s3://bucket/prefix") from None


def data_location(text: str) -> Path | str:
    """A word of the command line as a location: an s3:// URL stays text, unchecked; all else is a path.

    `Path` would fold the two slashes of a URL into one.
    """
    return text if text.startswith(S3_SCHEME) else Path(text)


def valid_location(value: Any) -> Path | str:
    """A path as it is, an s3:// URL checked and in its one spelling. ValueError for anything else."""
    location = data_location(value) if isinstance(value, str) else value
    if isinstance(location, str):
        return str(S3Url.parse(location))
    if not isinstance(location, Path):
        raise ValueError("a path or an s3:// URL is needed")
    if str(location).startswith("s3:/"):
        raise ValueError("an s3:// URL was made a path and lost a slash; pass it as text")
    return location
