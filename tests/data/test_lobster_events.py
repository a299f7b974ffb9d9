"""What LOBSTER's messages become: actions, sides, books, times, events and halts."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracles import lobster
from trainer.data.lobster import LobsterReader
from trainer.presets import INSTRUMENTS

UNDEF_PRICE = np.iinfo(np.int64).max
LAST, BAD = 128, 4
DAY = date(2012, 6, 21)  # New York is 4 h behind UTC
NAME = lobster.message_name("AAPL", DAY, 2)
BOOK = "5859400,200,5853300,18,5859800,210,5853000,150"
THIN = "5859400,200,5853300,18,9999999999,0,-9999999999,0"
HALTED, QUOTES, RESUMED = (f"7,0,0,{state},-1" for state in (-1, 0, 1))


def read_lines(tmp_path, messages, books=None, name=NAME, chunk_records=16_384):
    path = lobster.write_pair(tmp_path, name, messages, books or [BOOK] * len(messages))
    with LobsterReader(path, chunk_records) as reader:
        chunks = list(reader)
    assert all(len(chunk) <= chunk_records for chunk in chunks)
    return np.concatenate(chunks)


def utc_ns(day, text):
    seconds, fraction = text.split(".")
    local = datetime.fromisoformat(f"{day}T00:00").replace(
        hour=int(seconds) // 3600, minute=int(seconds) // 60 % 60, second=int(seconds) % 60
    )
    return int(local.replace(tzinfo=ZoneInfo("America/New_York")).timestamp()) * 10**9 + int(fraction)


# What each message becomes


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("1,11,18,5853300,1", [(b"A", b"B", 18, 585_330_000_000, LAST)]),
        ("1,11,18,5859400,-1", [(b"A", b"A", 18, 585_940_000_000, LAST)]),
        ("2,11,5,5853300,1", [(b"C", b"B", 5, 585_330_000_000, LAST)]),
        ("3,11,18,5859400,-1", [(b"C", b"A", 18, 585_940_000_000, LAST)]),
        (
            "4,11,7,5859400,-1",
            [(b"T", b"B", 7, 585_940_000_000, 0), (b"C", b"A", 7, 585_940_000_000, LAST)],
        ),
        (
            "4,11,7,5853300,1",
            [(b"T", b"A", 7, 585_330_000_000, 0), (b"C", b"B", 7, 585_330_000_000, LAST)],
        ),
        ("5,0,7,5856350,-1", [(b"T", b"B", 7, 585_635_000_000, 0)]),
        ("5,0,7,5856350,1", [(b"T", b"A", 7, 585_635_000_000, 0)]),
        ("6,-1,9000,5856300,-1", [(b"T", b"N", 9000, 585_630_000_000, 0)]),
        (HALTED, [(b"R", b"N", 0, UNDEF_PRICE, BAD)]),
        (QUOTES, [(b"R", b"N", 0, UNDEF_PRICE, BAD)]),
        (RESUMED, [(b"R", b"N", 0, UNDEF_PRICE, 0)]),
    ],
)
def test_each_type_of_message_becomes_its_records(tmp_path, message, expected):
    records = read_lines(tmp_path, [f"34200.25,{message}"])
    found = records[["action", "side", "size", "price", "flags"]].tolist()
    assert found == expected
    assert set(records["ts_recv"]) == set(records["ts_event"]) == {utc_ns(DAY, "34200.250000000")}
    head = records[["length", "rtype", "publisher_id", "instrument_id", "sequence"]]
    assert set(head.tolist()) == {(92, 10, 2, 1, 1)}


def test_sides_of_hidden_orders_are_used_only_while_the_feed_told_them(tmp_path):
    for day, side in (("2014-07-11", b"A"), ("2014-07-13", b"A"), ("2014-07-14", b"N"), ("2024-03-04", b"N")):
        name = lobster.message_name("AAPL", day, 2)
        assert read_lines(tmp_path, ["34200.1,5,0,7,5856350,1"], name=name)["side"].tolist() == [side]


def test_levels_are_the_books_and_missing_ones_are_undefined(tmp_path):
    (whole,) = read_lines(tmp_path / "a", ["34200.1,1,1,1,1,1"], [BOOK])
    found = [int(whole[f"{side}_{field}_01"]) for side in ("bid", "ask") for field in ("px", "sz", "ct")]
    assert found == [585_300_000_000, 150, 0, 585_980_000_000, 210, 0]
    (thin,) = read_lines(tmp_path / "b", ["34200.1,1,1,1,1,1"], [THIN])
    assert (thin["bid_px_00"], thin["bid_sz_00"], thin["ask_sz_00"]) == (585_330_000_000, 18, 200)
    for record, first in ((whole, 2), (thin, 1)):
        for level in range(first, 10):
            for side in ("bid", "ask"):
                assert record[f"{side}_px_{level:02d}"] == UNDEF_PRICE
                assert record[f"{side}_sz_{level:02d}"] == record[f"{side}_ct_{level:02d}"] == 0


@pytest.mark.parametrize("levels", [1, 9, 10, 12, 50])
def test_any_number_of_levels_gives_the_first_ten(tmp_path, levels):
    words = [
        word
        for k in range(levels)
        for word in (5_859_400 + 100 * k, 10 + k, 5_853_300 - 100 * k, 2**31 - 1 - k)
    ]
    name = lobster.message_name("AAPL", DAY, levels)
    (record,) = read_lines(tmp_path, ["34200.1,1,1,1,1,1"], [",".join(map(str, words))], name)
    for level in range(10):
        found = [int(record[f"{field}_{level:02d}"]) for field in ("ask_px", "ask_sz", "bid_px", "bid_sz")]
        ask_px, ask_sz, bid_px, bid_sz = words[4 * level : 4 * level + 4] or (0, 0, 0, 0)
        known = [ask_px * 100_000, ask_sz, bid_px * 100_000, bid_sz]
        assert found == (known if level < levels else [UNDEF_PRICE, 0, UNDEF_PRICE, 0])


@pytest.mark.parametrize("chunk_records", [1, 2, 3, 100])
def test_a_trade_shows_the_book_before_its_message_and_the_first_one_none(tmp_path, chunk_records):
    kinds = [4, 5, 1, 4, 6, 5, 4]
    messages = [f"34200.{k},{kind},1,1,5853300,1" for k, kind in enumerate(kinds)]
    books = [f"5859400,200,5853300,{k + 1}" for k in range(len(kinds))]
    name = lobster.message_name("AAPL", DAY, 1)
    records = read_lines(tmp_path, messages, books, name, chunk_records=chunk_records)
    trade = records["action"] == b"T"
    line = records["sequence"].astype(int)
    assert line.tolist() == [1, 1, 2, 3, 4, 4, 5, 6, 7, 7]
    assert records["bid_sz_00"].tolist() == (line - trade).tolist()
    assert records["bid_px_00"][0] == UNDEF_PRICE


# Times


@pytest.mark.parametrize(
    ("day", "time", "expected"),
    [
        ("2012-06-21", "34200.004241176", "2012-06-21T13:30:00.004241176"),
        ("2012-06-21", "34200.004", "2012-06-21T13:30:00.004"),
        ("2012-06-21", "57600", "2012-06-21T20:00:00"),
        ("2024-01-16", "34200.000000001", "2024-01-16T14:30:00.000000001"),
        ("2024-01-16", "86399.999999999", "2024-01-17T04:59:59.999999999"),
        ("2024-03-08", "34200.5", "2024-03-08T14:30:00.5"),
        ("2024-03-10", "3600.5", "2024-03-10T06:00:00.5"),
        ("2024-03-10", "34200.5", "2024-03-10T13:30:00.5"),
        ("2024-03-11", "34200.5", "2024-03-11T13:30:00.5"),
        ("2024-11-03", "34200.5", "2024-11-03T14:30:00.5"),
    ],
)
def test_times_are_exact_and_follow_new_yorks_clock(tmp_path, day, time, expected):
    (record,) = read_lines(tmp_path, [f"{time},1,1,1,5853300,1"], name=lobster.message_name("AAPL", day, 2))
    assert record["ts_recv"] == np.datetime64(expected, "ns").astype(np.int64)


# Events


@pytest.mark.parametrize(
    ("messages", "last"),
    [
        ([(0, 1), (1, 1)], [1, 1]),
        ([(0, 1), (0, 1)], [0, 1]),
        ([(0, 4), (0, 4), (0, 5)], [0, 0, 0, 1, 0]),  # a sweep that ends in a hidden order
        ([(0, 1), (0, 5), (0, 3)], [0, 0, 1]),
        ([(0, 5), (1, 6)], [0, 0]),
        ([(0, 5), (0, 1), (1, 5)], [0, 1, 0]),
        ([(0, 1), (0, 7), (0, 1)], [0, 0, 1]),
    ],
)
@pytest.mark.parametrize("chunk_records", [1, 2, 100])
def test_the_last_change_of_the_book_at_a_time_completes_the_event(tmp_path, messages, last, chunk_records):
    """A trade that changes nothing does not take the mark away from the change before it."""
    lines = [f"34200.{time},{kind},1,1,{1 if kind == 7 else 5853300},1" for time, kind in messages]
    records = read_lines(tmp_path, lines, chunk_records=chunk_records)
    assert ((records["flags"] & LAST) != 0).tolist() == [bool(one) for one in last]


MESSAGE = st.tuples(
    st.integers(0, 2), st.sampled_from([1, 2, 3, 4, 4, 5, 6, 7]), st.sampled_from([-1, 1]), st.integers(1, 9)
)


def lines_of(drawn):
    """Message and book lines; the first number of each message is the time since the one before."""
    times = 34_200_000_000_000 + np.cumsum([step for step, *_ in drawn])
    messages = [
        f"{t // 10**9}.{t % 10**9:09d},{kind},1,{size},{direction if kind == 7 else 5853300},{direction}"
        for t, (_, kind, direction, size) in zip(times.tolist(), drawn, strict=True)
    ]
    return messages, [f"5859400,{k + 1},5853300,{size}" for k, (*_, size) in enumerate(drawn)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=st.lists(MESSAGE, min_size=1, max_size=30), chunk_records=st.integers(1, 12))
def test_records_equal_a_scalar_reading_in_any_chunking(tmp_path, drawn, chunk_records):
    name = lobster.message_name("AAPL", DAY, 1)
    records = read_lines(tmp_path, *lines_of(drawn), name, chunk_records=chunk_records)
    expected, time, halted = [], 0, False
    for k, (step, kind, direction, size) in enumerate(drawn):
        time += step
        halted = direction != 1 if kind == 7 else halted
        own = "A" if direction < 0 else "B"
        hit = "N" if kind == 6 else "BA"["AB".index(own)]
        later = [
            other for i, (other, *_) in enumerate(drawn) if i > k and drawn[i][1] <= 4 and _same(drawn, k, i)
        ]
        flags = BAD * halted
        if kind >= 4 and kind <= 6:
            expected.append((time, "T", hit, size, flags, k))
        if kind <= 4:
            expected.append((time, "A" if kind == 1 else "C", own, size, flags | LAST * (not later), k + 1))
        if kind == 7:
            expected.append((time, "R", "N", size, flags, k + 1))
    start = utc_ns(DAY, "34200.0")
    found = zip(
        (records["ts_recv"].astype(np.int64) - start).tolist(),
        *(records[name].astype(str).tolist() for name in ("action", "side")),
        *(records[name].tolist() for name in ("size", "flags", "ask_sz_00")),
        strict=True,
    )
    assert list(found) == expected


def _same(drawn, first, second):
    return sum(step for step, *_ in drawn[first + 1 : second + 1]) == 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    past=st.lists(MESSAGE, min_size=1, max_size=15),
    futures=st.tuples(*[st.lists(MESSAGE, min_size=0, max_size=9)] * 2),
)
def test_no_record_tells_of_a_later_time(tmp_path, past, futures):
    """Whatever follows at a later time, or nothing: the records up to a time are the same, LAST included."""
    name = lobster.message_name("AAPL", DAY, 1)
    found = []
    for future in futures:
        after = [(step + (index == 0), *rest) for index, (step, *rest) in enumerate(future)]
        records = read_lines(tmp_path, *lines_of([*past, *after]), name, chunk_records=5)
        found.append(records[records["sequence"] <= len(past)].tobytes())
    assert found[0] == found[1]


def test_no_row_in_a_halt_and_a_new_segment_after_it(tmp_path, build):
    """Quotes resume before trading does; trades of the reopening count for the first row after it."""
    steps = ["1", HALTED, "1", "4", QUOTES, "1", "6", RESUMED, "1", "1"]
    messages = [
        f"3600{k}.5,{step if len(step) > 1 else f'{step},1,1,5853300,1'}" for k, step in enumerate(steps)
    ]
    records = read_lines(tmp_path, messages)
    columns, segments, builder = build(records, instrument=INSTRUMENTS["equity"])
    rows = [utc_ns(DAY, f"3600{k}.5") for k in (0, 8, 9)]
    assert columns["ts_ns"].tolist() == [row - row % 10**9 + 500_000_000 for row in rows]
    assert segments["first_row"].tolist() == [0, 1]
    assert segments["ends_in_gap"].tolist() == [True, False], "nobody announced it"
    assert columns["trade_count"].tolist() == [0, 2, 0]
    assert builder.skipped == {
        **dict.fromkeys(builder.skipped, 0),
        "trade": 2,
        "clear": 3,
        "maybe_bad_book": 3,
    }
