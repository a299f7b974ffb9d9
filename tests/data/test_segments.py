"""Segments: announced and unannounced ends, rolls, and several instruments in one file."""

import numpy as np
import pytest

from trainer.data.rows import SeveralInstrumentsError
from trainer.errors import InputError

HOUR_NS = 3_600_000_000_000


def test_gap_starts_an_unannounced_segment_and_a_session_an_announced_one(build, make_records):
    first = make_records(3)
    gap = make_records(3, start_ns=int(first["ts_recv"][-1]) + 61_000_000_000)
    next_day = make_records(2, start_ns=int(first["ts_recv"][0]) + 24 * HOUR_NS)
    records = np.concatenate([first, gap, next_day])
    columns, table, _ = build(records)
    assert columns["segment"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert table["first_row"].tolist() == [0, 3, 6]
    assert table["end_row"].tolist() == [3, 6, 8]
    assert table["ends_in_gap"].tolist() == [True, False, False]
    assert table["session"].tolist() == [0, 0, 1]
    assert (columns["session_open_ns"] == table["session_open_ns"][columns["segment"]]).all()


def test_gap_of_exactly_the_limit_is_none(build, make_records):
    records = make_records(2, step_ns=60_000_000_000)
    assert build(records)[0]["segment"].tolist() == [0, 0]


def test_clear_and_snapshot_start_a_segment(build, make_records):
    records = make_records(9)
    records["action"][2] = b"R"
    records["flags"][[5, 6]] = 128 | 32
    for chunk_records in (1, 2, 9):
        columns, table, _ = build(records, chunk_records=chunk_records)
        assert columns["segment"].tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
        assert table["ends_in_gap"].tolist() == [True, True, False]


def test_roll_starts_an_announced_segment(build, make_records):
    first = make_records(3, ident=1)
    second = make_records(3, ident=2, start_ns=int(first["ts_recv"][-1]) + 1)
    columns, table, builder = build(np.concatenate([first, second]))
    assert columns["segment"].tolist() == [0, 0, 0, 1, 1, 1]
    assert table["instrument_id"].tolist() == [1, 2]
    assert table["ends_in_gap"].tolist() == [False, False]
    assert builder.segments.instrument_of(columns["segment"]).tolist() == [1, 1, 1, 2, 2, 2]


def test_alternating_instruments_need_a_choice(build, make_records):
    records = make_records(6)
    records["instrument_id"] = [1, 2, 1, 2, 2, 1]
    with pytest.raises(SeveralInstrumentsError, match=r"ids 1, 2"):
        build(records)
    columns, _, builder = build(records, instrument_id=2)
    assert columns["ts_ns"].tolist() == records["ts_recv"][[1, 3, 4]].tolist()
    assert builder.skipped["other_instrument"] == 3


def test_a_second_instrument_is_no_roll_where_the_file_holds_several_symbols(build, make_records):
    records = np.concatenate(
        [make_records(2, ident=1), make_records(2, ident=2, start_ns=1_704_754_900_000_000_000)]
    )
    with pytest.raises(SeveralInstrumentsError):
        build(records, rolls=False)


def test_two_venues_in_one_stream_are_an_error(build, make_records):
    records = make_records(4)
    records["publisher_id"][2] = 5
    with pytest.raises(InputError, match="two venues"):
        build(records)
