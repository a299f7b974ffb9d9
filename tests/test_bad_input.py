"""Bad input on the command line: one line that says what is wrong, where and what to do; nothing left."""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import databento_dbn
import numpy as np
import pytest
import zstandard

from tests.data import conftest as files
from tests.oracles import lobster
from trainer.cli import main
from trainer.data.columns import ColumnWriter

RECORDS = 600
Write = Callable[[Path], Path]


def written(path: Path, data: bytes) -> Path:
    return files._write(path, data)


def truncated(root: Path) -> Path:
    path = written(root / "es.dbn.zst", files._encode(files._records(RECORDS)))
    path.write_bytes(path.read_bytes()[:-3000])
    return path


def cut_record(root: Path) -> Path:
    return written(root / "es.dbn", files._encode(files._records(RECORDS))[:-100])


def concatenated(root: Path) -> Path:
    data = files._encode(files._records(RECORDS))
    return written(root / "es.dbn.zst", data + data)


def flipped_byte(root: Path) -> Path:
    path = written(root / "es.dbn.zst", files._encode(files._records(RECORDS)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    return path


def wrong_schema(root: Path) -> Path:
    trades = files._trades(files.OPEN_NS + np.arange(9), np.ones(9), b"B")
    return written(root / "trades.dbn", files._encode(trades, schema=databento_dbn.Schema.TRADES))


def legacy(root: Path) -> Path:
    path = root / "old.dbz"
    path.write_bytes(b"\x51\x2a\x4d\x18\x04\x00\x00\x00DBZ\x01" + zstandard.compress(b"records"))
    return path


def several_instruments(root: Path) -> Path:
    records = files._records(RECORDS)
    records["instrument_id"][::2] = 9
    parent = databento_dbn.SType.PARENT
    return written(root / "es.dbn", files._encode(records, symbols=("ES.FUT",), stype=parent))


def off_grid(root: Path) -> Path:
    records = files._records(RECORDS)
    records["bid_px_03"][400] += 1
    return written(root / "es.dbn.zst", files._encode(records))


def too_few_rows(root: Path) -> Path:
    return written(root / "es.dbn.zst", files._encode(files._records(50)))


def unknown_instrument(root: Path) -> Path:
    return written(root / "cl.dbn", files._encode(files._records(RECORDS), symbols=("CLH4",)))


def time_backwards(root: Path) -> Path:
    records = files._records(RECORDS)
    records["ts_recv"][300:] -= 50_000_000_000
    return written(root / "es.dbn.zst", files._encode(records))


def text_file(root: Path) -> Path:
    return written(root / "es.dbn", b"ts,bid,ask\n1,2,3\n")


def empty_file(root: Path) -> Path:
    return written(root / "es.dbn.zst", b"")


def empty_directory(root: Path) -> Path:
    (root / "day").mkdir()
    return root / "day"


CASES = [
    (truncated, "truncated"),
    (cut_record, "268 of 368 bytes"),
    (concatenated, "concatenated"),
    (flipped_byte, "@"),
    (wrong_schema, "schema trades, not mbp-10"),
    (legacy, "legacy .dbz"),
    (off_grid, "bid_px_03"),
    (too_few_rows, "50 valid rows of 50 records"),
    (time_backwards, "ts_recv goes backwards"),
    (text_file, "not a DBN file"),
    (empty_file, ""),
    (empty_directory, "no mbp-10 file"),
]


def prepare(source: Path, root: Path, *options: str) -> int:
    config = root / "small.yaml"
    config.write_text("data: {decision_rows: 4, window_rows: 8, horizons: [1, 2, 4], folds: 1}\n")
    words = [
        "--run-dir",
        str(root / "runs" / "bad"),
        "--mbp10-data-dir",
        str(source),
        "--config",
        str(config),
    ]
    return main(["prepare", *words, *options])


def the_line(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


def nothing_left(root: Path) -> None:
    """No run, and no file under the cache's root: neither whole nor half-written."""
    runs = root / "runs"
    assert not (runs / "bad").exists()
    assert [str(path) for path in runs.rglob("*") if path.is_file() or path.name.startswith(".")] == []


def test_a_good_file_is_prepared(tmp_path: Path) -> None:
    """The ground on which every case below stands."""
    source = written(tmp_path / "es.dbn.zst", files._encode(files._records(RECORDS)))
    assert prepare(source, tmp_path) == 0
    assert (tmp_path / "runs" / "bad" / "run.json").exists()


def test_an_instrument_that_cannot_be_told_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = unknown_instrument(tmp_path)
    assert prepare(source, tmp_path) == 2
    assert "data.instrument: cannot infer the instrument of dataset GLBX.MDP3, CLH4; choose one" in the_line(
        capsys
    )
    nothing_left(tmp_path)
    assert prepare(source, tmp_path, "--instrument", "ES") == 0


def test_several_instruments_are_listed_with_their_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = several_instruments(tmp_path)
    assert prepare(source, tmp_path, "--instrument", "ES") == 2
    line = the_line(capsys)
    assert f"{source} @ " in line
    assert "several instruments: 7 (300 records), 9 (300 records); choose one: data.instrument_id" in line
    nothing_left(tmp_path)


def test_real_legacy_file_is_refused_by_name(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = shared_data / "dbn_official" / "test_data.mbp-10.dbz"
    assert prepare(source, tmp_path) == 2
    assert "legacy .dbz" in the_line(capsys)
    nothing_left(tmp_path)


@pytest.mark.parametrize("taken", ["run", "cache"])
def test_a_file_in_place_of_a_directory_is_one_line(
    taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written(tmp_path / "es.dbn.zst", files._encode(files._records(RECORDS)))
    (tmp_path / "taken").write_text("")
    other = ["--cache-dir", str(tmp_path / "taken" / "x")]
    if taken == "run":
        other = ["--run-dir", str(tmp_path / "taken" / "x"), "--cache-dir", str(tmp_path / "cache")]
    words = ["--run-dir", str(tmp_path / "runs" / "bad")] if taken == "cache" else []
    config = tmp_path / "small.yaml"
    config.write_text("data: {decision_rows: 4, window_rows: 8, horizons: [1, 2, 4], folds: 1}\n")
    base = ["prepare", "--mbp10-data-dir", str(source), "--config", str(config)]
    assert main([*base, *words, *other]) == 2
    line = the_line(capsys)
    assert str(tmp_path / "taken") in line
    assert "choose" in line
    assert (tmp_path / "taken").read_text() == ""


def test_a_full_disk_is_one_line_and_leaves_no_half_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path / "es.dbn.zst", files._encode(files._records(RECORDS)))

    def full(self: ColumnWriter, values: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ColumnWriter, "append", full)
    assert prepare(source, tmp_path) == 2
    line = the_line(capsys)
    assert (
        f"{tmp_path / 'runs' / 'cache'}: cannot write here (No space left on device); free some space" in line
    )
    nothing_left(tmp_path)
    monkeypatch.undo()
    assert prepare(source, tmp_path) == 0, "and with room again the same command works"


def test_an_unknown_key_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(tmp_path / "es.dbn.zst", files._encode(files._records(RECORDS)))
    config = tmp_path / "typo.yaml"
    config.write_text("data: {fold: 3}\n")
    words = ["--run-dir", str(tmp_path / "runs" / "bad"), "--mbp10-data-dir", str(source)]
    assert main(["prepare", *words, "--config", str(config)]) == 2
    assert the_line(capsys).startswith(f"error: {config}: data.fold: unknown key; see ")
    assert not (tmp_path / "runs").exists()


def test_bad_data_in_a_prepared_run_leaves_that_run_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = written(tmp_path / "es.dbn.zst", files._encode(files._records(RECORDS)))
    assert prepare(source, tmp_path) == 0
    before = {p: p.read_bytes() for p in (tmp_path / "runs").rglob("*") if p.is_file()}
    capsys.readouterr()
    shutil.copy(source, tmp_path / "whole")
    truncated(tmp_path)
    assert prepare(source, tmp_path) == 2
    assert "truncated" in the_line(capsys)
    assert {p: p.read_bytes() for p in (tmp_path / "runs").rglob("*") if p.is_file()} == before


LOBSTER_NAME = "AAPL_2012-06-21_34200000_57600000_message_2.csv"


def lobster_pair(root: Path) -> Path:
    """A directory with a good pair of 200 messages, a second apart, in a stock's session."""
    messages = [f"{34_200 + k}.5,1,{k},18,5853300,1" for k in range(200)]
    books = [f"5859400,{k + 1},5853300,18,5859500,7,5853200,{k + 1}" for k in range(200)]
    return lobster.write_pair(root / "pairs", LOBSTER_NAME, messages, books).parent


def pair_without_partner(root: Path) -> Path:
    directory = lobster_pair(root)
    (directory / LOBSTER_NAME).unlink()
    return directory


def pair_of_two_lengths(root: Path) -> Path:
    path = lobster_pair(root) / LOBSTER_NAME
    path.write_bytes(path.read_bytes() + b"36000.5,1,1,18,5853300,1\n")
    return path.parent


def pair_cut_short(root: Path) -> Path:
    path = lobster_pair(root) / LOBSTER_NAME
    path.write_bytes(path.read_bytes()[:-3])
    return path.parent


def pair_with_a_word(root: Path) -> Path:
    path = lobster_pair(root) / LOBSTER_NAME
    path.write_text(path.read_text().replace("34300.5,1,", "34300.5,new,"))
    return path.parent


def pair_of_more_levels(root: Path) -> Path:
    directory = lobster_pair(root)
    for path in directory.iterdir():
        path.rename(directory / path.name.replace("_2.csv", "_5.csv"))
    return directory


def pair_off_the_grid(root: Path) -> Path:
    (path,) = lobster_pair(root).glob("*_orderbook_*")
    path.write_text(path.read_text().replace("5859500,7,5853200,101\n", "5859450,7,5853200,101\n"))
    return path.parent


def pair_beside_dbn(root: Path) -> Path:
    directory = lobster_pair(root)
    written(directory / "es.dbn", files._encode(files._records(RECORDS)))
    return directory


def pairs_of_two_tickers(root: Path) -> Path:
    directory = lobster_pair(root)
    for path in list(directory.iterdir()):
        shutil.copy(path, directory / path.name.replace("AAPL", "MSFT"))
    return directory


def renamed_pair(root: Path) -> Path:
    path = lobster_pair(root) / LOBSTER_NAME
    path.rename(path.with_name("AAPL_message_2.csv"))
    return path.parent


LOBSTER_CASES = [
    (pair_without_partner, f"its partner {LOBSTER_NAME} is missing"),
    (pair_of_two_lengths, "_orderbook_2.csv:201: ends after 200 rows, before AAPL"),
    (pair_cut_short, f"{LOBSTER_NAME}:200: the file ends inside this line"),
    (pair_with_a_word, f"{LOBSTER_NAME}:101: type is 'new', not a whole number"),
    (pair_of_more_levels, "_orderbook_5.csv:1: 8 columns, expected 20"),
    (pair_off_the_grid, "_orderbook_2.csv:101: ask_px_01 = 585.945 is off the grid of equity"),
    (pair_beside_dbn, "both DBN and LOBSTER files"),
    (pairs_of_two_tickers, "several tickers: AAPL, MSFT"),
    (renamed_pair, "AAPL_message_2.csv: a .csv file whose name is not LOBSTER's"),
]


EVERY_CASE = [*CASES, *LOBSTER_CASES]


@pytest.mark.parametrize(("make", "said"), EVERY_CASE, ids=[make.__name__ for make, _ in EVERY_CASE])
def test_bad_data_is_one_line_that_names_the_file_and_what_to_do(
    make: Write, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make(tmp_path)
    assert prepare(source, tmp_path) == 2
    line = the_line(capsys)
    assert str(source) in line
    assert said in line
    assert "; " in line, "the line must say what to do"
    nothing_left(tmp_path)


def test_a_good_lobster_directory_and_either_of_its_files_are_prepared(tmp_path: Path) -> None:
    """The ground on which every LOBSTER case above stands; no instrument has to be named."""
    directory = lobster_pair(tmp_path)
    fingerprints = set()
    for number, source in enumerate([directory, *directory.iterdir()]):
        assert prepare(source, tmp_path, "--run-dir", str(tmp_path / "runs" / str(number))) == 0
        run = json.loads((tmp_path / "runs" / str(number) / "run.json").read_text())
        fingerprints.add(run["data_fingerprint"])
    assert len(fingerprints) == 1
    (manifest,) = (tmp_path / "runs" / "cache").glob("*/manifest.json")
    body = json.loads(manifest.read_text())
    assert (body["instrument"]["name"], body["num_rows"]) == ("equity", 200)
    assert len(body["sources"]) == 2
