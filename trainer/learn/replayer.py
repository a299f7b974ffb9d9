"""Replays a fixed policy over tiles and joins what happened into one account per trader, in time order."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.config import Config, InstrumentConfig
from trainer.learn.account import Decisions, Trades
from trainer.learn.tiles import Tiles
from trainer.market.lanes import Lanes, Outcome, defect_counts, reset_lanes
from trainer.market.orders import feasible_actions
from trainer.market.step import step_lanes
from trainer.market.tape import Tape

Policy = Callable[[Lanes, Tensor, int], tuple[Tensor, Tensor]]
"""`(lanes, feasible [B, A], step) -> (action [B] int64, entropy [B] float32)`; it may read rows <= cursor."""

Columns = dict[str, NDArray[Any]]
OnStep = Callable[[int], None]


def _ignore(step: int) -> None:
    """No progress wanted."""


class Account(NamedTuple):
    """Decisions and trades of one trader over the whole window."""

    decisions: Decisions
    trades: Trades
    defects: dict[str, int]  # what the replay could not do as ordered, counted over the window


def replay_policy(
    tape: Tape,
    tiles: Tiles,
    policy: Policy,
    config: Config,
    instrument: InstrumentConfig,
    traders: int = 1,
    on_step: OnStep = _ignore,
) -> list[Account]:
    """One account per trader; lanes are `traders` copies of every tile, trader-major. Nothing is learned.

    Each tile starts flat and ends flat (forced, charged). Order and number of lanes do not change results.
    """
    device, num_tiles = tape.ts_ns.device, len(tiles)
    starts = torch.from_numpy(np.tile(tiles.start_row, traders)).to(device)
    limits = torch.from_numpy(np.tile(tiles.limit_row, traders)).to(device)
    left = torch.full_like(starts, config.evaluate.tile_decisions)
    lanes = reset_lanes(tape, starts, limits, left, config.market)
    live = torch.ones(len(starts), dtype=torch.bool, device=device)
    defects = lanes.defects
    steps: list[Columns] = []
    while bool(live.any()):
        feasible = feasible_actions(tape, lanes, config.market)
        action, entropy = policy(lanes, feasible, len(steps))
        after, outcome = step_lanes(tape, lanes, action, starts, config, instrument)
        steps.append(_columns(tape, lanes, outcome, feasible, entropy, live))
        # A lane behind its tile's end is replayed on with the others; what it does there counts nowhere.
        defects = torch.where(live[:, None], after.defects, defects)
        live = live & ~outcome.truncated
        lanes = after
        on_step(len(steps))
    stacked = {name: np.stack([step[name] for step in steps]) for name in steps[0]}
    shares = [slice(t * num_tiles, (t + 1) * num_tiles) for t in range(traders)]
    return [
        _join({name: a[:, share] for name, a in stacked.items()}, instrument, defect_counts(defects[share]))
        for share in shares
    ]


def _columns(
    tape: Tape, lanes: Lanes, outcome: Outcome, feasible: Tensor, entropy: Tensor, live: Tensor
) -> Columns:
    decision = {
        "live": live,
        "ts_ns": tape.ts_ns[lanes.cursor],
        "equity": outcome.equity_ticks,
        "ordered": outcome.ordered,
        "action": outcome.executed,
        "num_feasible": feasible.sum(1),
        "entropy": entropy,
        "in_market": (lanes.lots != 0) | (outcome.lots != 0),
        "spread": outcome.spread_cost_ticks,
    }
    trade = {f"trade_{name}": getattr(outcome.trades, name) for name in outcome.trades._fields}
    return {name: tensor.cpu().numpy() for name, tensor in (decision | trade).items()}


def _join(columns: Columns, instrument: InstrumentConfig, defects: dict[str, int]) -> Account:
    """Columns `[steps, tiles, ...]` to an account: tiles one after the other, each in its own order."""
    live = columns["live"].T
    pnl = np.diff(columns["equity"].T, axis=1, prepend=0.0)
    tile = np.broadcast_to(np.arange(live.shape[0], dtype=np.int32)[:, None], live.shape)
    names = ("ts_ns", "ordered", "action", "num_feasible", "entropy", "in_market")
    decisions = Decisions(
        pnl_ticks=pnl[live], tile=tile[live], **{name: columns[name].T[live] for name in names}
    )
    return Account(decisions, _trades(columns, instrument), defects)


def _trades(columns: Columns, instrument: InstrumentConfig) -> Trades:
    closed = (columns["trade_closed"] & columns["live"][..., None]).transpose(1, 0, 2)

    def pick(name: str) -> NDArray[Any]:
        return np.asarray(columns[f"trade_{name}"].transpose(1, 0, 2)[closed])

    fees, net = pick("fee_lots") * instrument.fee_ticks, pick("pnl_ticks")
    same = ("entry_ns", "exit_ns", "side", "lots", "age", "forced", "r", "entry_ticks", "exit_ticks")
    return Trades(
        pnl_ticks=net,
        fee_ticks=fees,
        gross_ticks=net + fees,
        spread_ticks=_spread_per_trade(columns["spread"].T, closed),
        **{name: pick(name) for name in same},
    )


def _spread_per_trade(spread: NDArray[Any], closed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Spread cost since the lane's previous close, given to the trade that closes; a reversal's opening fill
    counts for the trade it ends. `spread [tiles, steps]`, `closed [tiles, steps, 2]`; the total is exact."""
    total = np.cumsum(spread, axis=1)
    found = []
    for lane in range(len(spread)):
        step, _ = np.nonzero(closed[lane])
        paid = np.diff(total[lane, step], prepend=0.0)
        found.append(paid)
    return np.concatenate(found) if found else np.empty(0)
