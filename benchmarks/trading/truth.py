"""What the synthetic market planted, row by row, and the trader who knows it."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trainer.config import Config
from trainer.data.cache import Cache
from trainer.data.latent import LatentModel
from trainer.data.oracle_trader import OracleTrader
from trainer.data.synthetic import START_TICKS, session_path
from trainer.errors import MismatchError
from trainer.learn.replayer import Policy
from trainer.market.lanes import Lanes
from trainer.types import Action

Floats = npt.NDArray[np.float64]
HALF_TICK = 0.5  # quotes lie this near to the hidden mid


def planted_signal(config: Config, cache: Cache) -> Floats | None:
    """The signal of every cache row, `[R]`; None where the data are files, whose truth nobody knows.

    Drawn again from the configuration. MismatchError where the book is not the one around the hidden mid that
    is drawn with it: then the cache was written by another generator.
    """
    if config.run.mbp10_data_dir is not None or config.market_source is None:
        return None
    model, signals, mids = LatentModel.from_config(config), [], []
    start_ticks = START_TICKS
    for session in range(config.synthetic.sessions):
        path = session_path(config, model, session, start_ticks)
        signals.append(path.signal)
        mids.append(path.mid_ticks)
        start_ticks = float(path.mid_ticks[-1])
    hidden, shown = np.concatenate(mids), (cache.bid_px[:, 0].astype(np.float64) + cache.ask_px[:, 0]) / 2
    if hidden.shape != shown.shape or np.abs(hidden - shown).max() > HALF_TICK:
        raise MismatchError(
            "the book is not that of the configured market", where=str(cache.path), do="prepare the run again"
        )
    return np.concatenate(signals)


def oracle_policy(trader: OracleTrader, signal: Floats) -> Policy:
    """The orders of the optimal trader who sees `signal [R]` of his cursor's tape row,.

    A reversal that is masked only leaves; an opening that is masked waits.
    """
    sides = torch.from_numpy(trader.act(signal)) - 1  # [R, 3] by the side held

    def policy(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        held = lanes.lots.sign()
        wanted = sides[lanes.cursor].gather(1, (held + 1)[:, None])[:, 0]
        leaves = torch.where(held > 0, int(Action.FLAT_FROM_LONG), int(Action.FLAT_FROM_SHORT))
        opens = torch.where(wanted > 0, int(Action.OPEN_LONG), int(Action.OPEN_SHORT))
        turns = torch.where(feasible[:, int(Action.REVERSE)], int(Action.REVERSE), leaves)
        action = torch.where(held == 0, opens, torch.where(wanted == 0, leaves, turns))
        action = torch.where(wanted == held, int(Action.HOLD), action)
        allowed = feasible.gather(1, action[:, None])[:, 0]
        return torch.where(allowed, action, int(Action.HOLD)), torch.zeros(len(held))

    return policy


def cells(trader: OracleTrader, signal: Floats) -> npt.NDArray[np.int64]:
    """The cell of the trader's grid that each signal is nearest to, `[T]`."""
    step = trader.signal_grid[1] - trader.signal_grid[0]
    cell = np.round((signal - trader.signal_grid[0]) / step).astype(np.int64)
    return np.asarray(cell.clip(0, len(trader.signal_grid) - 1))


def regret_ticks(trader: OracleTrader, config: Config, kept: float = 1.0) -> Floats:
    """What one choice costs against the trader's own, if he makes all later ones: `[G, 3, 3]` ticks, by
    signal cell, index of the side held and index of the side wanted.

    `kept` is the share of the promised move that is still to come when an order fills. At 1, which the trader
    was solved for, no choice costs less than 0. From his policy alone, by solving for its relative values
    h = r - g + P h: the mean regret of anybody's decisions is what he earns less than this trader, but for
    luck (performance difference of average-reward control; Puterman 1994, chapter 8).
    """
    model, grid, policy = LatentModel.from_config(config), trader.signal_grid, trader.policy
    cells, sides = len(grid), np.array([-1, 0, 1])
    near = np.exp(-((grid[None] - model.memory * grid[:, None]) ** 2) / (2.0 * (1.0 - model.memory**2)))
    near /= near.sum(axis=1, keepdims=True)
    turned = np.abs(sides[None] - sides[:, None])
    reward = kept * model.drift_sd_ticks * grid[:, None, None] * sides - 0.5 * model.cost_ticks * turned
    # State (cell, side held) goes to (next cell, side wanted).
    cell, held = np.indices(policy.shape)
    goes = np.zeros((cells, 3, cells, 3))
    goes[cell, held, :, policy] = near[cell]
    size = 3 * cells
    system = np.eye(size + 1)
    system[:size, :size] -= goes.reshape(size, size)
    system[:size, size] = 1.0  # the mean reward g
    system[size] = np.eye(size + 1)[3 * (cells // 2) + 1]  # a relative value is 0 somewhere
    own = np.append(reward[cell, held, policy].ravel(), 0.0)
    value = np.linalg.solve(system, own)[:size].reshape(cells, 3)
    score = reward + (near @ value)[:, None, :]
    best = np.take_along_axis(score, policy[:, :, None], axis=2)
    return np.asarray(best - score)
