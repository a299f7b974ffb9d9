"""Features of book rows: against a scalar oracle, in any chunking, per segment, never looking ahead."""

import itertools
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.book import BookChunk
from trainer.data.features import FEATURE_NAMES, Book, FeatureStream, order_flow_imbalance, signed_log
from trainer.types import NUM_FEATURES, NUM_LEVELS

DECISION_ROWS = 8
NAME = {name: column for column, name in enumerate(FEATURE_NAMES)}


def make_chunk(num_rows: int, seed: int, segments: int = 1, base_ticks: int = 100) -> BookChunk:
    """A random valid book: uncrossed, sorted levels, some of them missing, equal times, several segments."""
    rng = np.random.default_rng(seed)
    best = base_ticks + rng.integers(-2, 3, num_rows).cumsum()
    steps = rng.integers(1, 4, (2, num_rows, NUM_LEVELS)).cumsum(axis=2)
    sizes = rng.integers(1, 90, (2, num_rows, NUM_LEVELS))
    thin = rng.random(num_rows) < 0.1
    steps[:, thin, 8:] = steps[:, thin, 7:8]
    sizes[:, thin, 8:] = 0
    counts = np.where(sizes > 0, 1 + sizes // 3, 0)
    ts_ns = 1_700_000_000_000_000_000 + (rng.integers(0, 4, num_rows) * 300_000_000).cumsum()
    opened, as_i32 = np.full(num_rows, ts_ns[0] - 10**9), np.int32
    return BookChunk(
        ts_ns=ts_ns,
        bid_px=(best[:, None] - steps[0]).astype(as_i32),
        ask_px=(best[:, None] + steps[1]).astype(as_i32),
        bid_sz=sizes[0].astype(as_i32),
        ask_sz=sizes[1].astype(as_i32),
        bid_ct=counts[0].astype(as_i32),
        ask_ct=counts[1].astype(as_i32),
        signed_volume=rng.integers(-20, 20, num_rows).astype(as_i32),
        trade_count=rng.integers(0, 5, num_rows).astype(as_i32),
        segment=np.sort(rng.integers(0, segments, num_rows)).astype(as_i32),
        session_open_ns=opened,
        session_close_ns=opened + 3600 * 10**9,
    )


def rows_of(chunk: BookChunk, rows: slice) -> BookChunk:
    return BookChunk(*(getattr(chunk, column.name)[rows] for column in fields(chunk)))


def features(chunk: BookChunk, cuts: tuple[int, ...] = ()) -> np.ndarray:
    stream = FeatureStream(DECISION_ROWS)
    bounds = [0, *sorted(cuts), len(chunk)]
    return np.concatenate([stream.push(rows_of(chunk, slice(a, b))) for a, b in itertools.pairwise(bounds)])


def scalar_row(chunk: BookChunk, t: int) -> dict[str, float]:
    """One row, from the definitions, with Python loops over the rows of its segment up to t."""
    first = min(i for i in range(t + 1) if chunk.segment[i] == chunk.segment[t])
    bid, ask = chunk.bid_px.astype(float), chunk.ask_px.astype(float)
    bsz, asz = chunk.bid_sz.astype(float), chunk.ask_sz.astype(float)
    mid = lambda i: (bid[i, 0] + ask[i, 0]) / 2  # noqa: E731
    log = lambda x: math.copysign(math.log1p(abs(x)), x)  # noqa: E731
    out: dict[str, float] = {}
    for level in range(1, 6):
        out[f"log_bid_size_{level}"] = math.log1p(bsz[t, level - 1])
        out[f"log_ask_size_{level}"] = math.log1p(asz[t, level - 1])
    for level in (2, 3, 5, 10):
        out[f"bid_distance_{level}_ticks"] = bid[t, 0] - bid[t, level - 1]
        out[f"ask_distance_{level}_ticks"] = ask[t, level - 1] - ask[t, 0]
    out["spread_ticks"] = ask[t, 0] - bid[t, 0]
    micro = (bid[t, 0] * asz[t, 0] + ask[t, 0] * bsz[t, 0]) / (bsz[t, 0] + asz[t, 0])
    out["microprice_minus_mid_ticks"] = micro - mid(t)
    for depth in (1, 3, 5, 10):
        b, a = bsz[t, :depth].sum(), asz[t, :depth].sum()
        out[f"imbalance_{depth}"] = (b - a) / (b + a)
    flow = []
    for level in range(5):
        e = 0.0
        if t > first:
            e += bsz[t, level] if bid[t, level] >= bid[t - 1, level] else 0
            e -= bsz[t - 1, level] if bid[t, level] <= bid[t - 1, level] else 0
            e -= asz[t, level] if ask[t, level] <= ask[t - 1, level] else 0
            e += asz[t - 1, level] if ask[t, level] >= ask[t - 1, level] else 0
        flow.append(e)
    out["order_flow_imbalance_1"], out["order_flow_imbalance_1_5"] = log(flow[0]), log(sum(flow))
    for lag in (1, 8, 32):
        out[f"mid_change_{lag}_ticks"] = mid(t) - mid(t - lag) if t - lag >= first else 0.0
    gaps = [(int(chunk.ts_ns[i]) - int(chunk.ts_ns[i - 1])) * 1e-9 for i in range(first + 1, t + 1)]
    out["log_time_gap"] = math.log(gaps[-1] + 1e-3) if gaps else 0.0
    out["signed_volume"], out["trade_count"] = log(chunk.signed_volume[t]), log(chunk.trade_count[t])
    for depth in (1, 5):
        b, a = float(chunk.bid_ct[t, :depth].sum()), float(chunk.ask_ct[t, :depth].sum())
        out[f"order_count_imbalance_{depth}"] = (b - a) / (b + a)

    def average(values: list[float], rows: int) -> float:
        weights = [(1 - 1 / rows) ** (len(values) - 1 - i) for i in range(len(values))]
        return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights) if values else 0.0

    changes = [mid(i) - mid(i - 1) for i in range(first + 1, t + 1)]
    squares = [x * x for x in changes]
    fast = math.sqrt(average(squares, DECISION_ROWS))
    out["fast_volatility_ticks"] = fast
    out["slow_volatility_ticks"] = math.sqrt(average(squares, 16 * DECISION_ROWS))
    out["spread_ema_ticks"] = average(
        [ask[i, 0] - bid[i, 0] for i in range(first, t + 1)], 16 * DECISION_ROWS
    )
    out["log_activity"] = -math.log(average(gaps, 16 * DECISION_ROWS) + 1e-3) if gaps else 0.0
    out["trend_over_volatility"] = average(changes, DECISION_ROWS) / fast if fast > 1e-9 else 0.0
    length = int(chunk.session_close_ns[t] - chunk.session_open_ns[t])
    out["session_time"] = int(chunk.ts_ns[t] - chunk.session_open_ns[t]) / length
    return out


def test_forty_features_have_distinct_names() -> None:
    assert len(set(FEATURE_NAMES)) == NUM_FEATURES == 40


@pytest.mark.parametrize("base_ticks", [100, -40, 0], ids=["positive", "negative", "around zero"])
def test_every_feature_equals_its_scalar_definition_at_any_price_level(base_ticks: int) -> None:
    chunk = make_chunk(90, seed=3, segments=2, base_ticks=base_ticks)
    values = features(chunk)
    for t in (*range(0, 90, 7), int(np.flatnonzero(np.diff(chunk.segment))[0]) + 1, 89):
        for name, expected in scalar_row(chunk, t).items():
            assert values[t, NAME[name]] == pytest.approx(expected, abs=2e-6, rel=2e-6), (t, name)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 120), st.integers(0, 10**6), st.integers(1, 4), st.lists(st.integers(0, 120), max_size=6)
)
def test_cutting_rows_into_chunks_changes_nothing(
    num_rows: int, seed: int, segments: int, cuts: list[int]
) -> None:
    chunk = make_chunk(num_rows, seed, segments)
    whole = features(chunk)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(
        features(chunk, tuple(min(cut, num_rows) for cut in cuts)), whole, rtol=1e-6, atol=1e-6
    )


def test_later_rows_do_not_move_earlier_features() -> None:
    chunk, other = make_chunk(100, seed=1), make_chunk(100, seed=2, base_ticks=5000)
    spliced = BookChunk(
        *(np.concatenate([getattr(chunk, c.name)[:60], getattr(other, c.name)[60:]]) for c in fields(chunk))
    )
    np.testing.assert_array_equal(features(spliced)[:60], features(chunk)[:60])


def test_a_new_segment_starts_as_if_nothing_came_before() -> None:
    chunk = make_chunk(80, seed=5, segments=2)
    border = int(np.flatnonzero(np.diff(chunk.segment))[0]) + 1
    alone = features(rows_of(chunk, slice(border, 80)))
    np.testing.assert_array_equal(features(chunk)[border:], alone)


def test_order_flow_imbalance_counts_a_new_bid_queue_whole_and_a_lost_one_negative() -> None:
    def one(*columns: int) -> Book:
        return Book(*(np.array([[column]]) for column in columns))

    before = one(10, 11, 5, 7)
    assert order_flow_imbalance(before, one(11, 12, 3, 7)).item() == 3 + 7, "bid up, ask queue lifted"
    assert order_flow_imbalance(before, one(9, 11, 4, 7)).item() == -5, "bid queue lost"
    assert order_flow_imbalance(before, one(10, 11, 8, 6)).item() == 3 + 1, "queues changed in place"


def test_an_empty_chunk_yields_no_rows_and_keeps_the_state() -> None:
    chunk = make_chunk(20, seed=9)
    assert FeatureStream(4).push(rows_of(chunk, slice(0, 0))).shape == (0, NUM_FEATURES)
    np.testing.assert_array_equal(features(chunk, (7, 7)), features(chunk, (7,)))


def test_extreme_sizes_and_a_session_without_length_stay_finite() -> None:
    chunk = make_chunk(50, seed=4)
    largest = np.full_like(chunk.bid_sz, np.iinfo(np.int32).max)
    chunk = replace(chunk, bid_sz=largest, ask_sz=largest, session_close_ns=chunk.session_open_ns)
    assert np.isfinite(features(chunk)).all()
    assert signed_log(np.array([-1, 0, 1])).tolist() == pytest.approx([-math.log(2), 0.0, math.log(2)])


def test_no_damage_of_the_records_makes_a_feature_that_is_not_finite(build, scrambled) -> None:
    for seed in range(6):
        columns, _, _ = build(scrambled(seed))
        values = features(BookChunk(**columns))
        assert len(values) > 10
        assert np.isfinite(values).all()


def test_first_row_after_a_roll_knows_nothing_of_the_old_price(build, make_records) -> None:
    old = make_records(40, ident=1)
    new = make_records(3, ident=2, start_ns=int(old["ts_recv"][-1]) + 1)
    for level in range(10):
        new[f"bid_px_{level:02d}"] += 10**5 * 250_000_000
        new[f"ask_px_{level:02d}"] += 10**5 * 250_000_000
    values = features(BookChunk(**build(np.concatenate([old, new]))[0]))
    changes = [NAME[f"mid_change_{lag}_ticks"] for lag in (1, 8, 32)]
    assert not values[40, changes].any()
    assert np.abs(values[:, changes]).max() < 40
    assert not values[40, [NAME["order_flow_imbalance_1"], NAME["slow_volatility_ticks"]]].any()
