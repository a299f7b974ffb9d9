"""Many decision paths of the synthetic market at once, and what a trader does and earns on them.

The account of a path is as the replay keeps it: a fill at the row after the decision, half a mean spread paid
at every fill, marked at what a close would get, a fee a fill, the last position closed by force.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.config import Config
from trainer.data.latent import MEAN_SPREAD_TICKS
from trainer.data.oracle_trader import decision_path, solve
from trainer.learn.account import Decisions, Trades
from trainer.presets import INSTRUMENTS
from trainer.types import Action

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DECISION_NS = 1_000_000_000
NUM_FEASIBLE, ENTROPY = 3, 0.6  # of a policy that the gate finds nothing wrong with

Trader = Callable[[Floats, Ints, Floats], Ints]
"""`(signal [N], side [N], net [N]) -> [N]` the side wanted; `net` is what a close would get."""


@dataclass(frozen=True)
class Costs:
    """Ticks a lot."""

    spread: float
    fee: float  # per fill


MARKET = INSTRUMENTS["synthetic"]
COSTS = Costs(MEAN_SPREAD_TICKS, MARKET.fee_ticks)
FREE = Costs(0.0, 0.0)


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    runs: int  # of each noise trader
    power_runs: int  # at each strength of the alpha
    series: int  # of each line of the coverage study
    folds: int
    decisions: int  # of a fold
    strengths: tuple[float, ...]
    seed: int


@dataclass(frozen=True)
class Paths:
    """N paths of T decisions: `signal [N, T]`, and `fills [N, T + 1]`, the mids at which orders fill."""

    signal: Floats
    fills: Floats


@dataclass(frozen=True)
class Book:
    """What a trader did: `side [N, T]` after each decision, `pnl [N, T]` net ticks as the replay marks."""

    side: Ints
    pnl: Floats


def market(config: Config, strength: float) -> Config:
    """The planted market with its drift times `strength`, and as much noise as keeps the mid as volatile."""
    planted = config.synthetic
    cost = COSTS.spread + 2.0 * COSTS.fee
    drift, own = planted.drift_cost_ratio * cost, planted.noise_ticks
    rest = math.sqrt(max(own**2, drift**2 + own**2 - (strength * drift) ** 2))
    changes = {"drift_cost_ratio": strength * planted.drift_cost_ratio, "noise_ticks": rest}
    return config.replaced(market_source="planted", synthetic=changes)  # type: ignore[arg-type]


def draw_paths(config: Config, num_paths: int, num_decisions: int, seed: int) -> Paths:
    """Fresh paths; path k depends on `seed` and k alone."""
    seeds = np.random.SeedSequence(seed).generate_state(num_paths)
    drawn = [decision_path(config, num_decisions + 1, int(one)) for one in seeds]
    return Paths(np.array([signal[:-1] for signal, _ in drawn]), np.array([fills for _, fills in drawn]))


def trade(paths: Paths, trader: Trader, costs: Costs) -> Book:
    """The trader on every path, decision by decision."""
    num_paths, num_decisions = paths.signal.shape
    sides = np.zeros((num_paths, num_decisions), np.int64)
    pnl = np.zeros((num_paths, num_decisions))
    side, net = np.zeros(num_paths, np.int64), np.zeros(num_paths)
    moves = np.diff(paths.fills, axis=1)
    for t in range(num_decisions):
        wanted = trader(paths.signal[:, t], side, net)
        changes = wanted != side
        opens, closes = changes & (wanted != 0), changes & (side != 0)
        earned = wanted * moves[:, t] - opens * (costs.spread + costs.fee) - closes * costs.fee
        # A close would pay one fee more; the closing fee of the position before is not of this trade.
        net = np.where(changes, -costs.fee * np.abs(wanted), net) + earned + closes * costs.fee
        net = np.where(wanted == 0, 0.0, net)
        sides[:, t], pnl[:, t], side = wanted, earned, wanted
    pnl[:, -1] -= costs.fee * np.abs(side)
    return Book(sides, pnl)


def account(paths: Paths, book: Book, path: int, costs: Costs) -> tuple[Decisions, Trades]:
    """Path `path` as the account that the gate's metrics are made of."""
    side, fills = book.side[path], paths.fills[path]
    before = np.concatenate([[0], side[:-1]])
    decisions = Decisions(
        ts_ns=np.arange(len(side)) * DECISION_NS,
        pnl_ticks=book.pnl[path],
        ordered=side != before,
        action=np.where(side != before, int(Action.REVERSE), int(Action.HOLD)),
        num_feasible=np.full(len(side), NUM_FEASIBLE),
        entropy=np.full(len(side), ENTROPY),
        in_market=(side != 0) | (before != 0),
        tile=np.zeros(len(side), np.int32),
    )
    entry = np.flatnonzero((side != before) & (side != 0))
    leave = np.append(np.flatnonzero((side != before) & (before != 0)), len(side))[: len(entry)]
    sign, fee = side[entry], np.full(len(entry), 2 * costs.fee)
    gross = sign * (fills[leave] - fills[entry]) - costs.spread
    trades = Trades(
        entry_ns=entry * DECISION_NS,
        exit_ns=leave * DECISION_NS,
        side=sign,
        lots=np.ones(len(entry), np.int32),
        pnl_ticks=gross - fee,
        fee_ticks=fee,
        gross_ticks=gross,
        age=(leave - entry).astype(np.int32),
        forced=leave == len(side),
        r=(gross - fee) / 4.0,
        entry_ticks=fills[entry] + sign * costs.spread / 2,
        exit_ticks=fills[leave] - sign * costs.spread / 2,
    )
    return decisions, trades


def random_pnl(
    paths: Paths, enter: Floats, leave: Floats, costs: Costs, num_traders: int, rng: np.random.Generator
) -> Floats:
    """`[N, T]` mean net ticks of `num_traders` random traders with the rates `enter`, `leave` `[N]`."""
    num_paths, num_decisions = paths.signal.shape
    moves = np.diff(paths.fills, axis=1)
    side = np.zeros((num_paths, num_traders), np.int8)
    pnl = np.zeros((num_paths, num_decisions))
    for t in range(num_decisions):
        draw, flat = rng.random((num_paths, num_traders), np.float32), side == 0
        enters, leaves = flat & (draw < enter[:, None]), ~flat & (draw < leave[:, None])
        # Of a uniform number under the rate, the half that it lies in is a fair coin.
        entry = np.where(draw < 0.5 * enter[:, None], np.int8(1), np.int8(-1))
        side = np.where(enters, entry, np.where(leaves, np.int8(0), side))
        paid = enters.mean(1) * (costs.spread + costs.fee) + leaves.mean(1) * costs.fee
        pnl[:, t] = side.mean(1) * moves[:, t] - paid
    pnl[:, -1] -= costs.fee * np.abs(side).mean(1)
    return pnl


def best_trader(config: Config) -> Trader:
    """The optimal trader of `config`'s market, whatever market he is then put on."""
    oracle = solve(config)

    def trader(signal: Floats, side: Ints, net: Floats) -> Ints:
        rows = oracle.act(signal)
        return np.asarray(rows[np.arange(len(side)), side + 1] - 1)

    return trader


def take_profit(profit_ticks: float, stop_ticks: float, rng: np.random.Generator) -> Trader:
    """Always in the market, on a side drawn anew; out at a small net profit or a large net loss."""

    def trader(signal: Floats, side: Ints, net: Floats) -> Ints:
        drawn = rng.choice(np.array([-1, 1]), len(side))
        done = (net >= profit_ticks) | (net <= -stop_ticks)
        return np.asarray(np.where(side == 0, drawn, np.where(done, 0, side)))

    return trader


def coin(enter: float, leave: float, rng: np.random.Generator) -> Trader:
    """Enters on a drawn side and leaves at random, with these chances a decision."""

    def trader(signal: Floats, side: Ints, net: Floats) -> Ints:
        drawn, chance = rng.choice(np.array([-1, 1]), len(side)), rng.random(len(side))
        return np.asarray(np.where(side == 0, drawn * (chance < enter), np.where(chance < leave, 0, side)))

    return trader
