"""Sessions follow local time (DATA.md trap 4), and instruments are inferred from dataset and symbol."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.calendar import DAY_NS, Sessions, resolve_instrument, session_intervals
from trainer.data.readers import Description
from trainer.errors import InputError

ES_BOOK = Description("DBN 3", "GLBX.MDP3", ("ESH4",), grouped=False, joins_trades=True)


def ns(text: str) -> int:
    return pd.Timestamp(text, tz="UTC").value


def intervals(calendar, start, end):
    table = session_intervals(calendar, ns(start), ns(end))
    return [tuple(str(pd.Timestamp(t))[:16] for t in pair) for pair in table.tolist()]


def test_futures_session_moves_with_daylight_saving():
    found = intervals("CME_Equity", "2024-03-08 00:00", "2024-03-12 00:00")
    assert found[0] == ("2024-03-07 23:00", "2024-03-08 22:00"), (
        "winter: 18:00-17:00 New York is 23:00-22:00 UTC"
    )
    assert found[1] == ("2024-03-10 22:00", "2024-03-11 21:00"), "summer time began on 10 March"


def test_days_are_not_all_of_24_hours():
    """From open to open over the weekends of both changes of summer time, New York."""
    opens = session_intervals("CME_Equity", ns("2024-03-04"), ns("2024-03-20"))[:, 0]
    hours = np.diff(opens) // (DAY_NS // 24)
    assert [int(h) for h in hours if h != 24] == [71, 72], "Thursday to Sunday evening, in March"
    opens = session_intervals("CME_Equity", ns("2024-10-29"), ns("2024-11-06"))[:, 0]
    hours = np.diff(opens) // (DAY_NS // 24)
    assert [int(h) for h in hours if h != 24] == [73], "and in November"


def test_holiday_has_no_session_and_the_next_one_opens_in_the_evening():
    found = intervals("CME_Equity", "2023-12-22 00:00", "2023-12-26 12:00")
    assert found == [("2023-12-21 23:00", "2023-12-22 22:00"), ("2023-12-25 23:00", "2023-12-26 22:00")]


def test_early_close_ends_the_session_early():
    assert intervals("CME_Equity", "2024-11-28 12:00", "2024-11-28 13:00") == [
        ("2024-11-27 23:00", "2024-11-28 18:00")
    ]


def test_a_real_break_makes_two_sessions_and_an_empty_one_does_not():
    assert len(intervals("CME_Equity", "2015-01-06 00:00", "2015-01-06 22:00")) == 2
    assert intervals("HKEX", "2024-03-04 00:00", "2024-03-05 00:00") == [
        ("2024-03-04 01:30", "2024-03-04 04:00"),
        ("2024-03-04 05:00", "2024-03-04 08:00"),
    ]
    assert len(intervals("CME_Equity", "2024-03-08 01:00", "2024-03-08 21:59")) == 1


def test_stock_session():
    assert intervals("NYSE", "2025-04-03 00:00", "2025-04-04 00:00") == [
        ("2025-04-03 13:30", "2025-04-03 20:00")
    ]


def test_always_is_one_session_per_utc_day():
    assert intervals("always", "2024-01-06 05:00", "2024-01-08 00:00") == [
        ("2024-01-06 00:00", "2024-01-07 00:00"),
        ("2024-01-07 00:00", "2024-01-08 00:00"),
    ]


@pytest.mark.parametrize("calendar", ["CME_Equity", "always", "NYSE"])
@settings(max_examples=8, deadline=None)
@given(start_h=st.integers(0, 24 * 900), hours=st.integers(0, 200))
def test_intervals_are_disjoint_ordered_and_touch_the_asked_span(calendar, start_h, hours):
    start_ns = ns("2023-01-01") + start_h * DAY_NS // 24
    end_ns = start_ns + hours * DAY_NS // 24
    table = session_intervals(calendar, start_ns, end_ns)
    assert (table[:, 0] < table[:, 1]).all()
    assert (table[1:, 0] >= table[:-1, 1]).all()
    assert ((table[:, 1] > start_ns) & (table[:, 0] < end_ns)).all()


def test_location_is_half_open_and_the_same_in_any_order_of_questions():
    open_ns, close_ns = ns("2024-01-08 23:00"), ns("2024-01-09 22:00")
    times = np.array([0, open_ns - 1, open_ns, close_ns - 1, close_ns, ns("2024-05-01 15:00")])
    expected = [0, 0, open_ns, open_ns, 0, ns("2024-04-30 22:00")]
    assert Sessions("CME_Equity").locate(times)[0].tolist() == expected
    asked_singly = Sessions("CME_Equity")
    assert [int(asked_singly.locate(times[i : i + 1])[0][0]) for i in range(6)] == expected
    assert Sessions("CME_Equity").locate(times)[1].tolist()[2:4] == [close_ns, close_ns]


def test_location_of_no_times_is_empty():
    open_ns, close_ns = Sessions("NYSE").locate(np.zeros(0, np.int64))
    assert len(open_ns) == len(close_ns) == 0


def test_unknown_calendar_and_absurd_times_are_input_errors():
    with pytest.raises(InputError, match="unknown calendar 'Mars'"):
        session_intervals("Mars", ns("2024-01-01"), ns("2024-01-02"))
    with pytest.raises(InputError, match="1990"):
        session_intervals("NYSE", 0, 1)


@pytest.mark.parametrize(
    ("dataset", "symbols", "expected"),
    [
        ("GLBX.MDP3", ("ESH4",), "ES"),
        ("GLBX.MDP3", ("ESZ24",), "ES"),
        ("GLBX.MDP3", ("ES.c.0",), "ES"),
        ("XNAS.ITCH", ("FROG",), "equity"),
        ("DBEQ.BASIC", ("SPY",), "equity"),
    ],
)
def test_instrument_is_inferred(dataset, symbols, expected):
    assert resolve_instrument("auto", replace(ES_BOOK, dataset=dataset, symbols=symbols)).name == expected


@pytest.mark.parametrize(
    ("dataset", "symbols"),
    [
        ("GLBX.MDP3", ("CLF4",)),
        ("GLBX.MDP3", ("ESH4", "CLF4")),
        ("GLBX.MDP3", ()),
        ("IFEU.IMPACT", ("BRN FMJ0024!",)),
    ],
)
def test_what_cannot_be_inferred_lists_the_presets(dataset, symbols):
    with pytest.raises(InputError, match=r"choose one of: .*ES.*equity"):
        resolve_instrument("auto", replace(ES_BOOK, dataset=dataset, symbols=symbols))


def test_named_instrument_wins_over_the_file():
    assert resolve_instrument("equity", ES_BOOK).name == "equity"
    with pytest.raises(InputError, match="unknown instrument 'NQ'"):
        resolve_instrument("NQ", ES_BOOK)
