"""`python -m trainer prepare` and `walkforward run` on s3:// URLs, whole."""

import io
import json
from pathlib import Path

import pytest

from pipelines.commands.run import Run
from pipelines.identity import data_key
from pipelines.launch import launch
from tests.data import conftest as files
from tests.storage.conftest import SECRET, Bucket, downloads
from tests.storage.proxy import Answer, Proxy, Request, error
from tests.test_bad_input import RECORDS, nothing_left, the_line
from trainer.cli import main
from trainer.errors import InputError

BODY = files._encode(files._records(RECORDS))


def prepare(source: str, root: Path, run: str = "bad", *options: str) -> int:
    config = root / "small.yaml"
    config.write_text("data: {decision_rows: 4, window_rows: 8, horizons: [1, 2, 4], folds: 1}\n")
    words = ["--run-dir", str(root / "runs" / run), "--mbp10-data-dir", source, "--config", str(config)]
    return main(["prepare", *words, *options])


@pytest.fixture
def url(bucket: Bucket) -> str:
    bucket.put("es/es-0108.dbn", BODY)
    return f"{bucket}/es"


def test_a_bucket_prepares_the_run_that_its_files_prepare(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "es-0108.dbn").write_bytes(BODY)
    assert prepare(url, tmp_path, "s3") == 0
    assert f"progress {len(BODY)}/{len(BODY)} download\n" in capsys.readouterr().out
    assert prepare(str(tmp_path / "local"), tmp_path, "local") == 0
    runs = [json.loads((tmp_path / "runs" / name / "run.json").read_text()) for name in ("s3", "local")]
    assert [run["config"]["run"].pop("mbp10_data_dir") for run in runs] == [url, str(tmp_path / "local")]
    assert runs[0] == runs[1], "config digest, data fingerprint, cache and windows"


def test_separate_trades_come_from_a_url_of_their_own(bucket: Bucket, url: str, tmp_path: Path) -> None:
    records = files._records(RECORDS)
    trades = files._trades(records["ts_recv"][::10], [3] * 60, [b"A"] * 60)
    bucket.put("trades/t.dbn", files._encode(trades, schema=files.databento_dbn.Schema.TRADES))
    assert prepare(url, tmp_path, "with", "--trades-data-dir", f"{bucket}/trades") == 0
    assert prepare(url, tmp_path, "same", "--trades-data-dir", url) == 0
    assert prepare(url, tmp_path, "without") == 0
    found = [
        json.loads((tmp_path / "runs" / name / "run.json").read_text())["data_fingerprint"]
        for name in ("with", "same", "without")
    ]
    assert found[0] != found[1] == found[2]


def test_an_endpoint_that_fails_midway_is_one_line_and_the_same_command_goes_on(
    url: str, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and "list-type" not in request.target:
            answer.cut_after = 131_072 if request.range == "bytes=0-" else 0
        return answer

    proxy.change = cut
    assert prepare(url, tmp_path) == 75
    assert the_line(capsys) == (
        f"error: {url}/es-0108.dbn: the download stopped at 131,072 of {len(BODY):,} bytes: "
        "5 connections in a row brought nothing: cut; "
        "check the network; run the same command again later: it goes on from there"
    )
    assert downloads(tmp_path / "runs" / "cache") == ["es-0108.dbn.part", "es-0108.dbn.s3.json"]
    assert not (tmp_path / "runs" / "bad").exists()
    proxy.change = lambda request, answer: answer
    proxy.requests.clear()
    assert prepare(url, tmp_path) == 0
    assert [request.range for request in proxy.seen("GET")] == ["bytes=131072-"]


REFUSED = [
    ("es", error(403, "AccessDenied"), 2, "access denied (HTTP 403); allow these credentials"),
    ("es/es-0108.dbn", Answer(403), 2, "access denied, or the credentials are refused (HTTP 403); allow"),
    ("es", error(503, "SlowDown"), 75, "the store answers SlowDown (HTTP 503); run the same command again"),
    ("no", None, 2, "no data file below it (names ending in .dbn or .dbn.zst, or LOBSTER's .csv); give"),
    ("no.dbn", None, 2, "there is no such object, or no such bucket (HTTP 404); check bucket and key"),
]


@pytest.mark.parametrize(
    ("key", "answer", "code", "said"), REFUSED, ids=[said[:30] for _, _, _, said in REFUSED]
)
def test_a_refusal_is_one_line_that_names_the_url_and_leaves_nothing(
    key: str,
    answer: Answer | None,
    code: int,
    said: str,
    bucket: Bucket,
    url: str,
    proxy: Proxy,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    proxy.change = lambda request, found: answer or found
    assert prepare(f"{bucket}/{key}", tmp_path) == code
    line = the_line(capsys)
    assert line.startswith(f"error: {bucket}/{key}: {said}")
    assert "; " in line
    nothing_left(tmp_path)


def test_a_damaged_transfer_is_one_line_and_no_data(
    url: str, proxy: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def flip(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and "list-type" not in request.target:
            answer.body = answer.body[:-1] + bytes([answer.body[-1] ^ 1])
        return answer

    proxy.change = flip
    assert prepare(url, tmp_path) == 2
    line = the_line(capsys)
    assert line.startswith(f"error: {url}/es-0108.dbn: the download is not the object: its CRC32 is ")
    assert line.endswith("it was removed; run again to fetch it anew; if that does not help, upload it again")
    assert downloads(tmp_path / "runs" / "cache") == ["es-0108.dbn.s3.json"]
    assert not (tmp_path / "runs" / "bad").exists()


def test_a_damaged_object_is_named_by_its_url(
    bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.put("es/2024/cut.dbn", BODY[:-100])
    assert prepare(f"{bucket}/es", tmp_path) == 2
    line = the_line(capsys)
    assert line.startswith(f"error: {bucket}/es/2024/cut.dbn @ ")
    assert "the file ends inside a record: 268 of 368 bytes; download it again" in line
    trades = files._trades([files.OPEN_NS], [1], [b"A"])
    bucket.put("t/t.dbn", files._encode(trades, schema=files.databento_dbn.Schema.TRADES))
    assert prepare(f"{bucket}/t", tmp_path) == 2
    assert the_line(capsys).startswith(
        f"error: {bucket}/t: no mbp-10 file, .dbn or .dbn.zst, in this directory"
    )


@pytest.mark.parametrize("given", ["s3://", f"s3://AKID:{SECRET}@bucket/es"])
def test_a_url_that_is_none_is_one_line_without_what_it_holds(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare(given, tmp_path) == 2
    line = the_line(capsys)
    assert line.startswith("error: options: run.mbp10_data_dir: ")
    assert SECRET not in line
    nothing_left(tmp_path)


def test_no_secret_is_in_any_file_of_the_run(url: str, tmp_path: Path) -> None:
    assert prepare(url, tmp_path) == 0
    for path in (tmp_path / "runs").rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
            assert b"AKIDTEST" not in path.read_bytes(), path


def test_the_run_id_follows_the_objects(bucket: Bucket, url: str, proxy: Proxy) -> None:
    first = data_key(url)
    assert data_key(f"{url}/") == first
    bucket.put("es/es-0109.dbn", BODY)
    assert data_key(url) != first
    assert proxy.seen("GET") == []


def test_walkforward_refuses_an_absent_bucket_before_it_makes_a_run(bucket: Bucket, tmp_path: Path) -> None:
    options = Run(mbp10_data_dir="s3://no-such-bucket/es", runs=tmp_path / "runs")
    with pytest.raises(InputError, match=r"s3://no-such-bucket/es: there is no such bucket"):
        launch(options, io.StringIO(), io.StringIO())
    assert not (tmp_path / "runs").exists()
