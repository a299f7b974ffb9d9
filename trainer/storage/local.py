"""Data on this machine, wherever it came from."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainer.location import S3Url

Progress = Callable[[str, int, int], None]
"""`(what, done, total)` in units of the work at hand."""


@contextmanager
def local_copy(location: Path | str, cache_root: Path, on_progress: Progress) -> Iterator[Path]:
    """The file or directory of a location: a path itself, or the verified download of an s3:// URL.

    A download stays below `<cache_root>/downloads` and is held while the block runs, so that another run, to
    which the store shows newer objects, cannot replace a file that this one is reading. Progress is reported
    as `("download", bytes, bytes)`. Raises InputError with the URL, of exit code 75 where the store does
    not answer now, and BusyError (75) where another run holds the download for an hour.
    """
    if isinstance(location, Path):
        yield location
        return
    # boto3 takes half a second to load.
    from trainer.storage.download import downloaded

    def on_bytes(done: int, total: int) -> None:
        on_progress("download", done, total)

    with downloaded(S3Url.parse(location), cache_root, on_bytes) as path:
        yield path
