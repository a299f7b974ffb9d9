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


def test_instrument_id_that_serves_again_on_a_later_day_is_no_second_instrument(build, make_records):
    """Ids are unique only within a day: the same stock may be 1, 2 and 1 again on three days."""
    open_ns = int(make_records(1)["ts_recv"][0])
    days = [make_records(3, ident=i, start_ns=open_ns + d * 24 * HOUR_NS) for d, i in enumerate((1, 2, 1))]
    for chunk_records in (1, 4, 9):
        _, table, builder = build(np.concatenate(days), chunk_records=chunk_records)
        assert table["instrument_id"].tolist() == builder.seen_ids == [1, 2, 1]
        assert table["session"].tolist() == [0, 1, 2]
        assert not table["ends_in_gap"].any()


@pytest.mark.parametrize("chunk_records", [1, 2, 6])
def test_instrument_id_that_comes_back_on_the_same_day_is_a_second_instrument(
    build, make_records, chunk_records
):
    midnight_ns = int(make_records(1)["ts_recv"][0]) + HOUR_NS
    records = make_records(6, start_ns=midnight_ns - 2, step_ns=1)
    records["instrument_id"] = [1, 1, 1, 2, 2, 1]
    records["flags"][4] = 128 | 8
    with pytest.raises(SeveralInstrumentsError, match=rf"file @ {200 + 5 * 368}: .*ids 1, 2"):
        build(records, chunk_records=chunk_records)


def test_hours_without_records_inside_a_session_are_an_unannounced_gap(build, make_records):
    first = make_records(3)
    later = make_records(3, start_ns=int(first["ts_recv"][-1]) + 9 * HOUR_NS)
    columns, table, _ = build(np.concatenate([first, later]))
    assert columns["segment"].tolist() == [0, 0, 0, 1, 1, 1]
    assert table["ends_in_gap"].tolist() == [True, False]
    assert table["session"].tolist() == [0, 0]


def test_clear_and_the_empty_book_after_it_are_no_rows_and_start_a_segment(build, make_records):
    records = make_records(8)
    records["action"][3] = b"R"
    for level in range(10):
        for side in ("bid", "ask"):
            records[f"{side}_px_{level:02d}"][3:5] = np.iinfo(np.int64).max
            records[f"{side}_sz_{level:02d}"][3:5] = records[f"{side}_ct_{level:02d}"][3:5] = 0
    columns, table, builder = build(records)
    assert columns["segment"].tolist() == [0, 0, 0, 1, 1, 1]
    assert (builder.skipped["clear"], builder.skipped["missing_best"]) == (1, 1)
    assert table["ends_in_gap"].tolist() == [True, False]


def test_snapshot_as_the_vendor_flags_it_gives_no_row_and_starts_a_segment(build, make_records):
    records = make_records(7)
    records["flags"][2:5] = [40, 40, 168]
    columns, _, builder = build(records)
    assert columns["segment"].tolist() == [0, 0, 1, 1]
    assert (builder.skipped["not_last"], builder.skipped["bad_ts_recv"]) == (2, 1)
