"""Which reader reads what: by name, one format a directory; every file of a recording is fingerprinted."""

import shutil

import databento_dbn
import numpy as np
import pytest

from tests.oracles import lobster
from trainer.config import Config
from trainer.data.readers import BookReader, book_files, describe, instrument_ids, open_book, stored_files
from trainer.data.sources import find_sources
from trainer.errors import InputError

BOOK = "5859400,200,5853300,18"


def lobster_day(directory, day="2012-06-21", start_ms=34_200_000, ticker="AAPL", num=3):
    name = f"{ticker}_{day}_{start_ms}_57600000_message_1.csv"
    messages = [f"{start_ms // 1000 + k}.5,1,{k},18,5853300,1" for k in range(num)]
    return lobster.write_pair(directory, name, messages, [BOOK] * num)


def message_of(book):
    return book.with_name(book.name.replace("_orderbook_", "_message_"))


def test_a_directory_of_pairs_gives_one_recording_a_pair_in_time_order(tmp_path):
    days = [("2012-06-22", 34_200_000), ("2012-06-21", 34_200_000), ("2012-06-21", 9_000_000)]
    late, middle, early = (lobster_day(tmp_path, day, start) for day, start in days)
    (tmp_path / "readme.txt").write_text("terms of use")
    assert book_files(tmp_path) == [early, middle, late]
    assert book_files(message_of(late)) == book_files(late) == [late]
    assert stored_files(late) == [message_of(late), late]


def test_a_directory_of_dbn_files_may_hold_the_vendors_own_tables(tmp_path, make_records, encode, write):
    path = write(tmp_path / "a.dbn", encode(make_records(2)))
    (tmp_path / "symbology.csv").write_text("raw_symbol,date\n")
    assert book_files(tmp_path) == book_files(path) == stored_files(path) == [path]


def test_both_formats_in_a_directory_are_refused_with_one_of_each(tmp_path, make_records, encode, write):
    book = lobster_day(tmp_path)
    write(tmp_path / "a.dbn", encode(make_records(2)))
    with pytest.raises(
        InputError, match=rf"both DBN and LOBSTER files, such as a\.dbn and {message_of(book).name}"
    ):
        book_files(tmp_path)


def test_a_pair_whose_name_was_changed_is_not_left_out_silently(tmp_path):
    lobster_day(tmp_path)
    (tmp_path / "AAPL_22_June.csv").write_text("34200.5,1,1,18,5853300,1\n")
    with pytest.raises(InputError, match=r"AAPL_22_June\.csv: a \.csv file whose name is not LOBSTER's"):
        book_files(tmp_path)
    for path in tmp_path.glob("AAPL_2012*"):
        path.unlink()
    with pytest.raises(InputError, match="name is not LOBSTER's"):
        book_files(tmp_path)


def test_several_tickers_are_listed(tmp_path):
    lobster_day(tmp_path)
    lobster_day(tmp_path, ticker="MSFT", day="2012-06-22")
    with pytest.raises(InputError, match="LOBSTER files of several tickers: AAPL, MSFT; keep each ticker in"):
        book_files(tmp_path)


def test_a_source_that_is_not_there_is_refused_whatever_its_name(tmp_path):
    for name in ("absent", "absent.dbn", "AAPL_2012-06-21_34200000_57600000_message_1.csv"):
        with pytest.raises(InputError, match="no such file or directory"):
            book_files(tmp_path / name)
    with pytest.raises(InputError, match="no mbp-10 file"):
        book_files(tmp_path)


def test_descriptions_say_what_is_known_before_reading(tmp_path, make_records, encode, write):
    records = make_records(2)
    found = [
        describe(write(tmp_path / f"{index}.dbn", encode(records, symbols=symbols, stype=stype)))
        for index, (symbols, stype) in enumerate(
            [
                (("ESH4",), databento_dbn.SType.RAW_SYMBOL),
                (("ES.FUT",), databento_dbn.SType.PARENT),
                (("ALL_SYMBOLS",), databento_dbn.SType.RAW_SYMBOL),
            ]
        )
    ]
    assert [one.grouped for one in found] == [False, True, True]
    assert (found[0].dataset, found[0].symbols, found[0].joins_trades) == ("GLBX.MDP3", ("ESH4",), True)
    assert found[0].format.startswith("DBN ")
    book = describe(message_of(lobster_day(tmp_path / "lobster")))
    assert (book.format, book.dataset, book.symbols) == ("LOBSTER", "XNAS.ITCH", ("AAPL",))
    assert not book.grouped
    assert not book.joins_trades


def dbn_recording(tmp_path, make_records, encode, write):
    return write(tmp_path / "a.dbn.zst", encode(make_records(50)))


def lobster_recording(tmp_path, *_):
    return lobster_day(tmp_path, num=50)


@pytest.mark.parametrize("recording", [dbn_recording, lobster_recording])
def test_every_reader_keeps_the_protocol(tmp_path, make_records, encode, write, recording):
    path = recording(tmp_path, make_records, encode, write)
    reader: BookReader = open_book(path, chunk_records=8)
    with reader:
        seen = []
        for chunk in reader:
            assert 0 < len(chunk) <= 8
            assert chunk.dtype == np.dtype(databento_dbn.MBP10Msg._dtypes)
            seen.append((chunk, chunk.copy(), reader.offset, reader.bytes_read))
        assert reader.path == path
        total = sum(file.stat().st_size for file in stored_files(path))
        assert reader.bytes_read == total
    assert sum(len(chunk) for chunk, *_ in seen) == 50
    assert all((chunk == copy).all() for chunk, copy, *_ in seen), "a chunk is the consumer's to keep"
    progress = [done for *_, done in seen]
    assert progress == sorted(progress)
    assert set((np.concatenate([chunk for chunk, *_ in seen])[["length", "rtype"]]).tolist()) == {(92, 10)}


def test_instruments_are_counted_over_all_files(tmp_path, make_records, encode, write):
    files = [
        write(tmp_path / "a.dbn", encode(make_records(5, ident=1))),
        write(
            tmp_path / "b.dbn", encode(np.concatenate([make_records(2, ident=1), make_records(3, ident=9)]))
        ),
    ]
    assert instrument_ids(files) == {1: 7, 9: 3}
    assert instrument_ids([lobster_day(tmp_path / "lobster", num=4)]) == {1: 4}


def test_the_fingerprint_covers_every_file_of_a_recording(tmp_path):
    book = lobster_day(tmp_path / "a")
    first = find_sources(Config(), tmp_path / "a", None)
    assert first.instrument.name == "equity"
    assert first.num_bytes == sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    assert find_sources(Config(), message_of(book), None).fingerprint == first.fingerprint
    for index, name in enumerate((book.name, message_of(book).name)):
        other = tmp_path / f"other{index}"
        shutil.copytree(tmp_path / "a", other)
        (other / name).write_bytes((other / name).read_bytes() + b"9")
        assert find_sources(Config(), other, None).fingerprint != first.fingerprint


def test_separate_trades_cannot_be_joined_to_a_format_without_common_ids(tmp_path):
    book = lobster_day(tmp_path / "a")
    assert find_sources(Config(), tmp_path / "a", tmp_path / "a").trade_files == []
    with pytest.raises(
        InputError, match=r"separate trades beside LOBSTER files, .*; leave out --trades-data"
    ):
        find_sources(Config(), book, tmp_path)
