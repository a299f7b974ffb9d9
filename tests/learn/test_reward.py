"""The documents' reward at close: scale, clamp and span by loop, and streams that once made them run away."""

import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.market.recorded import Replay, steady
from trainer.learn.bus import EMAS, Slots
from trainer.learn.controllers import Values, blend_ema
from trainer.learn.reward import CLOSE_SLOTS, stored_reward, unit_ticks, update_close_scale
from trainer.market.lanes import Outcome, Trades
from trainer.presets import default, seed
from trainer.types import Action

A = Action
AT_CLOSE, MARKED = seed(), default()


def scalar(value: float) -> Tensor:
    return torch.tensor(float(value))


def start() -> Values:
    slots = Slots(AT_CLOSE)
    return slots.read(slots.initial(torch.device("cpu"))[0])


def trades_of(pnl: Iterable[float]) -> Trades:
    """Trades closed by an order, one a lane; a lane with 0 closed none."""
    pnl_ticks = torch.tensor([[value, 0.0] for value in pnl], dtype=torch.float64)
    fields = {name: torch.zeros_like(pnl_ticks) for name in Trades._fields}
    return Trades(**fields | {"pnl_ticks": pnl_ticks, "closed": pnl_ticks != 0})


def adapted(slots: Values, pnl: Iterable[float]) -> Values:
    """One step of all that `at_close` adapts, the average behind the scale included."""
    trades = trades_of(pnl)
    size = trades.pnl_ticks.abs().sum() / trades.closed.sum().clamp(min=1)
    average = blend_ema(slots["ema.abs_trade"], size.float(), trades.closed.any())
    return update_close_scale(slots | {"ema.abs_trade": average}, trades)


def outcome_of(pnl: list[float], penalty: list[float]) -> Outcome:
    fields = {name: torch.zeros(len(pnl), dtype=torch.float64) for name in Outcome._fields}
    changed = {"trades": trades_of(pnl), "drawdown_penalty": torch.tensor(penalty)}
    return Outcome(**fields | changed)


@pytest.mark.parametrize("scale", [0.0, -1.0, 1e38, -1e38])
def test_a_deep_drawdown_under_an_absurd_scale_is_stored_finite(scale: float) -> None:
    for config in (MARKED, AT_CLOSE):
        values, _ = Slots(config).initial(torch.device("cpu"))
        slots = Slots(config).read(values) | {"reward_scale": scalar(scale)}
        stored = stored_reward(outcome_of([0.0], [-1e6]), slots, config.learn)
        assert torch.isfinite(stored).all()
        assert stored.item() < 0.0, "a penalty is never a reward"


def test_only_a_run_that_is_paid_at_close_has_its_slots() -> None:
    assert set(CLOSE_SLOTS) <= set(Slots(AT_CLOSE).starts)
    assert set(CLOSE_SLOTS).isdisjoint(Slots(MARKED).starts)
    plain = [name for name in Slots(AT_CLOSE).starts if name not in CLOSE_SLOTS]
    assert plain == list(Slots(MARKED).starts), "the default's bus is unchanged, slot by slot"
    assert set(EMAS) <= set(plain)
    starts = Slots(AT_CLOSE).starts
    assert (starts["reward_scale"], starts["loss_clamp"]) == (1.0, 3.0)


def test_a_trade_pays_once_when_it_closes_net_of_all_fees() -> None:
    lane = Replay(steady(20, moves=[0, 0, 4], fee_ticks=0.5, trail_min_ticks=50.0, drawdown_penalty=0.0))
    outcomes = [lane.act(action) for action in (A.OPEN_LONG, A.HOLD, A.HOLD, A.FLAT_FROM_LONG, A.HOLD)]
    slots = start() | {"reward_scale": scalar(10.0)}
    paid = [stored_reward(outcome, slots, AT_CLOSE.learn).item() for outcome in outcomes]
    gained = 4 - 1 - 2 * 0.5  # the move, less the spread and two fees
    assert [round(value, 5) for value in paid] == [0.0, 0.0, 0.0, round(gained / 10, 5), 0.0]
    marked = [stored_reward(outcome, slots, MARKED.learn).item() for outcome in outcomes]
    assert sum(marked) == pytest.approx(gained), "the default pays the same money, as it is made"
    assert sum(value != 0 for value in marked) > 1


def test_wins_are_clamped_at_one_losses_at_the_adaptive_bound_and_the_penalty_is_outside() -> None:
    slots = start() | {"reward_scale": scalar(2.0), "loss_clamp": scalar(1.5)}
    outcome = outcome_of([9.0, 1.0, -1.0, -9.0, 0.0], [0.0, 0.0, 0.0, -0.25, -0.5])
    found = stored_reward(outcome, slots, AT_CLOSE.learn)
    assert found.tolist() == [1.0, 0.5, -0.5, -1.75, -0.5]
    assert found.dtype == torch.float32


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    pnl=st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=8),
    scale=st.floats(0.0, 1e6),
    clamp=st.floats(-10.0, 100.0),
)
def test_every_reward_lies_between_the_widest_loss_and_one(
    pnl: list[float], scale: float, clamp: float
) -> None:
    slots = start() | {"reward_scale": scalar(scale), "loss_clamp": scalar(clamp)}
    found = stored_reward(outcome_of(pnl, [0.0] * len(pnl)), slots, AT_CLOSE.learn)
    assert (found >= -3.0).all()
    assert (found <= 1.0).all()
    assert (torch.sign(found) * torch.tensor(pnl).sign() >= 0).all()


def test_returns_paid_at_close_are_in_reward_units_already() -> None:
    slots = start() | {"reward_scale": scalar(7.0)}
    assert unit_ticks(slots, AT_CLOSE.learn) is None
    ticks = unit_ticks(slots, MARKED.learn)
    assert ticks is not None
    assert ticks.item() == 7.0


def test_the_scale_is_the_inverse_of_the_mean_trade_and_starts_at_one() -> None:
    assert adapted(start(), [0.0, 0.0])["reward_scale"].item() == 1.0, "no trade yet: it holds"
    slots = start()
    for _ in range(40):
        slots = adapted(slots, [50.0, -50.0, 0.0])
    assert 1 / slots["reward_scale"].item() == pytest.approx(1 / 50.0, rel=1e-4)


def by_loop(rows: np.ndarray) -> tuple[float, float, float]:
    """Scale, loss clamp and span after steps that closed trades of `rows [T, B]` ticks."""
    typical, win, loss, scale, clamp, span = 0.0, 0.0, 0.0, 1.0, 3.0, 4.0

    def averaged(old: float, values: list[float]) -> float:
        if not values:
            return old
        mean = sum(values) / len(values)
        return mean if old == 0 else old + 0.05 * (mean - old)

    for row in rows:
        closed = [float(value) for value in row if value != 0]
        typical = averaged(typical, [abs(value) for value in closed])
        win = averaged(win, [value / scale for value in closed if value > 0])
        loss = averaged(loss, [-value / scale for value in closed if value < 0])
        if win > 0 and loss > 0:
            clamp = min(max(1.1 * loss / win, 1.0), 3.0)
        if win > 0 or loss > 0:
            span = min(max(3 * max(win, loss), 1.0), 12.0)
        if typical > 0:
            scale += 0.4 * (min(max(typical, 1e-3), 1e9) - scale)
    return scale, clamp, span


def played(rows: np.ndarray, slots: Values | None = None) -> list[Values]:
    found = [slots or start()]
    for row in rows:
        found.append(adapted(found[-1], row.tolist()))
    return found


@pytest.mark.parametrize("lose", [0.3, 1.0, 2.0, 9.0])
def test_scale_clamp_and_span_equal_a_loop_over_trades(lose: float) -> None:
    rng = np.random.default_rng(4)
    rows = rng.exponential(5.0, (150, 6)) * (rng.random((150, 6)) < 0.3)
    rows = np.where(rng.random(rows.shape) < 0.5, rows, -lose * rows)
    last = played(rows)[-1]
    found = (last["reward_scale"].item(), last["loss_clamp"].item(), last["atom_span"].item())
    assert found == pytest.approx(by_loop(rows), rel=1e-3)


@pytest.mark.parametrize("row", [[5.0, 8.0], [-5.0, -8.0]])
def test_the_clamp_stays_at_its_start_until_there_were_wins_and_losses(row: list[float]) -> None:
    slots = played(np.array([row] * 50))[-1]
    assert slots["loss_clamp"].item() == 3.0
    assert adapted(slots, [-0.1, 8.0])["loss_clamp"].item() < 3.0 or row[0] < 0


def test_the_clamp_follows_the_ratio_of_losses_to_wins_between_its_bounds() -> None:
    for loss, expected in ((2.0, 1.0), (10.0, 1.1), (20.0, 2.2), (90.0, 3.0)):
        slots = played(np.array([[10.0, -loss]] * 200))[-1]
        assert slots["loss_clamp"].item() == pytest.approx(expected, rel=1e-3), loss


def test_a_heavy_tailed_stream_makes_neither_clamp_nor_span_run_away() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_t(1.1, (1500, 4))  # no variance, hardly a mean
    seen = played(rows)
    clamps, spans = ([slots[name].item() for slots in seen] for name in ("loss_clamp", "atom_span"))
    assert 1.0 <= min(clamps) <= max(clamps) <= 3.0
    assert 1.0 <= min(spans) <= max(spans) <= 12.0
    assert np.mean(np.array(spans) < 12.0) > 0.5, "it must come down again, not sit at its bound"
    assert all(math.isfinite(value.item()) for value in seen[-1].values())
    calm = played(np.array([[1.0, -1.0]] * 400), seen[-1])[-1]
    assert (calm["loss_clamp"].item(), calm["atom_span"].item()) == pytest.approx((1.1, 3.0), rel=0.02)


def test_clamp_and_span_do_not_read_each_other() -> None:
    rows = np.random.default_rng(1).normal(0, 5, (60, 4))
    wide = played(rows, start() | {"loss_clamp": scalar(3.0), "atom_span": scalar(12.0)})[-1]
    narrow = played(rows, start() | {"loss_clamp": scalar(1.0), "atom_span": scalar(1.0)})[-1]
    assert {name: wide[name].item() for name in wide} == {name: narrow[name].item() for name in narrow}


def test_a_step_without_a_close_moves_nothing() -> None:
    before = played(np.array([[10.0, -4.0]] * 300))[-1]
    after = adapted(before, [0.0, 0.0])
    for name in ("ema.close_win", "ema.close_loss", "loss_clamp", "atom_span"):
        assert after[name].item() == before[name].item()
