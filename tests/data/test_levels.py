"""Levels in ticks and lots, and every price on the grid."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.errors import InputError
from trainer.presets import INSTRUMENTS

UNDEF_PRICE = np.iinfo(np.int64).max
ES = INSTRUMENTS["ES"]


def set_best(records, index, bid_ticks, ask_ticks):
    records["bid_px_00"][index], records["ask_px_00"][index] = (
        bid_ticks * 250_000_000,
        ask_ticks * 250_000_000,
    )


def test_prices_are_ticks_and_sizes_lots(build, make_records):
    records = make_records(5)
    columns, _, _ = build(records)
    assert (columns["bid_px"][:, 3] == records["bid_px_03"] // 250_000_000).all()
    assert (columns["ask_sz"][:, 9] == records["ask_sz_09"]).all()
    assert (columns["bid_ct"][:, 0] == records["bid_ct_00"]).all()
    assert (columns["ts_ns"] == records["ts_recv"]).all()


def test_missing_levels_repeat_the_price_above_with_size_zero(build, make_records):
    records = make_records(3)
    for level in (4, 5, 6, 7, 8, 9):
        records[f"bid_px_{level:02d}"], records[f"bid_sz_{level:02d}"] = UNDEF_PRICE, 0
        records[f"bid_ct_{level:02d}"] = 0
    columns, _, _ = build(records)
    assert (columns["bid_px"][:, 4:] == columns["bid_px"][:, 3:4]).all()
    assert (columns["bid_sz"][:, 4:] == 0).all()
    assert (columns["bid_sz"][:, :4] > 0).all()
    assert (columns["ask_px"][:, 9] == columns["ask_px"][:, 0] + 9).all()


def test_undefined_price_or_size_zero_alone_makes_a_level_missing(build, make_records):
    records = make_records(2)
    records["ask_px_06"][0], records["ask_sz_06"][1] = UNDEF_PRICE, 0
    columns, _, _ = build(records)
    assert (columns["ask_px"][:, 6] == columns["ask_px"][:, 5]).all()
    assert (columns["ask_sz"][:, 6] == 0).all()
    assert (columns["ask_ct"][:, 6] == 0).all()
    assert (columns["ask_px"][:, 7] == columns["ask_px"][:, 0] + 7).all(), "the level below is as recorded"


def test_negative_prices_are_rows(build, make_records):
    records = make_records(5)
    for level in range(10):
        for side in ("bid", "ask"):
            records[f"{side}_px_{level:02d}"] -= 19_010 * 250_000_000
    columns, _, _ = build(records)
    assert len(columns["ts_ns"]) == 5
    assert (columns["bid_px"] < 0).all()


def test_sane_price_range_bounds_rows(build, make_records):
    records = make_records(3)
    set_best(records, 1, 19_000, 400_000)
    for level in range(1, 10):
        records[f"ask_px_{level:02d}"][1] = 400_000 * 250_000_000
    bounded = ES.model_copy(update={"min_price": 100, "max_price": 10_000})
    _, _, builder = build(records, instrument=bounded)
    assert builder.skipped["insane_price"] == 1
    assert len(build(records)[0]["ts_ns"]) == 3


@pytest.mark.parametrize("field", ["bid_px_00", "ask_px_07"])
def test_off_grid_price_names_file_offset_field_and_value(build, make_records, field):
    records = make_records(20)
    records[field][11] = 19_000 * 250_000_000 + 10_000_000
    with pytest.raises(InputError) as caught:
        build(records, chunk_records=6)
    line = str(caught.value)
    assert f"file @ {200 + 11 * 368}: " in line
    assert f"{field} = 4750.01" in line
    assert "0.25" in line


@settings(max_examples=30, deadline=None)
@given(bit=st.integers(0, 63), side=st.sampled_from(["bid", "ask"]), level=st.integers(0, 9))
def test_any_flipped_bit_of_a_price_is_an_error(build, make_records, bit, side, level):
    records = make_records(3)
    field = f"{side}_px_{level:02d}"
    records[field][1] = np.uint64(records[field][1]) ^ np.uint64(1 << bit) if bit < 63 else ~records[field][1]
    with pytest.raises(InputError, match=field):
        build(records)


def test_implausible_size_is_an_error(build, make_records):
    records = make_records(3)
    records["ask_sz_02"][1] = 2**31
    with pytest.raises(InputError, match=r"ask_sz_02 = 2147483648 is not plausible"):
        build(records)


def test_prices_of_records_that_are_no_rows_are_on_the_grid_too(build, make_records):
    records = make_records(3)
    records["action"][1], records["flags"][1] = b"T", 0
    records["bid_px_09"][1] += 1
    with pytest.raises(InputError, match=r"bid_px_09 = .* is off the grid"):
        build(records)


def test_trade_at_half_a_tick_is_no_damage(build, make_records):
    """Hidden orders trade at the midpoint; only prices of the book must be on the grid."""
    records = make_records(3)
    records["action"][1] = b"T"
    records["price"][1] += 125_000_000
    assert build(records)[0]["trade_count"].tolist() == [0, 1]
