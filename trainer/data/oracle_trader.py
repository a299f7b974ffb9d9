"""The best trader who sees the planted signal, and what he earns after costs (design page SYSTEM.md 12).

Average-reward dynamic programming over (signal, position) at the decision clock: the yardstick for an agent.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trainer.config import Config
from trainer.data.latent import Floats, LatentModel, LatentPath
from trainer.data.mbp import book_rows
from trainer.data.orderflow import Events, OrderFlow, quotes_around

POSITIONS = np.array([-1, 0, 1])
GRID_SIZE, GRID_LIMIT = 81, 4.0  # signal grid, standard deviations
MAX_SWEEPS, TOLERANCE = 2000, 1e-9
DEFAULT_DECISIONS = 50_000
BOOK_LEVELS = 5


@dataclass(frozen=True)
class OracleTrader:
    """The optimal policy: maps (signal cell, position index) to the next position index."""

    signal_grid: Floats  # [G], equally spaced
    policy: npt.NDArray[np.int64]  # [G, 3]; position indices 0, 1, 2 mean short, flat, long
    cost_ticks: float  # mean cost of a round trip

    def act(self, signal: Floats) -> npt.NDArray[np.int64]:
        """The policy's row of each signal `[T]` -> `[T, 3]`: the nearest grid cell."""
        step = self.signal_grid[1] - self.signal_grid[0]
        cell = np.round((signal - self.signal_grid[0]) / step).astype(np.int64)
        return np.asarray(self.policy[cell.clip(0, len(self.signal_grid) - 1)])


@dataclass(frozen=True)
class OracleReport:
    """What a trader earned over `num_decisions` decisions, net of spread and fees."""

    num_decisions: int
    num_trades: int
    net_ticks_per_decision: float
    wr: float  # wins / closed trades; 0 where there are none
    hold_percent: float  # decisions without an order
    trades_per_decision: float
    mean_duration_decisions: float


def solve(config: Config) -> OracleTrader:
    """The optimal trader of the configured synthetic market by relative value iteration.

    Reward of a decision: position after it x expected move - half a round trip per unit of position changed.
    Raises InputError where the config names no synthetic market.
    """
    model = LatentModel.from_config(config)
    grid = np.linspace(-GRID_LIMIT, GRID_LIMIT, GRID_SIZE)
    spread = 2.0 * (1.0 - model.memory**2)
    transition = np.exp(-((grid[None] - model.memory * grid[:, None]) ** 2) / spread)
    transition /= transition.sum(axis=1, keepdims=True)
    changed = np.abs(POSITIONS[None] - POSITIONS[:, None])
    earned = model.drift_sd_ticks * grid[:, None, None] * POSITIONS
    reward = earned - 0.5 * model.cost_ticks * changed[None]  # [G, from, to]
    value = np.zeros((GRID_SIZE, len(POSITIONS)))
    for _ in range(MAX_SWEEPS):
        score = reward + (transition @ value)[:, None, :]
        update = score.max(axis=2)
        update -= update[GRID_SIZE // 2, 1]
        change = np.abs(update - value).max()
        value = update
        if change < TOLERANCE:
            break
    score = reward + (transition @ value)[:, None, :]
    return OracleTrader(grid, score.argmax(axis=2), model.cost_ticks)


def simulate(trader: OracleTrader, signal: Floats, mid_ticks: Floats) -> OracleReport:
    """Trades `signal [T]` (seen at each decision) on `mid_ticks [T]` (the mid at which its order fills).

    Starts flat. Every change of position by one unit costs half the mean round trip; a reversal is one order.
    A trade still open at the end is neither counted nor credited.
    """
    choices = trader.act(signal).tolist()
    fills = mid_ticks.tolist()
    position, entry, entered, num_orders = 1, 0.0, 0, 0
    profits, durations = [], []
    for decision, choice in enumerate(choices):
        target = choice[position]
        if target == position:
            continue
        num_orders += 1
        if position != 1:
            profits.append((position - 1) * (fills[decision] - entry) - trader.cost_ticks)
            durations.append(decision - entered)
        position, entry, entered = target, fills[decision], decision
    return _report(len(choices), num_orders, np.array(profits), np.array(durations))


def _report(num_decisions: int, num_orders: int, profits: Floats, durations: Floats) -> OracleReport:
    """Summary of closed trades: `profits [trades]` in ticks, `durations [trades]` in decisions."""
    traded = len(profits) > 0
    return OracleReport(
        num_decisions=num_decisions,
        num_trades=len(profits),
        net_ticks_per_decision=float(profits.sum() / num_decisions),
        wr=float((profits > 0).mean()) if traded else 0.0,
        hold_percent=100.0 * (1.0 - num_orders / num_decisions),
        trades_per_decision=len(profits) / num_decisions,
        mean_duration_decisions=float(durations.mean()) if traded else 0.0,
    )


def decision_path(config: Config, num_decisions: int, seed: int) -> tuple[Floats, Floats]:
    """A fresh path of the market at the decision clock: `signal [T]` and `mid_ticks [T]` to fill at.

    An order fills one row after its decision (rows lie further apart than the latency), at a quoted mid,
    which lies on the half-tick grid.
    """
    path, span = _fresh_path(config, num_decisions, seed), config.signal_rows
    return path.signal[:-1:span], np.round(2.0 * path.mid_ticks[1::span]) / 2.0


def _fresh_path(config: Config, num_decisions: int, seed: int) -> LatentPath:
    """The hidden truth of `num_decisions` decisions and of the row at which the last one fills."""
    model = LatentModel.from_config(config)
    return model.path(num_decisions * model.signal_rows + 1, np.random.default_rng(seed))


def oracle_report(config: Config, num_decisions: int = DEFAULT_DECISIONS, seed: int = 0) -> OracleReport:
    """What the optimal trader earns on a fresh path of the configured market."""
    return simulate(solve(config), *decision_path(config, num_decisions, seed))


def book_report(config: Config, num_decisions: int = DEFAULT_DECISIONS, seed: int = 0) -> OracleReport:
    """What the same trader earns when he sees only the sizes of five levels of the decision row.

    He estimates the signal by least squares on the log size ratios, fitted on the first half of a path and
    traded on the second, where he fills at the book's own mid of the row after.
    """
    span, rng = config.signal_rows, np.random.default_rng([seed, 1])
    path = _fresh_path(config, 2 * num_decisions, seed)
    quotes = quotes_around(path.mid_ticks, rng)
    ratios = _decision_ratios(OrderFlow(span, rng).run(path.signal, quotes), span)[: 2 * num_decisions]
    signal, fills = path.signal[:-1:span], quotes.mid_ticks[1::span]
    weights = np.linalg.lstsq(ratios[:num_decisions], signal[:num_decisions], rcond=None)[0]
    return simulate(solve(config), ratios[num_decisions:] @ weights, fills[num_decisions:])


def _decision_ratios(blocks: Iterable[Events], span: int) -> Floats:
    """Log ratio of bid to ask sizes of the best levels at each decision row, `[T, 5]`."""
    found, start = [], 0
    for events in blocks:
        num_rows = len(events.last.side)
        # Blocks need not begin with a decision.
        levels = book_rows(events)["levels"][-start % span :: span, :BOOK_LEVELS]
        found.append(np.log(levels["bid_sz"] / levels["ask_sz"]))
        start += num_rows
    return np.concatenate(found)
