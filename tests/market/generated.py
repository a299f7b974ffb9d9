"""Generated examples for the replay's tests: rules, markets and scripts of lanes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, assume, settings
from hypothesis import strategies as st

from tests.market.acting import Script
from tests.market.cached import from_cache, window_of
from tests.market.recorded import Recorded, random_market
from trainer.config import Config
from trainer.data.cache import Cache
from trainer.errors import InputError
from trainer.types import Action

NUM_LANES, NUM_STEPS = 96, 64  # of one example: its actions must fit in hypothesis' 8 KiB
NUM_ROWS = 2500  # of a stretch of a cache
MakeCache = Callable[[str, float], Cache]
LOTS = {"written": (1, 5, 300), "ES": (1, 90, 60), "FROG": (1, 100, 700)}  # up to beyond the visible depth
MS = 1_000_000
LATENCY_NS = {  # up to several decisions: the written rows are seconds apart
    "written": (0, 5 * MS, 5 * MS, 60_000 * MS),
    "ES": (0, 1, 5 * MS, 5 * MS, 200 * MS, 3_000 * MS),
    "FROG": (0, 1, 5 * MS, 5 * MS, 200 * MS, 3_000 * MS),
}
GAPS_S = {"written": (60.0, 8.0), "ES": (2.0,), "FROG": (15.0,)}  # short, so that gaps are frequent

market_settings = st.fixed_dictionaries(
    {
        "num_units": st.integers(1, 5),
        "episode_decisions": st.integers(8, 40),
        "entry_guard_decisions": st.integers(1, 4),
        "trail_range_multiple": st.sampled_from([0.5, 1.0, 2.0, 4.0]),
        "trail_min_ticks": st.sampled_from([0.5, 1.0, 2.0]),
        "trail_step": st.sampled_from([1.25, 1.5]),
        "trail_bounds": st.sampled_from([(0.5, 2.0), (0.9, 3.0)]),
        "range_decay_decisions": st.sampled_from([2.0, 32.0]),
        "stop_loss_floor_ticks": st.sampled_from([0.25, 1.0, 4.0]),
        "stop_loss_measure": st.sampled_from(["open_trade", "open_trade", "lifetime_peak"]),
        "drawdown_penalty": st.sampled_from([0.0, 0.01, 1.0]),
        "recent_rate": st.sampled_from([0.05, 1.0]),
    }
)


def repeatable(num_examples: int) -> Callable[[Callable[..., None]], Any]:
    """The same examples every time. They are not shrunk: a failure names its step, lane and field."""
    return settings(
        max_examples=num_examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def scripts(draw: st.DrawFn) -> tuple[Script, bytes]:
    """What the lanes do, and per step one byte that sets the stop-loss."""

    def numbers(count: int, kind: type) -> np.ndarray:
        # Not all zero: those would only hold.
        raw = draw(st.binary(min_size=count, max_size=count).filter(any))
        return np.frombuffer(raw, kind)

    actions = numbers(NUM_STEPS * NUM_LANES, np.uint8).reshape(NUM_STEPS, NUM_LANES)
    starts = numbers(2 * NUM_LANES, np.uint16).astype(np.int64)
    limits, left = (numbers(NUM_LANES, np.uint8).astype(np.int64) for _ in range(2))
    weights = np.array([draw(st.integers(1, 4)) for _ in Action], float)
    weights[Action.HOLD] /= 4
    ends = np.where(limits < 128, 0, (limits - 127) * 8)
    risks = draw(st.binary(min_size=NUM_STEPS, max_size=NUM_STEPS))
    return Script(actions, starts, ends, 3 + left % 30, weights), risks


def market_of(seed: int) -> Recorded:
    """A random market; the example is given up where no row leaves room for a lane."""
    try:
        return random_market(seed)
    except InputError:
        assume(False)
        raise


@st.composite
def stretches(draw: st.DrawFn, make_cache: MakeCache, source: str) -> Recorded:
    """A stretch of a cache under drawn rules, anywhere in it."""
    market = {**draw(market_settings), "latency_ns": draw(st.sampled_from(LATENCY_NS[source]))}
    data = {
        "decision_rows": draw(st.sampled_from([1, 2, 8, 8])),
        "decision_ms": draw(st.sampled_from([None, None, None, 150.0])),
        "window_rows": 4,
        "horizons": (1, 2, 4),
    }
    cache = make_cache(source, draw(st.sampled_from(GAPS_S[source])))
    first = draw(st.integers(0, cache.num_rows - NUM_ROWS))
    return from_cache(
        cache,
        window_of(cache, first, first + NUM_ROWS),
        Config().replaced(data=data, market=market),
        unit_lots=draw(st.sampled_from(LOTS[source])),
        fee_per_lot=draw(st.sampled_from([0.0, 0.07, 2.0, 9.0])),
    )
