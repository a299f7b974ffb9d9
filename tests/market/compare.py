"""Lanes of the replay beside lanes of the scalar oracle: every field of state, outcome and trade log."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tests.market.recorded import Recorded
from tests.oracles.lane import DEFECTS as DEFECT_ORDER
from tests.oracles.lane import Lane
from tests.oracles.records import Closed, Report
from tests.oracles.sight import context, feasible, flattening, stop_loss_excess, stopped
from trainer.market import Lanes, Outcome, Trades, context_features, feasible_actions, risk_stage
from trainer.types import NUM_ACTIONS

Fields = dict[str, Any]


def padded(values: Sequence[float], width: int) -> list[float]:
    return [*values, *[0] * (width - len(values))]


def state_of(lane: Lane) -> tuple[Fields, Fields]:
    """What `Lanes` must hold of the oracle's lane: exact integers, and floats."""
    trade, pending, width = lane.trade, lane.pending, lane.rules.num_units
    exact = {
        "cursor": lane.row,
        "limit_row": lane.limit_row,
        "episode_left": lane.episode_left,
        "lots": lane.lots,
        "cash_ticks": lane.cash,
        "fee_lots": lane.fee_lots,
        "trade_cash_ticks": trade.cash if trade else 0,
        "trade_fee_lots": trade.fee_lots if trade else 0,
        "trade_entry_notional": trade.entry_notional if trade else 0,
        "trade_entry_lots": trade.entry_lots if trade else 0,
        "trade_max_lots": trade.max_lots if trade else 0,
        "trade_entry_ns": trade.entry_ns if trade else 0,
        "unit_lots": padded([u.lots for u in lane.units], width),
        "unit_trail_steps": padded([u.moves for u in lane.units], width),
        "high_water_ticks": trade.side * trade.best_price if trade else 0,
        "age": trade.age if trade else 0,
        "since_close": lane.since_close,
        "pending_action": pending.action if pending else 0,
        "defects": [lane.defects[name] for name in DEFECT_ORDER],
    }
    if pending:
        exact |= {"pending_row": pending.row, "pending_age": pending.age}
    close = {
        "realized_ticks": lane.realized,
        "equity_ticks": lane.equity_mid(),
        "peak_equity_ticks": lane.peak_equity,
        "trade_risk_ticks": trade.risk if trade else 0.0,
        "unit_entry_ticks": padded([float(u.entry) for u in lane.units], width),
        "unit_trail_ticks": padded([u.initial_trail for u in lane.units], width),
        "open_pnl_ticks": lane.open_pnl(),
        "unrealized_r": lane.unrealized_r(),
        "peak_r": trade.peak_r if trade else 0.0,
        "order_share": lane.order_share,
        "win_share": lane.win_share,
        "last_trade_r": lane.last_r,
    }
    return exact, close


def report_of(report: Report, ts: Sequence[int]) -> tuple[Fields, Fields]:
    """What `Outcome` must hold of the oracle's report."""
    exact = {
        "ordered": report.ordered,
        "done": bool(report.closed),
        "truncated": report.truncated,
        "row": report.row,
        "ts_ns": ts[report.row],
        "lots": report.lots,
        "fill_lots": report.fill_lots,
        "fill_notional_ticks": report.fill_notional,
        "fill_delay": report.fill_delay,
        "forced_lots": report.forced_lots,
        "fee_lots": report.fee_lots,
    }
    close = {
        "reward_ticks": report.reward,
        "drawdown_penalty": report.penalty,
        "unrealized_r": report.unrealized_r,
        "equity_ticks": report.equity_close,
        "mid_equity_ticks": report.equity_mid,
        "spread_cost_ticks": report.spread_cost,
    }
    return exact, close


def trade_of(closed: Closed) -> tuple[Fields, Fields]:
    """What a column of `Trades` must hold of a closed trade."""
    names = ("side", "lots", "fee_lots", "age", "entry_ns", "exit_ns", "forced")
    exact = {name: getattr(closed, name) for name in names} | {"closed": True}
    close = {"pnl_ticks": closed.pnl, "entry_ticks": closed.entry, "exit_ticks": closed.exit, "r": closed.r}
    return exact, close


# About a ten-thousandth of a cent at 12.50 a tick: what float64 keeps of an account of 10^7 tick lots.
MONEY_TICKS = 1e-7
FLOAT32 = frozenset(("drawdown_penalty", "unrealized_r", "r", "last_trade_r"))


def require(found: Fields, exact: Fields, close: Fields, where: str) -> None:
    """Integers equal; floats far within a cent, or within float32's rounding where they were stored so."""
    for name, expected in exact.items():
        assert found[name] == expected, f"{where}: {name} is {found[name]}, the oracle says {expected}"
    for name, expected in close.items():
        tolerance = 1e-6 if name in FLOAT32 else 1e-12
        pairs = (
            zip(found[name], expected, strict=True)
            if isinstance(expected, list)
            else ((found[name], expected),)
        )
        for got, wanted in pairs:
            assert math.isclose(got, wanted, rel_tol=tolerance, abs_tol=MONEY_TICKS), (
                f"{where}: {name} is {got}, the oracle says {float(wanted)}"
            )


def memory_of(keys: list[list[int]], used: list[list[int]]) -> list[set[tuple[int, int, int]]]:
    """(price, size shown, lots taken) of every level of which a lane took something, per side."""
    return [
        {(key >> 32, key & 0xFFFFFFFF, lots) for key, lots in zip(*side, strict=True) if lots}
        for side in zip(keys, used, strict=True)
    ]


def check_lanes(lanes: Lanes, oracles: Sequence[Lane], where: str) -> None:
    """Every field of every lane."""
    columns = {name: getattr(lanes, name).tolist() for name in Lanes._fields}
    for index, lane in enumerate(oracles):
        found = {name: column[index] for name, column in columns.items()}
        exact, close = state_of(lane)
        require(found, exact, close, f"{where}, lane {index}")
        memory = [{(p, shown, lots) for p, (shown, lots) in side.items() if lots} for side in lane.book.taken]
        assert memory_of(found["used_keys"], found["used_lots"]) == memory, f"{where}, lane {index}: memory"


def check_outcome(
    out: Outcome, actions: Sequence[int], reports: Sequence[Report], ts: Sequence[int], where: str
) -> None:
    """Every field of the outcome of every lane."""
    columns = {name: getattr(out, name).tolist() for name in Outcome._fields if name != "trades"}
    for index, report in enumerate(reports):
        found = {name: column[index] for name, column in columns.items()}
        exact, close = report_of(report, ts)
        require(found, exact | {"executed": actions[index]}, close, f"{where}, lane {index}")
    check_trades(out.trades, reports, where)


def check_trades(trades: Trades, reports: Sequence[Report], where: str) -> None:
    """The trades a step closed: by a fill in column 0, by a forced exit in column 1, nothing elsewhere."""
    closed = {(i, int(c.forced)): c for i, report in enumerate(reports) for c in report.closed}
    assert len(closed) == sum(len(report.closed) for report in reports)
    elsewhere = torch.ones_like(trades.closed)
    for index, column in closed:
        elsewhere[index, column] = False
    for name, values in trades._asdict().items():
        assert not values[elsewhere].any(), f"{where}: {name} of a trade that the oracle did not close"
    for (index, column), trade in closed.items():
        found = {name: values[index, column].item() for name, values in trades._asdict().items()}
        require(found, *trade_of(trade), f"{where}, lane {index}, trade {column}")


def check_sight(m: Recorded, lanes: Lanes, oracles: Sequence[Lane], mean: float, where: str) -> np.ndarray:
    """Masks and contexts of every lane; the masks `[B, A] bool`."""
    allowed = feasible_actions(m.tape, lanes, m.config.market).numpy()
    expected = np.zeros((len(oracles), NUM_ACTIONS), bool)
    for index, lane in enumerate(oracles):
        expected[index, list(feasible(lane))] = True
    np.testing.assert_array_equal(allowed, expected, f"{where}: masks")
    found = context_features(m.tape, lanes, torch.tensor(mean), m.config.market, m.instrument).numpy()
    contexts = [context(lane, mean) for lane in oracles]
    np.testing.assert_allclose(found, contexts, rtol=1e-6, atol=1e-5, err_msg=f"{where}: context")
    return allowed


def check_risk(
    m: Recorded,
    lanes: Lanes,
    oracles: Sequence[Lane],
    wanted: torch.Tensor,
    stop: tuple[float, float],
    where: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The risk stage of every lane, at a mean |trade P&L| and a stop ratio: (action, stopped) `[B]`."""
    mean, ratio = stop
    action, hit = risk_stage(m.tape, lanes, wanted, torch.tensor(ratio), torch.tensor(mean), m.config.market)
    for index, (lane, found) in enumerate(zip(oracles, hit.tolist(), strict=True)):
        if found != stopped(lane, mean, ratio):
            # The lifetime's measure is a sum of float64: exactly at its limit it may fall on either side.
            tie = abs(stop_loss_excess(lane, mean, ratio)) < 1e-9
            assert tie, f"{where}, lane {index}: stops"
            assert lane.rules.stop_loss_measure == "lifetime_peak", f"{where}, lane {index}: stops"
    moves = zip(oracles, wanted.tolist(), hit.tolist(), strict=True)
    expected = [flattening(lane) if found else chosen for lane, chosen, found in moves]
    assert action.tolist() == expected, f"{where}: action after the risk stage"
    return action, hit
