"""The files of a source and what their headers say; one that cannot be read does not hide the others."""

from dataclasses import dataclass
from pathlib import Path

import databento_dbn

from trainer.data.dbn import AS_IS, DBN_SUFFIXES, PREFIX_BYTES, read_metadata
from trainer.data.inspection.report import Problem
from trainer.data.readers import Description, book_files, describe, stored_files
from trainer.data.stream import ByteStream
from trainer.errors import AlphaError, InputError


@dataclass(frozen=True)
class Listed:
    """A file with a readable header."""

    path: Path
    description: Description
    stored_bytes: int

    @property
    def only_symbol(self) -> str | None:
        """The symbol of all its records, where that is certain."""
        symbols = self.description.symbols
        return symbols[0] if len(symbols) == 1 and not self.description.grouped else None


def problem_of(error: AlphaError) -> Problem:
    """The error as `prepare` would end with it."""
    return Problem("error", error.what, error.where, error.do)


def list_files(source: Path) -> tuple[list[Listed], list[Problem]]:
    """Every readable file in time order, and what is wrong with the others. Raises InputError without any."""
    problems: list[Problem] = []
    refused = None
    try:
        paths = book_files(source)
    except InputError as error:
        # A directory is refused for one bad header: look at each file by itself.
        paths, refused = _dbn_files(source), problem_of(error)
        if not paths:
            raise
    listed: list[Listed] = []
    for path in paths:
        try:
            stored_bytes = sum(file.stat().st_size for file in stored_files(path))
            listed.append(Listed(path, describe(path), stored_bytes))
        except InputError as error:
            if len(paths) == 1 and refused is None:
                raise
            if not _holds_trades(path):
                problems.append(problem_of(error))
    if refused is not None and refused not in problems:
        problems.append(refused)
    if not listed:
        first = refused or problems[0]
        raise InputError(first.what, where=first.where, do=first.do)
    return listed, problems + _other_datasets(listed) + _legacy_files(source)


def _dbn_files(source: Path) -> list[Path]:
    if not source.is_dir():
        return []
    return sorted(path for path in source.iterdir() if path.is_file() and path.name.endswith(DBN_SUFFIXES))


def _holds_trades(path: Path) -> bool:
    try:
        return read_metadata(path, "trades") is not None
    except InputError:
        return False


def _other_datasets(listed: list[Listed]) -> list[Problem]:
    first = listed[0]
    return [
        Problem(
            "error",
            f"dataset {file.description.dataset}, but {first.path.name} is of {first.description.dataset}",
            str(file.path),
            "keep one venue's files in a directory",
        )
        for file in listed
        if file.description.dataset != first.description.dataset
    ]


def _legacy_files(source: Path) -> list[Problem]:
    found = sorted(path.name for path in source.glob("*.dbz")) if source.is_dir() else []
    if not found:
        return []
    what = f"{len(found)} legacy .dbz file{'s' * (len(found) > 1)} left out, such as {found[0]}"
    return [Problem("warning", what, str(source), "convert them to .dbn with the vendor's dbn tool")]


def mapped_symbols(path: Path) -> dict[int, str]:
    """Symbols by instrument id from a DBN header; of an id that served twice, both."""
    stream = ByteStream(path)
    try:
        prefix = stream.read(PREFIX_BYTES)
        body = stream.read(int.from_bytes(prefix[4:8], "little"))
    finally:
        stream.close()
    found: dict[int, set[str]] = {}
    for symbol, intervals in databento_dbn.Metadata.decode(prefix + body, AS_IS).mappings.items():
        for interval in intervals:
            ident, name = _oriented(symbol, str(interval["symbol"]))
            if ident.isdigit():
                found.setdefault(int(ident), set()).add(name)
    return {ident: ", ".join(sorted(names)) for ident, names in found.items()}


def _oriented(left: str, right: str) -> tuple[str, str]:
    """Id and symbol of a mapping: requests by id map the other way."""
    return (right, left) if right.isdigit() else (left, right)
