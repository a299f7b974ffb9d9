"""The records file `train.jsonl`: one JSON object a step, in step order, only ever appended to or cut.

Design page SYSTEM.md section 11. `{"step": 1, "wr": 0.5, ...}`, null where a metric has no finite value.
"""

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainer.errors import InputError

RECORDS_FILE = "train.jsonl"


def read_records(fold_dir: Path, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Columns of `train.jsonl`: `{"step" and each name: [n] float64}`, nan where the record has null.

    A last line torn by a crash is left out. Raises InputError when the file or a metric is missing.
    """
    path = fold_dir / RECORDS_FILE
    if not path.is_file():
        raise InputError("there is no training log", where=str(path), do="train this fold first")
    wanted = ("step", *names)
    rows: list[list[float]] = []
    for record, _ in _complete_records(path):
        if missing := [name for name in wanted if name not in record]:
            raise InputError(f"record {len(rows) + 1} lacks {', '.join(missing)}", where=str(path))
        rows.append([math.nan if (value := record[name]) is None else value for name in wanted])
    columns = np.array(rows, dtype=np.float64).reshape(-1, len(wanted)).T
    return dict(zip(wanted, columns, strict=True))


def last_recorded_step(path: Path) -> int:
    """Step of the last whole record, 0 if there is none."""
    step = 0
    for record, _ in _complete_records(path):
        step = int(record["step"] or 0)
    return step


def encoded(records: NDArray[np.floating], names: Sequence[str], first_step: int) -> Iterator[bytes]:
    """Lines of `train.jsonl` for `records` `[n, M] float`, row 0 being `first_step`; non-finite is null."""
    for step, row in enumerate(records, start=first_step):
        # str() of a numpy float is its shortest exact decimal: 0.1, not 0.10000000149011612 for a float32.
        values = [float(str(value)) if math.isfinite(value) else None for value in row]
        record = {"step": step, **dict(zip(names, values, strict=True))}
        yield json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _complete_records(path: Path) -> Iterator[tuple[dict[str, float | None], int]]:
    """Records in file order with the byte offset behind each, up to the first torn one."""
    offset = 0
    with path.open("rb") as lines:
        for line in lines:
            offset += len(line)
            try:
                record = json.loads(line)
            except ValueError:
                return
            if not line.endswith(b"\n") or not isinstance(record, dict) or "step" not in record:
                return
            yield record, offset


def cut_after(path: Path, step: int) -> int:
    """Cut all records after `step` and any torn one; returns the last step kept, 0 if none."""
    kept, end = 0, 0
    for record, offset in _complete_records(path):
        if (found := int(record["step"] or 0)) > step:
            break
        kept, end = found, offset
    # One change of the file's length: a crash leaves the old file or the cut one, never a mixture.
    with path.open("r+b") as file:
        file.truncate(end)
        os.fsync(file.fileno())
    return kept
