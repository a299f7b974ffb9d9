"""Which objects an s3:// URL means, and what each is called on this machine."""

import hashlib
import re

from trainer.errors import InputError
from trainer.location import S3Url
from trainer.storage.store import Listed, Store

# Names of the files that `trainer.data` reads: DBN, and the two files of a LOBSTER recording.
DATA_NAME = re.compile(
    r"(?P<dbn>.+\.dbn(\.zst)?)|(?P<head>.+_)(?P<kind>message|orderbook)(?P<tail>_\d+\.csv(\.zst)?)", re.DOTALL
)
PARTNER = {"message": "orderbook", "orderbook": "message"}
# Most file systems allow 255 bytes; ".s3.json.tmp" must fit behind.
MAX_NAME_BYTES = 240


def data_objects(store: Store, url: S3Url) -> dict[str, Listed]:
    """File name -> object, sorted by name: one object, or all data files below a prefix at any depth.

    A key that ends like a data file is that object, and its partner where a recording is two files. Any other
    is a directory: `s3://b/es` does not mean `s3://b/es-old/...`. Raises InputError: nothing there, a key
    that cannot be a file here, two of one name.
    """
    if is_data_key(url.key):
        keys = [url.key, *_partner(url.key)]
        found = [_single(store, url.at(key)) for key in sorted(keys)]
    else:
        found = [listed for listed in store.list(url) if is_data_key(listed.url.key)]
    if not found:
        what = "no data file below it (names ending in .dbn or .dbn.zst, or LOBSTER's .csv)"
        raise InputError(what, where=str(url), do="give the files' prefix up to a slash")
    objects: dict[str, Listed] = {}
    for listed in found:
        name = file_name(listed.url)
        if name in objects:
            what = f"another object of the same name is below this URL: {objects[name].url}"
            raise InputError(what, where=str(listed.url), do="give the prefix of one of them")
        objects[name] = listed
    return dict(sorted(objects.items()))


def is_data_key(key: str) -> bool:
    """Whether a key's name is that of a file which the readers take."""
    return DATA_NAME.fullmatch(key.rpartition("/")[2]) is not None


def file_name(url: S3Url) -> str:
    """The last part of the key, as a name for a file.

    Raises InputError for names no file can have, and for `.` and `..` between slashes: HTTP libraries resolve
    them, so that another object would arrive.
    """
    *parents, name = url.key.split("/")
    bad = next((part for part in parents if part in (".", "..")), None)
    if bad is None and (name.startswith(".") or not name.isprintable() or "\\" in name):
        bad = name
    if bad is None and len(name.encode()) > MAX_NAME_BYTES:
        bad = f"{name[:40]}..."
    if bad is not None:
        what = f"the key holds {bad!r}, which cannot be part of a file's path here"
        raise InputError(what, where=str(url), do="rename the object, or give a prefix without it")
    return name


def content_key(url: S3Url) -> str:
    """12 hex digits of what the store lists under a URL: names, sizes and ETags. Fetches no object."""
    digest = hashlib.sha256()
    for name, listed in data_objects(Store(url), url).items():
        digest.update(f"{name}\0{listed.num_bytes}\0{listed.etag}\0".encode())
    return digest.hexdigest()[:12]


def _single(store: Store, url: S3Url) -> Listed:
    file_name(url)  # before any request: a key with ".." would ask for another object
    facts = store.facts(url)
    return Listed(url, facts.num_bytes, facts.etag)


def _partner(key: str) -> list[str]:
    """The key of the other file of a LOBSTER recording."""
    parent, slash, name = key.rpartition("/")
    found = DATA_NAME.fullmatch(name)
    if found is None or found["dbn"]:
        return []
    return [f"{parent}{slash}{found['head']}{PARTNER[found['kind']]}{found['tail']}"]
