"""What names a run: code, config and data. The same three give the same run id, and so a resume.

The id is `<code, 12>-<config digest, 16>-<data key, 12>`: it begins with the code's sha (SYSTEM.md 9).
"""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from trainer.config import Config
from trainer.errors import InputError
from trainer.location import S3Url

REPOSITORY = Path(__file__).resolve().parent.parent
# How the names of files end that the trainer's readers take.
DATA_SUFFIXES = (".dbn", ".dbn.zst", ".csv", ".csv.zst")
# Enough of both ends of a file to tell two recordings apart without reading gigabytes.
SAMPLE_BYTES = 65_536


def code_key() -> str:
    """12 characters that change with the trainer's code.

    The commit where the trainer's sources are committed, else `dev` and a hash of the sources: an edited
    source must never be answered by the markers of an older one. An installed package may lie inside the work
    tree of another project, whose commit says nothing of it.
    """
    given = os.environ.get("CODE_SHA", "")
    if given:
        return given[:12]
    root, _, commit = (_git("rev-parse", "--show-toplevel", "HEAD") or "").partition("\n")
    if commit and Path(root).resolve() == REPOSITORY.resolve() and _is_committed():
        return commit[:12]
    digest = hashlib.sha256()
    for path in sorted((REPOSITORY / "trainer").rglob("*.py")):
        digest.update(str(path.relative_to(REPOSITORY)).encode() + b"\0" + path.read_bytes())
    return f"dev{digest.hexdigest()[:9]}"


def _is_committed() -> bool:
    return _git("status", "--porcelain", "--", "trainer") == ""


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(REPOSITORY), *words], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def data_key(data: Path | str) -> str:
    """12 hex digits of the recordings: names, sizes and both ends of every file, or the store's ETags.

    Raises InputError where there is no file to read, or an s3:// URL cannot be listed.
    """
    if isinstance(data, str):
        from trainer.storage.listing import content_key  # loads boto3: half a second

        return content_key(S3Url.parse(data))
    digest = hashlib.sha256()
    for path in _recordings(data):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(SAMPLE_BYTES))
            file.seek(max(0, size - SAMPLE_BYTES))
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:12]


def _recordings(data: Path) -> Iterator[Path]:
    if data.is_file():
        # A LOBSTER recording is two files, and either names it.
        kinds = ("_message_", "_orderbook_")
        names = {data.name, *(data.name.replace(one, other) for one in kinds for other in kinds)}
        return iter(sorted(path for name in names if (path := data.with_name(name)).is_file()))
    if not data.is_dir():
        raise InputError(
            "no such file or directory", where=str(data), do="give --data a .dbn file or a directory"
        )
    found = sorted(path for path in data.rglob("*") if path.name.endswith(DATA_SUFFIXES))
    if not found:
        raise InputError(
            "no .dbn or .csv file, plain or .zst, in it",
            where=str(data),
            do="give --data a directory of recordings",
        )
    return iter(found)


def run_id(config: Config) -> str:
    """`<code>-<config digest>-<data key>`; a synthetic market is its own name, its seed is in the digest.

    Raises InputError where the config's data cannot be read.
    """
    data, trades = config.run.mbp10_data_dir, config.run.trades_data_dir
    key = data_key(data) if data is not None else (config.market_source or "none")
    if trades is not None:
        key = hashlib.sha256(f"{key}{data_key(trades)}".encode()).hexdigest()[:12]
    return f"{code_key()}-{config.digest()}-{key}"
