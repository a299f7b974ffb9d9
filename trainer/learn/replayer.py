"""Replays a fixed policy over tiles and joins what happened into one account per trader, in time order."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.config import Config, InstrumentConfig
from trainer.learn.account import Decisions, Trades
from trainer.learn.captured import captured
from trainer.learn.tiles import Tiles
from trainer.learn.tree import copy_into, flatten, rebuild, structure
from trainer.market.lanes import Lanes, Outcome, defect_counts, reset_lanes
from trainer.market.orders import feasible_actions
from trainer.market.step import step_lanes
from trainer.market.tape import Tape

Policy = Callable[[Lanes, Tensor, Tensor], tuple[Tensor, Tensor]]
"""`(lanes, feasible [B, A], step [] int64) -> (action [B] int64, entropy [B] float32)`; it may read rows up
to the cursor's."""

Columns = dict[str, NDArray[Any]]
Rows = dict[str, Tensor]
OnStep = Callable[[int], None]

GRAPH_BLOCK = 64  # decisions of a captured replay between two looks at the GPU


def _ignore(step: int) -> None:
    """No progress wanted."""


class Account(NamedTuple):
    """Decisions and trades of one trader over the whole window."""

    decisions: Decisions
    trades: Trades
    defects: dict[str, int]  # what the replay could not do as ordered, counted over the window


class Walk(NamedTuple):
    """Where a replay of B lanes stands."""

    step: Tensor  # [] int64, decisions made
    lanes: Lanes
    live: Tensor  # [B] bool, not yet at the end of its tile
    defects: Tensor  # [B, defects] int64, up to the end of its tile


Decide = Callable[[Walk], tuple[Walk, Rows]]


def replay_policy(
    tape: Tape,
    tiles: Tiles,
    policy: Policy,
    config: Config,
    instrument: InstrumentConfig,
    traders: int = 1,
    on_step: OnStep = _ignore,
    *,
    use_graph: bool = False,
) -> list[Account]:
    """One account per trader; lanes are `traders` copies of every tile, trader-major. Nothing is learned.

    Each tile starts flat and ends flat (forced, charged). Order and number of lanes do not change results.
    `use_graph` captures a decision in one CUDA graph, with the same results: the policy must then not look at
    the host.
    """
    device, num_tiles = tape.ts_ns.device, len(tiles)
    starts = torch.from_numpy(np.tile(tiles.start_row, traders)).to(device)
    limits = torch.from_numpy(np.tile(tiles.limit_row, traders)).to(device)
    left = torch.full_like(starts, config.evaluate.tile_decisions)
    lanes = reset_lanes(tape, starts, limits, left, config.market)
    live = torch.ones(len(starts), dtype=torch.bool, device=device)
    walk = Walk(torch.zeros((), dtype=torch.int64, device=device), lanes, live, lanes.defects.clone())

    def decide(walk: Walk) -> tuple[Walk, Rows]:
        feasible = feasible_actions(tape, walk.lanes, config.market)
        action, entropy = policy(walk.lanes, feasible, walk.step)
        after, outcome = step_lanes(tape, walk.lanes, action, starts, config, instrument)
        rows = _rows(tape, walk.lanes, outcome, feasible, entropy, walk.live)
        # A lane behind its tile's end is replayed on with the others; what it does there counts nowhere.
        defects = torch.where(walk.live[:, None], after.defects, walk.defects)
        return Walk(walk.step + 1, after, walk.live & ~outcome.truncated, defects), rows

    blocks: list[Columns] = []
    num_steps = 0
    for after, rows in _in_graph(decide, walk) if use_graph else _plainly(decide, walk):
        walk = after
        stacked = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        blocks.append({name: tensor.cpu().numpy() for name, tensor in stacked.items()})
        num_steps += len(rows)
        on_step(num_steps)
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    accounts = []
    for trader in range(traders):
        share = slice(trader * num_tiles, (trader + 1) * num_tiles)
        own = {name: column[:, share] for name, column in columns.items()}
        accounts.append(_join(own, instrument, defect_counts(walk.defects[share])))
    return accounts


def _plainly(decide: Decide, walk: Walk) -> Iterator[tuple[Walk, list[Rows]]]:
    """Decision by decision until no lane is live."""
    while bool(walk.live.any()):
        walk, rows = decide(walk)
        yield walk, [rows]


def _in_graph(decide: Decide, walk: Walk) -> Iterator[tuple[Walk, list[Rows]]]:
    """The same from a CUDA graph, in blocks, on tensors of its own: they stay in place, as a graph needs."""
    walk = rebuild(structure(walk), [tensor.clone() for tensor in flatten(walk)])
    rows: Rows = {}

    def body() -> None:
        after, fresh = decide(walk)
        # Cloned before the walk moves on: some are tensors of it.
        rows.update({name: tensor.clone() for name, tensor in fresh.items()})
        copy_into(walk, after)

    graph = captured(body, warm_up=lambda: decide(walk))
    while bool(walk.live.any()):
        block = []
        for _ in range(GRAPH_BLOCK):
            graph.replay()
            block.append({name: tensor.clone() for name, tensor in rows.items()})
        yield walk, block


def _rows(
    tape: Tape, lanes: Lanes, outcome: Outcome, feasible: Tensor, entropy: Tensor, live: Tensor
) -> Rows:
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
    return decision | trade


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
