"""Surveys equal scalar counts, however the records are cut."""

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data import conftest as made
from trainer.data.inspection.report import IdReport
from trainer.data.inspection.survey import IdSurvey, RecordSurvey, book_prices, price_text

MISSING = made.UNDEF_PRICE


def scalar_report(records: Any, ident: int) -> IdReport:
    """One id's report, record by record."""
    times, bids, asks, grid, updates, num = [], [], [], 0, 0, 0
    for record in records[records["instrument_id"] == ident]:
        num += 1
        updates += record["action"] != b"T" and bool(record["flags"] & 128)
        if not record["flags"] & 8 and record["ts_recv"] != 2**64 - 1:
            times.append(int(record["ts_recv"]))
        bids += [price for price in [int(record["bid_px_00"])] if price != MISSING]
        asks += [price for price in [int(record["ask_px_00"])] if price != MISSING]
        for level in range(10):
            for side in ("bid", "ask"):
                price = int(record[f"{side}_px_{level:02d}"])
                grid = grid if price == MISSING else math.gcd(grid, price)
    return IdReport(
        ident,
        {7: "ESH4"}.get(ident),
        num,
        updates,
        min(times),
        max(times),
        str(Decimal(min(bids)) / 10**9),
        str(Decimal(max(asks)) / 10**9),
        str(Decimal(grid) / 10**9),
    )


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), cut=st.integers(1, 120), num_ids=st.integers(1, 4))
def test_every_id_is_counted_as_a_scalar_loop_does(seed: int, cut: int, num_ids: int) -> None:
    records = made._scrambled(seed)
    rng = np.random.default_rng(seed)
    records["instrument_id"] = 9 - 2 * rng.integers(0, num_ids, 120)
    records["flags"][rng.random(120) < 0.1] |= 8
    records["bid_px_00"][3], records["ts_recv"][5] = MISSING, 2**64 - 1
    # A grid that changes late, for one id only.
    records["ask_px_04"][100] += made.TICK_NANOS // 5
    survey = IdSurvey()
    for part in (records[:cut], records[cut:]):
        if len(part):
            survey.add(part, book_prices(part), None)
    found = survey.reports({7: "ESH4"})
    counts = Counter(records["instrument_id"].tolist())
    assert [one.records for one in found] == sorted(counts.values(), reverse=True)
    for one in found:
        assert one == scalar_report(records, one.instrument_id)
    grids = [int(Decimal(one.grid or 0) * 10**9) for one in found]
    for step in (made.TICK_NANOS, made.TICK_NANOS // 5, 7):
        assert survey.divides(step) == all(grid % step == 0 for grid in grids)


def test_prices_of_zero_and_below_are_prices() -> None:
    records = made._records(2)
    records["bid_px_00"], records["ask_px_00"] = [0, -500_000_000], [250_000_000, 0]
    survey = IdSurvey()
    survey.add(records, book_prices(records), None)
    (one,) = survey.reports({})
    assert (one.low, one.high, one.grid) == ("-0.5", "0.25", "0.25")


@pytest.mark.parametrize("seed", range(4))
def test_actions_flags_times_and_trades_are_counted(seed: int) -> None:
    records = made._scrambled(seed)
    survey = RecordSurvey()
    for part in (records[:50], records[50:50], records[50:]):
        survey.add(part)
    found = survey.report()
    assert found.actions == Counter(action.decode() for action in records["action"].tolist())
    assert found.flags == Counter(str(flags) for flags in records["flags"].tolist())
    assert (found.first_ns, found.last_ns) == (records["ts_recv"].min(), records["ts_recv"].max())
    trades = [record for record in records if record["action"] == b"T"]
    sides = Counter(trade["side"] for trade in trades)
    assert (found.trades.buys, found.trades.sells) == (sides[b"B"], sides[b"A"])
    assert (found.trades.trades, found.records) == (len(trades), 120)
    assert found.trades.volume_lots == sum(int(trade["size"]) for trade in trades)


@pytest.mark.parametrize(
    ("nanos", "text"),
    [(4_750_250_000_000, "4750.25"), (-1, "-0.000000001"), (0, "0"), (100_000_000_000, "100"), (2**62, None)],
)
def test_prices_are_exact_decimals(nanos: int, text: str | None) -> None:
    assert Decimal(price_text(nanos)) * 10**9 == nanos
    assert text is None or price_text(nanos) == text
