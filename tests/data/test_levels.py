"""Levels in ticks and lots, and every price on the grid."""

from decimal import Decimal

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


def scalar_side(record, side, step):
    """Price (ticks), size and count of the 10 levels of a record, one level at a time."""
    levels = []
    for level in range(10):
        price, size, count = (int(record[f"{side}_{name}_{level:02d}"]) for name in ("px", "sz", "ct"))
        if price == UNDEF_PRICE or size == 0:
            levels.append((levels[-1][0] if levels else 0, 0, 0))
        else:
            assert price % step == 0
            levels.append((price // step, size, count))
    return levels


def is_book(bid, ask):
    """Both best levels are there, the book is neither crossed nor locked, and prices get worse by level."""
    bids, asks = [px for px, _, _ in bid], [px for px, _, _ in ask]
    ordered = bids == sorted(bids, reverse=True) and asks == sorted(asks)
    return bool(bid[0][1] and ask[0][1]) and bids[0] < asks[0] and ordered


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    tick=st.sampled_from(["0.000000001", "0.01", "0.25", "4.294967296", "5", "1000"]),
    missing=st.sampled_from([0.0, 0.02, 0.5]),
)
def test_columns_equal_a_scalar_reading_of_the_records(build, make_records, seed, tick, missing):
    instrument = ES.model_copy(update={"tick_size": Decimal(tick), "min_price": None, "max_price": None})
    rng, records, step = np.random.default_rng(seed), make_records(40, seed=seed), instrument.tick_size_nanos
    for level in range(10):
        for side in ("bid", "ask"):
            ticks = records[f"{side}_px_{level:02d}"] // 250_000_000 - rng.choice([0, 19_000, 40_000])
            gone = rng.random(40) < missing
            records[f"{side}_px_{level:02d}"] = np.where(
                gone & (rng.random(40) < 0.5), UNDEF_PRICE, ticks * step
            )
            sizes = rng.choice([1, 7, 2**31 - 1], 40)
            records[f"{side}_sz_{level:02d}"] = np.where(gone & (rng.random(40) < 0.7), 0, sizes)
            records[f"{side}_ct_{level:02d}"] = rng.choice([0, 1, 2**31 - 1], 40)
    books = [tuple(scalar_side(record, side, step) for side in ("bid", "ask")) for record in records]
    expected = [book for book in books if is_book(*book)]
    columns, _, _ = build(records, chunk_records=int(rng.integers(1, 41)), instrument=instrument)
    assert len(columns["ts_ns"]) == len(expected)
    for index, side in enumerate(("bid", "ask")):
        for item, name in enumerate(("px", "sz", "ct")):
            wanted = [[level[item] for level in book[index]] for book in expected]
            assert columns[f"{side}_{name}"].tolist() == wanted, (side, name)


@pytest.mark.parametrize(
    ("tick", "ticks"),
    [(tick, ticks) for tick in ("0.000000001", "0.01", "0.25") for ticks in (2**31, -(2**31) - 1)]
    + [("0.000000001", 2**32 + 19_000), ("0.25", -(2**33) + 19_000), ("4.294967295", 2**31)],
)
def test_price_beyond_int32_ticks_is_an_error_however_it_wraps(build, make_records, tick, ticks):
    instrument = ES.model_copy(update={"tick_size": Decimal(tick), "min_price": None, "max_price": None})
    step, records = instrument.tick_size_nanos, make_records(3)
    for level in range(10):
        for side in ("bid", "ask"):
            field = f"{side}_px_{level:02d}"
            records[field] = records[field] // 250_000_000 * step
    records["ask_px_04"][1] = ticks * step
    with pytest.raises(InputError, match=r"ask_px_04 = .* is not plausible"):
        build(records, instrument=instrument)
