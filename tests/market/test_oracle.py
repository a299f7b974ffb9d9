"""The replay beside the scalar oracle: more than 10^5 generated orders, every field of every step."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.market.acting import Script, random_script
from tests.market.compare import (
    check_lanes,
    check_outcome,
    check_risk,
    check_sight,
    report_of,
    state_of,
    trade_of,
)
from tests.market.generated import MakeCache, market_of, repeatable, scripts, stretches
from tests.market.recorded import Recorded, random_market, steady
from tests.oracles.lane import Lane
from tests.oracles.market import step as oracle_step
from tests.oracles.records import Closed, Order, Report
from trainer.market import DEFECTS, Lanes, Outcome, Trades, step_lanes
from trainer.market import orders as orders_module
from trainer.market import step as step_module
from trainer.market.orders import Fill
from trainer.types import Action

# Per source: examples, the orders they must send, and what its rows do not bring about.
GENERATED = {
    "random": (12, 43_500, set()),
    "written": (8, 27_500, {"bad_entry_prices", "unfilled_orders"}),
    "ES": (7, 15_500, {"bad_entry_prices", "unfilled_orders"}),
    "FROG": (5, 15_000, {"bad_entry_prices", "closed by fill and by exit in one step"}),
}
EVERYTHING = {
    *DEFECTS, *(action.name for action in Action), "orders", "stops", "forced at a gap",
    "forced at an announced end", "forced at a tile's end", "forced at an episode's end",
    "filled in a later decision", "closed by fill and by exit in one step", "pyramids", "reversals",
}  # fmt: skip


def replay_both(m: Recorded, script: Script, risks: bytes) -> Counter[str]:
    """Scripted lanes on the device and in the oracle; every field must agree. Counts what happened."""
    lanes, counts = script.reset(m, m.tape.anchors), Counter[str]()
    starts = zip(lanes.cursor.tolist(), lanes.limit_row.tolist(), lanes.episode_left.tolist(), strict=True)
    oracles = [Lane(m.history, *start) for start in starts]
    for index, risk in enumerate(risks):
        where, mean, ratio = f"step {index}", (0.0, 1.5, 4.0, 60.0)[risk % 4], (0.5, 2.0)[risk // 4 % 2]
        allowed = check_sight(m, lanes, oracles, mean, where)
        wanted = script.pick(index, allowed)
        action, hit = check_risk(m, lanes, oracles, wanted, (mean, ratio), where)
        anchors, before = script.anchors(index, m.tape.anchors), lanes
        lanes, out = step_lanes(m.tape, lanes, action, anchors, m.config, m.instrument)
        moves = zip(oracles, action.tolist(), anchors.tolist(), strict=True)
        reports = [oracle_step(lane, chosen, anchor) for lane, chosen, anchor in moves]
        check_outcome(out, action.tolist(), reports, m.history.ts, where)
        check_lanes(lanes, oracles, where)
        counts.update(happened(m, before, action, hit, out))
    counts.update({name: int(lanes.defects[:, k].sum()) for k, name in enumerate(DEFECTS)})
    return counts


def happened(
    m: Recorded, before: Lanes, action: torch.Tensor, hit: torch.Tensor, out: Outcome
) -> dict[str, int]:
    """How often each action and each kind of fill, stop and exit occurred in one step."""
    at_exit = out.row == m.tape.exit_row[before.cursor]
    gap = at_exit & m.tape.exit_is_gap[before.cursor]
    forced, at_tile = out.forced_lots != 0, (out.row >= before.limit_row) & ~at_exit
    seen = {kind.name: action == kind for kind in Action}
    seen |= {
        "orders": out.ordered,
        "stops": hit,
        "forced at a gap": forced & gap,
        "forced at an announced end": forced & at_exit & ~gap,
        "forced at a tile's end": forced & at_tile,
        "forced at an episode's end": forced & ~at_exit & ~at_tile,
        "filled in a later decision": out.fill_delay > 0,
        "closed by fill and by exit in one step": out.trades.closed.all(1),
        "pyramids": (before.unit_lots > 0).sum(1) > 1,
        "reversals": out.trades.closed[:, 0] & (out.lots * before.lots < 0),
    }
    return {name: int(where.sum()) for name, where in seen.items()}


def require_reached(counts: Counter[str], source: str) -> None:
    """Agreement on paths never taken would prove nothing."""
    _, num_orders, never = GENERATED[source]
    assert counts["orders"] >= num_orders
    assert {name for name in EVERYTHING if not counts[name]} <= never, counts


def test_more_than_a_hundred_thousand_orders_are_generated() -> None:
    assert sum(orders for _, orders, _ in GENERATED.values()) > 100_000


def test_replay_equals_scalar_oracle_on_random_books() -> None:
    """Thin, jumpy books with gaps, sessions and rolls every few rows."""
    counts = Counter[str]()

    @repeatable(GENERATED["random"][0])
    @given(st.integers(0, 10**9), scripts())
    def replayed(seed: int, script: tuple[Script, bytes]) -> None:
        counts.update(replay_both(market_of(seed), *script))

    replayed()
    require_reached(counts, "random")


@pytest.mark.parametrize("source", ["written", "ES", "FROG"])
def test_replay_equals_scalar_oracle_on_rows_of_a_file(make_cache: MakeCache, source: str) -> None:
    counts = Counter[str]()

    @repeatable(GENERATED[source][0])
    @given(stretches(make_cache, source), scripts())
    def replayed(m: Recorded, script: tuple[Script, bytes]) -> None:
        counts.update(replay_both(m, *script))

    replayed()
    require_reached(counts, source)


def test_every_field_of_state_outcome_and_trade_log_is_compared() -> None:
    lane = Lane(steady(9).history, 0, 9, 9)
    lane.pending = Order(1, 1)
    compared = set().union(*state_of(lane)) | {"used_keys", "used_lots"}
    assert compared == set(Lanes._fields)
    reported = set().union(*report_of(Report(0, False, False), [0])) | {"executed", "trades"}
    assert reported == set(Outcome._fields)
    closed = Closed(1, 1, Fraction(0), 0, 0, 0, 0, Fraction(0), Fraction(0), False, 0.0)
    assert set().union(*trade_of(closed)) == set(Trades._fields)


def spoiled_cash(whole: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """A fill that books one tick too much in one lane."""

    def apply(lanes: Lanes, fill: Fill, ts_ns: torch.Tensor) -> Lanes:
        after = whole(lanes, fill, ts_ns)
        wrong = (fill.open_lots > 0) & (torch.arange(len(ts_ns)) == 7)
        return after._replace(cash_ticks=after.cash_ticks + wrong)

    return apply


@pytest.mark.parametrize("fault", ["a cent", "a tick", "a row late", "no memory", "exit late", "trail"])
def test_a_replay_that_breaks_a_rule_is_caught(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    m, script, risks = random_market(3), random_script(3, 30, 24), bytes(range(30))
    assert replay_both(m, script, risks)["orders"] > 200
    tape = m.tape
    if fault == "a cent":  # of the fee, at 12.50 a tick
        dearer = {"fee_per_lot": m.instrument.fee_per_lot + 0.0008}
        m = m._replace(instrument=m.instrument.model_copy(update=dearer))
    elif fault == "a tick":
        monkeypatch.setattr(step_module, "apply_fill", spoiled_cash(step_module.apply_fill))
    elif fault == "a row late":
        m = m._replace(tape=tape._replace(fill_row=tape.fill_row + 1))
    elif fault == "no memory":
        monkeypatch.setattr(orders_module, "remember", lambda *inputs: inputs[-2:])
    elif fault == "exit late":
        late = (tape.exit_row + 1).clamp(max=len(tape.ts_ns) - 1)
        m = m._replace(tape=tape._replace(exit_row=late))
    else:
        m = m._replace(tape=tape._replace(range_ticks=tape.range_ticks * 8))
    with pytest.raises(AssertionError, match=r"oracle says|memory|masks|context|stops"):
        replay_both(m, script, risks)
