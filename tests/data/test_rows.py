"""Which records are valid rows: the traps of DATA.md, one by one, and what holds for every stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.dbn import read_records
from trainer.errors import InputError

HOUR_NS = 3_600_000_000_000
UNDEF_PRICE = np.iinfo(np.int64).max


def set_best(records, index, bid_ticks, ask_ticks):
    records["bid_px_00"][index], records["ask_px_00"][index] = (
        bid_ticks * 250_000_000,
        ask_ticks * 250_000_000,
    )


@pytest.mark.parametrize(
    ("reason", "damage"),
    [
        ("trade", lambda r: r["action"].__setitem__(4, b"T")),
        ("clear", lambda r: r["action"].__setitem__(4, b"R")),
        ("not_last", lambda r: r["flags"].__setitem__(4, 0)),
        ("bad_ts_recv", lambda r: r["flags"].__setitem__(4, 128 | 8)),
        ("bad_ts_recv", lambda r: r["ts_recv"].__setitem__(4, np.iinfo(np.uint64).max)),
        ("maybe_bad_book", lambda r: r["flags"].__setitem__(4, 128 | 4)),
        ("missing_best", lambda r: r["bid_px_00"].__setitem__(4, UNDEF_PRICE)),
        ("missing_best", lambda r: r["ask_sz_00"].__setitem__(4, 0)),
        ("crossed", lambda r: set_best(r, 4, 19_500, 19_400)),
        ("crossed", lambda r: set_best(r, 4, 19_500, 19_500)),
        ("levels_out_of_order", lambda r: set_best(r, 4, 18_000, 20_000)),
    ],
)
def test_record_that_is_no_row_is_skipped_and_counted(build, make_records, reason, damage):
    records = make_records(10)
    damage(records)
    columns, _, builder = build(records)
    assert builder.skipped == {**dict.fromkeys(builder.skipped, 0), reason: 1}
    assert columns["ts_ns"].tolist() == np.delete(make_records(10)["ts_recv"], 4).tolist()


def test_flags_are_bits(build, make_records):
    """130 and 168 carry LAST among other bits."""
    records = make_records(4)
    records["flags"] = [130, 128, 128 | 32, 2]
    columns, _, _ = build(records)
    assert len(columns["ts_ns"]) == 3


def test_rows_outside_the_session_are_skipped_on_both_sides(build, make_records):
    open_ns = int(make_records(1)["ts_recv"][0])
    close_ns = open_ns + 23 * HOUR_NS
    records = make_records(4)
    records["ts_recv"] = [open_ns - 1, open_ns, close_ns - 1, close_ns]
    columns, _, builder = build(records, max_gap_s=1e9)
    assert columns["ts_ns"].tolist() == [open_ns, close_ns - 1]
    assert builder.skipped["out_of_session"] == 2
    assert (columns["session_open_ns"] == open_ns).all()
    assert (columns["session_close_ns"] == close_ns).all()


def test_book_still_crossed_at_the_open_waits_for_an_uncrossed_one(build, make_records):
    records = make_records(6)
    set_best(records, [0, 1, 2], 20_000, 19_000)
    columns, _, _ = build(records)
    assert columns["ts_ns"][0] == records["ts_recv"][3]


def test_time_going_backwards_is_an_error_even_between_chunks(build, make_records):
    records = make_records(10)
    records["ts_recv"][5] = records["ts_recv"][4] - 1
    for chunk_records in (5, 10):
        with pytest.raises(InputError, match=rf"file @ {200 + 5 * 368}: ts_recv goes backwards"):
            build(records, chunk_records=chunk_records)


def test_records_before_the_first_good_time_are_no_rows(build, make_records):
    records = make_records(4)
    records["flags"][:2] = 128 | 32 | 8
    records["action"][1], records["flags"][1] = b"T", 8
    columns, _, builder = build(records)
    assert columns["trade_count"].tolist() == [0, 0]
    assert builder.skipped["bad_ts_recv"] == 1


def test_equal_times_are_all_kept_in_file_order(build, make_records):
    records = make_records(6, step_ns=0)
    columns, _, _ = build(records)
    assert (columns["bid_px"][:, 0] == records["bid_px_00"] // 250_000_000).all()
    assert len(columns["ts_ns"]) == 6


def test_absurd_time_and_unknown_action_are_errors(build, make_records):
    records = make_records(3)
    records["ts_recv"][1] = 5
    with pytest.raises(InputError, match="1990-2100"):
        build(records)
    records = make_records(3)
    records["action"][2] = b"Q"
    with pytest.raises(InputError, match="unknown action b'Q'"):
        build(records)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), chunk_records=st.integers(1, 130))
def test_chunk_size_changes_no_column_and_no_segment(build, scrambled, seed, chunk_records):
    records = scrambled(seed)
    whole, table, builder = build(records)
    parts, parts_table, parts_builder = build(records, chunk_records=chunk_records)
    for name, column in whole.items():
        np.testing.assert_array_equal(parts[name], column, err_msg=name)
    assert parts_table.tobytes() == table.tobytes()
    assert parts_builder.skipped == builder.skipped


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 119))
def test_rows_up_to_a_record_ignore_every_later_record(build, scrambled, seed, cut):
    """No look-ahead: other data after the cut leaves the rows before it unchanged."""
    records = scrambled(seed)
    other = scrambled(seed + 1)
    other["ts_recv"] = records["ts_recv"]
    mixed = np.concatenate([records[:cut], other[cut:]])
    whole, changed = build(records)[0], build(mixed)[0]
    num_rows = len(build(records[:cut])[0]["ts_ns"])
    for name, column in whole.items():
        np.testing.assert_array_equal(changed[name][:num_rows], column[:num_rows], err_msg=name)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_record_is_a_row_or_counted_once_and_segments_tile_the_rows(build, scrambled, seed):
    columns, table, builder = build(scrambled(seed))
    num_rows = len(columns["ts_ns"])
    assert num_rows + sum(builder.skipped.values()) == builder.num_records == 120
    assert table["end_row"].tolist() == [*table["first_row"][1:].tolist(), num_rows]
    assert (np.diff(columns["bid_px"], axis=1) <= 0).all()
    assert (np.diff(columns["ask_px"], axis=1) >= 0).all()
    assert (columns["bid_px"][:, 0] < columns["ask_px"][:, 0]).all()


def test_es_file_keeps_only_the_session(build, shared_data):
    records = np.concatenate(list(read_records(shared_data / "ESH4_20231225.mbp-10.dbn.zst")))
    columns, table, builder = build(records, chunk_records=20_000)
    assert len(columns["ts_ns"]) == 36_905
    assert builder.skipped["out_of_session"] > 0
    assert builder.skipped["trade"] == columns["trade_count"].sum() == 2_973
    assert len(table) == 1
    assert table["session_open_ns"][0] == 1_703_545_200_000_000_000, "25 December 2023, 23:00 UTC"


@pytest.mark.parametrize(
    ("flags", "is_row"), [(0, 0), (8, 0), (40, 0), (128, 1), (130, 1), (168, 0), (132, 0)]
)
def test_every_combination_of_flags_seen_in_files_is_judged_by_its_bits(build, make_records, flags, is_row):
    records = make_records(3)
    records["flags"][1] = flags
    assert len(build(records)[0]["ts_ns"]) == 2 + is_row


@pytest.mark.parametrize("flags", [0, 128, 130])
def test_book_shown_by_a_trade_is_never_a_row(build, make_records, flags):
    """A trade repeats the book before it; the record after it shows what was left."""
    records = make_records(4)
    records["action"][2], records["flags"][2] = b"T", flags
    for level in range(10):
        for side in ("bid", "ask"):
            records[f"{side}_sz_{level:02d}"][2] = records[f"{side}_sz_{level:02d}"][1]
    columns, _, _ = build(records)
    assert columns["ts_ns"].tolist() == records["ts_recv"][[0, 1, 3]].tolist()
    assert columns["bid_sz"][:, 0].tolist() == records["bid_sz_00"][[0, 1, 3]].tolist()


def test_book_crossed_between_the_records_of_one_event_is_no_row(build, make_records):
    records = make_records(6)
    records["flags"][[1, 3, 4]] = 0
    set_best(records, [1, 3, 4], 19_500, 19_400)
    records["ts_recv"][[1, 4]] = records["ts_recv"][[2, 5]]
    columns, _, builder = build(records)
    assert columns["ts_ns"].tolist() == records["ts_recv"][[0, 2, 5]].tolist()
    assert builder.skipped["not_last"] == 3
    assert builder.skipped["crossed"] == 0


@pytest.mark.parametrize("crossed", [True, False])
def test_book_before_the_open_is_no_row_crossed_or_not(build, make_records, crossed):
    open_ns = int(make_records(1)["ts_recv"][0])
    records = make_records(8, start_ns=open_ns - 4, step_ns=1)
    if crossed:
        set_best(records, [0, 1, 2, 3, 4], 20_000, 19_000)
    columns, _, builder = build(records)
    assert columns["ts_ns"][0] == open_ns + crossed, "it stays crossed for one record of the session"
    assert builder.skipped["out_of_session"] == 4


def test_event_times_that_go_back_are_normal_and_not_read(build, make_records):
    records = make_records(6)
    records["ts_event"] = records["ts_event"][::-1]
    columns, _, _ = build(records)
    assert columns["ts_ns"].tolist() == records["ts_recv"].tolist()


def test_rows_follow_new_york_time_through_the_change_of_summer_time(build, make_records):
    """21:30 UTC is in session before and closed after it; 22:30 UTC the other way round."""
    records = make_records(4)
    times = ["2024-03-07T21:30", "2024-03-07T22:30", "2024-03-10T22:30", "2024-03-11T21:30"]
    records["ts_recv"] = np.array(times, "M8[ns]").astype(np.int64)
    columns, _, _ = build(records)
    assert columns["ts_ns"].tolist() == records["ts_recv"][[0, 2]].tolist()


def test_file_that_starts_mid_session_waits_for_both_sides_of_the_book(build, make_records):
    records = make_records(5, start_ns=int(make_records(1)["ts_recv"][0]) + 5 * HOUR_NS)
    for level in range(10):
        records[f"bid_px_{level:02d}"][:2], records[f"bid_sz_{level:02d}"][:2] = UNDEF_PRICE, 0
        if level:
            records[f"ask_px_{level:02d}"][:3], records[f"ask_sz_{level:02d}"][:3] = UNDEF_PRICE, 0
    columns, table, builder = build(records)
    assert builder.skipped["missing_best"] == 2
    assert columns["ts_ns"].tolist() == records["ts_recv"][2:].tolist()
    assert (columns["ask_sz"][0] > 0).tolist() == [True] + [False] * 9
    assert len(table) == 1


def test_es_file_shows_uncrossed_and_crossed_books_before_the_open_and_a_crossed_one_at_it(shared_data):
    """Neither the session nor the crossing alone would do: 3 early books look valid, 142 are crossed."""
    records = np.concatenate(list(read_records(shared_data / "ESH4_20231225.mbp-10.dbn.zst")))
    crossed = records["bid_px_00"] >= records["ask_px_00"]
    before = records["ts_recv"] < 1_703_545_200_000_000_000
    last = (records["flags"] & 128) != 0
    assert last[before].all()
    assert crossed[before].tolist() == [False] * 3 + [True] * 142
    assert (crossed & last)[~before].sum() == 1
    assert (crossed & ~last).sum() == 343, "between the records of one event"
