"""Who sends a fold's files: whoever started last. Imports boto3.

The last start leaves a note in the copy, and an earlier one that still lives on a lost node reads it before
each object it would send. No clock and no lease decide, so that a run can go on in another cluster at once.
"""

import json
import os
import socket
import uuid
from datetime import UTC, datetime

from trainer.errors import MismatchError
from trainer.location import S3Url
from trainer.storage.failures import TryLaterError
from trainer.storage.upload import WritableStore

WRITER_NAME = ".writer.json"


class Writer:
    """This start, and its note in the copy at `root`. Methods raise InputError."""

    def __init__(self, store: WritableStore, root: S3Url) -> None:
        self._store, self._root = store, root
        self._url = root.at(f"{root.key}/{WRITER_NAME}")
        self._me = uuid.uuid4().hex
        self._note = {
            "writer": self._me,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def claim(self) -> None:
        """Takes the copy over, which also shows that it may be written."""
        self._store.put_note(self._url, json.dumps(self._note).encode())

    def require_mine(self) -> None:
        """MismatchError if a later start has taken the copy over."""
        body = self._store.note(self._url)
        if body is None:  # someone emptied the bucket
            self.claim()
            return
        try:
            found = json.loads(body)
            host, since = str(found["host"])[:80], str(found["since"])[:40]
            writer, process = found["writer"], int(found["process"])
        except (ValueError, TypeError, KeyError) as error:  # a page of a proxy, say
            what = "does not say who sends this fold's files"
            raise TryLaterError(what, where=str(self._url), do="run the same command again") from error
        if writer != self._me:
            what = f"a later start sends this fold's files (process {process} of {host} since {since})"
            do = "stop one of the two, or use another --run-id"
            raise MismatchError(what, where=str(self._root), do=do)
