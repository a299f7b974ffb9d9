"""A lane is the same lane, bit for bit, however many others are beside it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.market.acting import Script, random_script
from tests.market.foresight import outcome_fields, watch
from tests.market.generated import MakeCache, repeatable, stretches
from tests.market.recorded import Recorded, random_market

NUM_LANES, NUM_STEPS = 64, 16


def bits(m: Recorded, script: Script, lane: int) -> list[bytes]:
    """All that lane number `lane` of the script sees, does, becomes and reports."""
    found = []
    for seen in watch(m, script, m.tape.anchors):
        fields = [*seen.view.values(), *seen.after, *outcome_fields(seen.outcome).values()]
        found += [field[lane].numpy().tobytes() for field in fields]
    return found


def require_independent(m: Recorded, lane: int, seed: int) -> None:
    script = random_script(seed, NUM_STEPS, NUM_LANES)
    among_all = bits(m, script, lane)
    for num_lanes in (1, 2, 7):
        others = [(lane + 9 * k) % NUM_LANES for k in range(1, num_lanes)]
        place = seed % num_lanes
        chosen = [*others[:place], lane, *others[place:]]
        assert bits(m, script.lanes(chosen), place) == among_all, f"{num_lanes} lanes"


@pytest.mark.parametrize("source", ["written", "ES", "FROG"])
def test_a_lane_among_1_2_7_or_64_is_the_same_on_rows_of_a_file(make_cache: MakeCache, source: str) -> None:
    @repeatable(3)
    @given(stretches(make_cache, source), st.integers(0, NUM_LANES - 1), st.integers(0, 10**6))
    def alike(m: Recorded, lane: int, seed: int) -> None:
        require_independent(m, lane, seed)

    alike()


@pytest.mark.parametrize("seed", [3, 5])
def test_a_lane_among_1_2_7_or_64_is_the_same_on_random_books(seed: int) -> None:
    require_independent(random_market(seed), 11 * seed, seed)


def test_a_lane_that_depends_on_the_others_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer.market import step as step_module

    whole = step_module.net_ticks

    def averaged(cash: torch.Tensor, fee_lots: torch.Tensor, fee_ticks: float) -> torch.Tensor:
        return whole(cash, fee_lots, fee_ticks) + 1e-9 * cash.double().mean()

    monkeypatch.setattr(step_module, "net_ticks", averaged)
    with pytest.raises(AssertionError, match="lanes"):
        require_independent(random_market(3), 5, 3)
