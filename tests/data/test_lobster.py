"""The LOBSTER reader: whole pairs of files, one clear error for every damage, and the same cache as DBN's."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
import zstandard

import trainer.data.cache as cache_module
from tests.oracles import lobster
from trainer.config import Config
from trainer.data.cache import build_cache
from trainer.data.calendar import resolve_instrument
from trainer.data.columns import COLUMNS
from trainer.data.dbn import read_records
from trainer.data.lobster import LobsterReader
from trainer.data.readers import describe
from trainer.data.synthetic import write_market
from trainer.errors import InputError
from trainer.presets import demo

NAME = lobster.message_name("AAPL", date(2012, 6, 21), 2)
BOOK = "5859400,200,5853300,18,5859800,210,5853000,150"


def read_all(path, chunk_records=16_384):
    with LobsterReader(path, chunk_records) as reader:
        return np.concatenate(list(reader))


def error_of(path):
    with pytest.raises(InputError) as caught:
        read_all(path)
    line = str(caught.value)
    assert "\n" not in line
    assert "; " in line, "the line must say what to do"
    return line


# Damage


def good_pair(tmp_path, num=5):
    messages = [f"34200.{k:02d},1,{k},18,5853300,1" for k in range(num)]
    return lobster.write_pair(tmp_path, NAME, messages, [BOOK] * num)


def message_file(book):
    return book.with_name(NAME)


def test_a_good_pair_is_read_by_either_name(tmp_path):
    book = good_pair(tmp_path)
    assert read_all(book).tobytes() == read_all(message_file(book)).tobytes()
    assert len(read_all(book)) == 5


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("34200.2,1,1,18,5853300", "5 columns, expected 6"),
        ("34200.2,1,1,18,5853300,1,null", "7 columns, expected 6"),
        ("34200.2,1,1,18,585.33,1", "price is '585.33', not a whole number"),
        ("34200.2,one,1,18,5853300,1", "type is 'one', not a whole number"),
        ("34200.2x,1,1,18,5853300,1", "time is '34200.2x', not a number of at most 9 decimals"),
        ("34200.2,1,1,-18,5853300,1", "size -18 is not a number of shares"),
        ("34200.2,1,1,2147483648,5853300,1", "size 2147483648 is not a number of shares"),
        ("34200.2,1,1,18,92233720368548,1", "price 92233720368548 is not a price"),
        ("34200.2,1,1,18,-9223372036854775807,1", "price -9223372036854775807 is not a price"),
        ("34200.2,0,1,18,5853300,1", "type 0 is not one of 1 to 7"),
        ("34200.2,8,1,18,5853300,1", "type 8 is not one of 1 to 7"),
        ("34200.2,1,1,18,5853300,0", "direction 0 is not 1 or -1"),
        ("34200.2,7,0,0,2,-1", "price 2 is not a halt's -1, 0 or 1"),
        ("34199.9,1,1,18,5853300,1", "time goes backwards, to 34199900000000 ns after 34200010000000 ns"),
        ("86400.0,1,1,18,5853300,1", "time 86400000000000 ns is not within a day"),
        ("-1.5,1,1,18,5853300,1", "time -1500000000 ns is not within a day"),
    ],
)
def test_a_wrong_message_is_named_by_file_and_line(tmp_path, line, said):
    book = good_pair(tmp_path)
    lines = message_file(book).read_text().splitlines()
    lines[2] = line
    message_file(book).write_text("\n".join(lines) + "\n")
    found = error_of(book)
    assert found.startswith(f"{message_file(book)}:3: ")
    assert said in found


def test_time_going_backwards_between_two_chunks_is_an_error(tmp_path):
    book = good_pair(tmp_path)
    text = message_file(book).read_text()
    message_file(book).write_text(text.replace("34200.02,", "34200.00,"))
    for chunk_records in (1, 2, 5):
        with pytest.raises(InputError, match=r":3: time goes backwards, to 34200000000000 ns after"):
            read_all(book, chunk_records)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("5859400,200,5853300,18", "4 columns, expected 8"),
        (f"{BOOK},1,2,3,4", "12 columns, expected 8"),
        (BOOK.replace("150", "x"), "bid size 2 is 'x', not a whole number"),
        (BOOK.replace("150", "-150"), "bid size 2 is -150, which cannot be"),
        (BOOK.replace("200", "4294967296"), "ask size 1 is 4294967296, which cannot be"),
        (BOOK.replace("5859800", "92233720368548"), "ask price 2 is 92233720368548, which cannot be"),
        (BOOK.replace("5853300", "-92233720368548"), "bid price 1 is -92233720368548, which cannot be"),
    ],
)
def test_a_wrong_book_is_named_by_file_and_line(tmp_path, line, said):
    book = good_pair(tmp_path)
    book.write_text("\n".join([BOOK, BOOK, BOOK, line, BOOK]) + "\n")
    found = error_of(book)
    assert found.startswith(f"{book}:4: ")
    assert said in found


@pytest.mark.parametrize("chunk_records", [2, 5, 100])
@pytest.mark.parametrize("short", ["message", "orderbook"])
def test_files_of_different_length_are_an_error_at_the_end_of_the_shorter(tmp_path, short, chunk_records):
    book = good_pair(tmp_path, num=6)
    path = book.with_name(book.name.replace("_orderbook_", f"_{short}_"))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(InputError, match="ends after 5 rows, before AAPL") as caught:
        read_all(book, chunk_records)
    assert str(caught.value).startswith(f"{path}:6: ")


@pytest.mark.parametrize("kind", ["message", "orderbook"])
def test_a_truncated_or_empty_file_of_the_pair_is_an_error(tmp_path, kind):
    book = good_pair(tmp_path)
    path = book.with_name(book.name.replace("_orderbook_", f"_{kind}_"))
    path.write_bytes(path.read_bytes()[:-1])
    assert error_of(book).startswith(f"{path}:5: the file ends inside this line")
    path.write_text("")
    assert error_of(book).startswith(f"{path}: the file is empty")


def test_a_missing_partner_is_named(tmp_path):
    book = good_pair(tmp_path)
    message_file(book).unlink()
    assert error_of(book).startswith(f"{book}: its partner {NAME} is missing")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("AAPL.csv", "name is not LOBSTER's TICKER_YYYY-MM-DD_STARTMS_ENDMS_message_LEVELS.csv"),
        ("AAPL_2012-06-21_34200000_57600000_message_0.csv", "name is not LOBSTER's"),
        ("AAPL_20120621_34200000_57600000_message_2.csv", "name is not LOBSTER's"),
        ("AAPL_2012-06-31_34200000_57600000_message_2.csv", "2012-06-31 in the name is no date"),
    ],
)
def test_a_name_that_does_not_parse_says_which_form_it_should_have(tmp_path, name, said):
    path = lobster.write_pair(tmp_path, name, ["34200.1,1,1,1,1,1"], [BOOK])
    assert said in error_of(path)


def test_a_price_off_the_grid_is_named_by_file_and_line(tmp_path, build):
    """What only the instrument can tell is told after the reader, at the same place."""
    book = good_pair(tmp_path)
    book.write_text(book.read_text().replace("5853000", "5853050", 4).replace("5853050", "5853000", 3))
    config = Config().replaced(data={"folds": 1})
    with pytest.raises(InputError, match=r"bid_px_01 = 585\.305 is off the grid of equity") as caught:
        build_cache(config, book, tmp_path / "cache")
    assert str(caught.value).startswith(f"{book}:4: ")


# As a whole


def test_a_compressed_pair_holds_the_same_records(tmp_path):
    book = good_pair(tmp_path)
    plain = read_all(book)
    for path in (book, message_file(book)):
        path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
        path.unlink()
    packed = book.with_name(f"{book.name}.zst")
    assert read_all(packed).tobytes() == plain.tobytes()
    packed.write_bytes(packed.read_bytes()[:-4])
    assert "truncated" in error_of(packed)


def test_a_long_pair_is_read_a_little_at_a_time(tmp_path):
    """Of 15 MB no more than some blocks are read when the first chunk is there."""
    num, name = 40_000, lobster.message_name("AAPL", "2012-06-21", 10)
    book = ",".join(["5859400,200000000,5853300,200000000"] * 10)
    path = lobster.write_pair(tmp_path, name, ["34200.5,1,123456789,200,5853300,1"] * num, [book] * num)
    with LobsterReader(path, 100) as reader:
        next(iter(reader))
        assert reader.bytes_read < 4_500_000 < path.stat().st_size / 3


def test_the_reader_counts_bytes_of_both_files_and_closes_them_early(tmp_path):
    book = good_pair(tmp_path, num=50)
    total = book.stat().st_size + message_file(book).stat().st_size
    with LobsterReader(book, chunk_records=8) as reader:
        assert reader.offset is None
        assert sum(len(chunk) for chunk in reader) == 50
        assert reader.bytes_read == total
    with LobsterReader(book, chunk_records=8) as reader:
        next(iter(reader))


def test_stock_sessions_and_ticks_are_inferred(tmp_path):
    book = good_pair(tmp_path)
    found = describe(book)
    assert (found.format, found.symbols) == ("LOBSTER", ("AAPL",))
    instrument = resolve_instrument("auto", found)
    assert (str(instrument.tick_size), instrument.calendar) == ("0.01", "NYSE")


@pytest.fixture(scope="module")
def market(tmp_path_factory) -> tuple[Config, Path]:
    """Seven synthetic sessions, over the change to summer time and New York's midnights."""
    config = demo().replaced(
        synthetic={"sessions": 7, "rows_per_session": 512},
        data={
            "decision_rows": 4,
            "window_rows": 4,
            "horizons": (1, 2),
            "folds": 1,
            "instrument": "synthetic",
        },
    )
    directory = tmp_path_factory.mktemp("market")
    write_market(config, directory)
    return config, directory


@pytest.mark.parametrize("chunk_records", [777, 16_384])
def test_a_market_written_in_both_formats_gives_the_same_cache(
    market, tmp_path, monkeypatch, encode, write, chunk_records
):
    """All but what LOBSTER does not hold: order counts, and the marks of records between events."""
    config, directory = market
    records = np.concatenate([chunk for path in sorted(directory.iterdir()) for chunk in read_records(path)])
    for level in range(10):
        records[f"bid_ct_{level:02d}"] = records[f"ask_ct_{level:02d}"] = 0
    records["flags"][records["action"] == b"T"] = 0
    dbn = write(tmp_path / "market.dbn", encode(records, symbols=("SYNTH",), dataset="SYNTH"))
    files = lobster.write_lobster(tmp_path / "lobster", records)
    assert len(files) > 5
    one = build_cache(config, dbn, tmp_path / "cache")
    monkeypatch.setattr(cache_module, "CHUNK_RECORDS", chunk_records)
    other = build_cache(config, tmp_path / "lobster", tmp_path / "cache")
    assert one.num_rows == other.num_rows == 7 * 512
    for name in COLUMNS:
        if name != "features":
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name), err_msg=name)
    np.testing.assert_allclose(other.features, one.features, rtol=1e-5, atol=1e-5)
    assert other.segments.tobytes() == one.segments.tobytes()
    skipped = [dict(cache.manifest["skipped"], not_last=None) for cache in (one, other)]
    assert skipped[0] == skipped[1]
    assert skipped[0]["trade"] > 500
    assert one.signed_volume.any()
