"""No look-ahead in the replay: markets with one past and two futures do the same up to the time they part."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.market.acting import random_script
from tests.market.foresight import require_same_past, with_future
from tests.market.generated import MakeCache, market_of, repeatable, stretches
from tests.market.recorded import Recorded, steady
from trainer.errors import InputError

NUM_LANES, NUM_STEPS = 32, 16
Spoil = Callable[[Recorded], Recorded]


def part(m: Recorded, at: int, seed: int, spoil: Spoil = lambda m: m) -> int:
    """Two futures of `m` after row `at` of those behind the first anchor; steps that were equal up to it."""
    first = int(m.tape.anchors[0])
    row = first + at % (len(m.tape.ts_ns) - first)
    try:
        one, other = (spoil(with_future(m, row, future)) for future in (seed, seed + 1))
    except InputError:  # no row leaves room for a lane
        assume(False)
        raise
    script = random_script(seed, NUM_STEPS, NUM_LANES)
    return require_same_past(one, other, script, m.tape.anchors, int(m.tape.ts_ns[row]))


def test_nothing_up_to_a_time_moves_on_random_books_when_all_after_it_changes() -> None:
    compared = []

    @repeatable(25)
    @given(st.integers(0, 10**9), st.integers(0, 10**6))
    def parted(seed: int, at: int) -> None:
        compared.append(part(market_of(seed), at, seed))

    parted()
    assert sum(compared) > 1_500


@pytest.mark.parametrize("source", ["written", "ES", "FROG"])
def test_nothing_up_to_a_time_moves_on_rows_of_a_file_when_all_after_it_changes(
    make_cache: MakeCache, source: str
) -> None:
    compared = []

    @repeatable(6)
    @given(stretches(make_cache, source), st.integers(0, 10**6))
    def parted(m: Recorded, at: int) -> None:
        compared.append(part(m, at, at))

    parted()
    assert sum(compared) > 500


def gap_seen_by_masks(m: Recorded) -> Recorded:
    """The time left counts to the last row before a gap."""
    last = torch.tensor([m.tape.ts_ns[max(int(e) - 1, 0)] for e in m.tape.exit_row])
    close = torch.where(m.tape.exit_is_gap, torch.minimum(last, m.tape.close_ns), m.tape.close_ns)
    return m._replace(tape=m.tape._replace(close_ns=close))


def gap_left_before(m: Recorded) -> Recorded:
    """What is held is closed on the last row before a gap."""
    row = m.tape.exit_row - m.tape.exit_is_gap.long()
    none = torch.zeros_like(m.tape.exit_is_gap)
    return m._replace(tape=m.tape._replace(exit_row=row, exit_is_gap=none))


def moved(name: str) -> Spoil:
    """A field whose rows show what the next row but one should: the reach of one decision."""

    def spoil(m: Recorded) -> Recorded:
        return m._replace(tape=m.tape._replace(**{name: getattr(m.tape, name).roll(-2, 0)}))

    return spoil


LEAKS = {name: moved(name) for name in ("features", "book", "range_ticks", "elapsed")}
LEAKS |= {"gap seen by masks": gap_seen_by_masks, "gap left before it comes": gap_left_before}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_replay_that_looks_ahead_is_caught(monkeypatch: pytest.MonkeyPatch, leak: str) -> None:
    # The replay alone must tell, as it has to where the leak is not in the tape.
    monkeypatch.setattr("tests.market.foresight.require_same_rows", lambda *inputs: None)
    jumpy = {"trail_min_ticks": 0.5, "range_decay_decisions": 1.5}
    m = steady(80, moves=[1, -2, 3, 0, -1] * 16, decision_rows=2, size=2, **jumpy)
    assert part(m, 30, 1) > 0

    def leaking() -> None:
        for seed in range(20):
            part(m, 30 + seed, seed, LEAKS[leak])

    with pytest.raises(AssertionError, match="saw later"):
        leaking()
