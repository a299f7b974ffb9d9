"""Files into an S3 store: in parts, several at once, compared with what arrived. Imports boto3."""

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from s3transfer.manager import TransferConfig, TransferManager
from s3transfer.subscribers import BaseSubscriber

from trainer.location import S3Url
from trainer.storage.checksum import SIZE_ONLY, Differs, compare
from trainer.storage.failures import LATER, TryLaterError, explained, status_of
from trainer.storage.head import Head
from trainer.storage.store import Store
from trainer.storage.threads import DaemonThreads

PART_BYTES = 8 << 20
# Of a file opened before, s3transfer holds parts in memory: 4 x 8 MiB at most.
LIMITS = {
    "multipart_threshold": PART_BYTES,
    "multipart_chunksize": PART_BYTES,
    "max_request_concurrency": 4,
    "max_submission_concurrency": 1,
    "max_in_memory_upload_chunks": 4,
}
NOTE_BYTES = 1 << 20  # of an object that is read whole into memory
ALLOW = (
    "allow these credentials s3:ListBucket and s3:ListBucketMultipartUploads on the bucket, and "
    "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on its objects"
)


class WritableStore(Store):
    """A store with what it takes to mirror files. Methods raise InputError with the URL."""

    def __init__(self, url: S3Url) -> None:
        super().__init__(url)
        # s3transfer adds the checksums that botocore's settings ask for, and aborts an upload that fails.
        self._manager = TransferManager(self._client, TransferConfig(**LIMITS), executor_cls=DaemonThreads)

    def put(self, url: S3Url, file: Head, on_bytes: Callable[[int], None]) -> None:
        """Uploads a file and compares it with the object that the store then has.

        `on_bytes` gets the bytes sent since its last call, fewer than none where a part is sent again.
        """
        with explained(url, self.endpoint, ALLOW):
            counted = [_Counted(on_bytes)]
            # s3transfer closes what it uploads.
            self._manager.upload(file.again(), url.bucket, url.key, subscribers=counted).result()
        try:
            self._compare(url, file)
        except Differs as difference:
            what = f"the upload is not the file: {difference}"
            raise TryLaterError(what, where=str(url), do=LATER) from difference

    def holds(self, url: S3Url, file: Head) -> bool:
        """Whether the object is surely the file: a store that tells no checksum is not believed."""
        try:
            return self._compare(url, file) != SIZE_ONLY
        except Differs:
            return False

    def _compare(self, url: S3Url, file: Head) -> str:
        with file.again() as own:
            return compare(own, own.num_bytes, self, url, self.facts(url))

    def put_note(self, url: S3Url, body: bytes) -> None:
        """Writes a small object."""
        with explained(url, self.endpoint, ALLOW):
            self._client.put_object(Bucket=url.bucket, Key=url.key, Body=body)

    def note(self, url: S3Url) -> bytes | None:
        """A small object whole; None where there is none."""
        with explained(url, self.endpoint, ALLOW):
            try:
                answer = self._client.get_object(Bucket=url.bucket, Key=url.key)
            except ClientError as error:
                if status_of(error) == 404 and error.response.get("Error", {}).get("Code") != "NoSuchBucket":
                    return None
                raise
            with answer["Body"] as body:
                return bytes(body.read(NOTE_BYTES))

    def remove(self, url: S3Url) -> None:
        """Removes an object; one that is not there is no error."""
        with explained(url, self.endpoint, ALLOW):
            self._client.delete_object(Bucket=url.bucket, Key=url.key)

    def abort_uploads(self, directory: S3Url, whose: Callable[[str], bool]) -> int:
        """Aborts uploads in parts that never ended, of the names below the directory that are `whose`.

        A process that is killed leaves them, and their parts cost as much as objects do.
        """
        prefix, aborted = f"{directory.key}/", 0
        with explained(directory, self.endpoint, ALLOW):
            pages = self._client.get_paginator("list_multipart_uploads")
            for page in pages.paginate(Bucket=directory.bucket, Prefix=prefix):
                for found in page.get("Uploads", ()):
                    key = found["Key"]
                    if key.startswith(prefix) and whose(key.removeprefix(prefix)):
                        aborted += self._abort(directory.at(key), found["UploadId"])
        return aborted

    def _abort(self, url: S3Url, upload: str) -> bool:
        try:
            self._client.abort_multipart_upload(Bucket=url.bucket, Key=url.key, UploadId=upload)
        except ClientError as error:
            if status_of(error) != 404:  # it ended, or another process was quicker
                raise
            return False
        return True


class _Counted(BaseSubscriber):  # type: ignore[misc]
    def __init__(self, on_bytes: Callable[[int], None]) -> None:
        self._on_bytes = on_bytes

    def on_progress(self, future: Any, bytes_transferred: int, **_: Any) -> None:
        self._on_bytes(bytes_transferred)
