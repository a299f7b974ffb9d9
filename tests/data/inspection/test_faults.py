"""What is set aside is exactly what RowBuilder refuses."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data import conftest as made
from trainer.data.calendar import Sessions
from trainer.data.inspection.faults import FAULTS, FaultFinder
from trainer.data.inspection.survey import book_prices
from trainer.data.rows import RowBuilder
from trainer.errors import InputError
from trainer.presets import INSTRUMENTS

ES = INSTRUMENTS["ES"]
TICK = made.TICK_NANOS
# Field and values that are damage or nearly so; flags 8 and 128 switch the receive time off and on.
DAMAGES: dict[str, list[Any]] = {
    "publisher_id": [1, 2],
    "action": [b"X", b"R", b"N"],
    "ts_recv": [0, 1, made.OPEN_NS, made.OPEN_NS + 10**9, 2**64 - 1, 2**63, 4_102_444_800_000_000_000],
    "flags": [8, 128, 255],
    "bid_sz_03": [0, 2**31 - 1, 2**31, 2**32 - 1],
    "ask_ct_00": [2**31],
    "bid_px_00": [1, -TICK, made.UNDEF_PRICE, (2**31 - 1) * TICK, 2**31 * TICK, -(2**31) * TICK, -1],
    "ask_px_09": [TICK // 2, 2**62, -(2**63)],
}
index = st.integers(0, 2) | st.integers(0, 39)
damage = st.sampled_from(sorted(DAMAGES)).flatmap(
    lambda field: st.tuples(index, st.just(field), st.sampled_from(DAMAGES[field]))
)


def accepts(records: Any) -> bool:
    try:
        RowBuilder(ES, None, 60.0, Sessions("always")).push(records)
    except InputError:
        return False
    return True


@settings(max_examples=100, deadline=None)
@given(damages=st.lists(damage, max_size=4), on_grid=st.booleans())
def test_row_builder_takes_the_records_that_are_left_and_no_less_would_do(
    damages: list[tuple[int, str, Any]], on_grid: bool
) -> None:
    records = made._records(40)
    for index, field, value in damages:
        records[field][index] = value
    prices = book_prices(records)
    known = np.where(prices == made.UNDEF_PRICE, 0, prices)
    on_grid &= not (known % TICK).any()
    found = FaultFinder(ES).find(records, prices, on_grid)
    assert set(found) <= set(FAULTS)
    faulty = np.zeros(40, np.bool_)
    for mask in found.values():
        assert not (mask & faulty).any(), "a record counts once"
        faulty |= mask
    assert accepts(records) == (not faulty.any())
    clean = records[~faulty]
    assert accepts(clean)
    for index in np.flatnonzero(faulty).tolist():
        # Whether the record is refused is told by the records before it only.
        before = np.flatnonzero(~faulty[:index])
        if len(before):
            assert not accepts(records[[*before, index]])


def test_time_and_venue_are_carried_from_chunk_to_chunk() -> None:
    records = made._records(40)
    records["ts_recv"][30] = made.OPEN_NS
    records["publisher_id"][35] = 2
    finder = FaultFinder(ES)
    found = [finder.find(part, book_prices(part), True) for part in (records[:20], records[20:])]
    assert found[0] == {}
    assert {kind: np.flatnonzero(mask).tolist() for kind, mask in found[1].items()} == {
        "time_order": [10],
        "publisher": [15],
    }
