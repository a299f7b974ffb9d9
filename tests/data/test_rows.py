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
