"""An inspection of an s3:// URL is that of its files, which the next run finds downloaded."""

import json
from pathlib import Path

import pytest

from tests.data import conftest as files
from tests.storage.conftest import Bucket
from trainer.cli import main

BODY = files._encode(files._records(600))
FEW = ["--preset", "demo", "--folds", "1", "--json"]


def inspected(location: str, root: Path, capsys: pytest.CaptureFixture[str]) -> dict:
    assert main(["inspect", location, *FEW, "--cache-dir", str(root / "cache")]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_bucket_and_its_files_here_give_one_report(
    bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("es/es-0108.dbn", BODY)
    (tmp_path / "es").mkdir()
    (tmp_path / "es" / "es-0108.dbn").write_bytes(BODY)
    remote, local = (
        inspected(f"{bucket}/es", tmp_path, capsys),
        inspected(str(tmp_path / "es"), tmp_path, capsys),
    )
    assert remote.pop("path") == f"{bucket}/es"
    assert local.pop("path") == str(tmp_path / "es")
    assert remote == local
    assert [path.name for path in (tmp_path / "cache" / "downloads").rglob("*.dbn")] == ["es-0108.dbn"]


def test_a_url_with_nothing_there_is_one_line(
    bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", f"{bucket}/absent", "--cache-dir", str(tmp_path)]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith(f"error: {bucket}/absent: ")
    assert streams.err.count("\n") == 1
