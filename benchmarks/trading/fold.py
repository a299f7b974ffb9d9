"""One judged fold: the agent's account as it was saved, and other traders replayed on the same rows."""

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.trading.account import Bools, Floats, Ints, Trader
from benchmarks.trading.truth import oracle_policy, planted_signal
from trainer.config import Config, InstrumentConfig
from trainer.data.cache import open_cache
from trainer.data.oracle_trader import OracleTrader, solve
from trainer.data.windows import Window
from trainer.errors import InputError, MismatchError
from trainer.learn.account import Decisions, Trades
from trainer.learn.baselines import random_trader
from trainer.learn.bus import Slots
from trainer.learn.evaluate import Evaluation, Progress
from trainer.learn.foxc import read_foxc
from trainer.learn.markers import read_marker
from trainer.learn.replayer import Account, Policy, replay_policy
from trainer.learn.run import Run, fold_dir
from trainer.learn.tiles import decisions_from
from trainer.market.lanes import Lanes
from trainer.market.stops import risk_stage
from trainer.market.tape import tape_info

AGENT, ORACLE, RANDOM = "agent", "oracle", "random"
HALF_CENT = 0.005


@dataclass(frozen=True)
class TradedFold:
    """A fold's traders and its market, all on the same T decisions of a tape of R rows.

    traders: the agent, and the oracle where the truth is known. random_ticks `[N, T]`: net ticks of each
    random trader of the agent's turnover. rows, fill_rows `[T]`: tape rows of the decisions, and where an
    order sent there fills. stopped `[T]`: a stop, not the policy, chose the agent's action. signal,
    fill_signal `[T]`: what was planted at the decision's row and at the fill's, standard deviations.
    """

    index: int
    config: Config
    instrument: InstrumentConfig
    traders: dict[str, Trader]
    random_ticks: Floats
    ts_ns: Ints  # [R]
    book: npt.NDArray[np.int32]  # [R, 2, 2, L]: bid and ask, price (ticks) and size (lots)
    segment_start: Ints  # [R] first row of the row's segment
    rows: Ints
    fill_rows: Ints
    stopped: Bools
    signal: Floats | None
    fill_signal: Floats | None
    oracle: OracleTrader | None

    @property
    def agent(self) -> Trader:
        """The trader that the gate judged."""
        return self.traders[AGENT]

    @cached_property
    def mid_ticks(self) -> Floats:
        """Mid of every tape row, `[R]`."""
        return np.asarray(self.book[:, :, 0, 0].sum(1, dtype=np.int64) / 2.0)


def open_fold(run_dir: Path, index: int, on_progress: Progress) -> TradedFold:
    """Reads a fold that was evaluated, proves the agent's account and replays the other traders.

    InputError where the fold was not evaluated. MismatchError where the agent's actions, replayed on the
    book, do not earn its account, or closed trades do not explain an account to half a cent.
    """
    run, directory = Run.load(run_dir), fold_dir(run_dir, index)
    marker = read_marker(directory, "evaluate")
    if marker is None or marker.checkpoint is None:
        raise InputError("this fold was not evaluated", where=str(directory), do="finish the run first")
    evaluation = Evaluation(run, index, read_foxc(directory / marker.checkpoint), on_progress)
    agent = Trader(
        Decisions.read_parquet(directory / "decisions.parquet"),
        Trades.read_parquet(directory / "trades.parquet"),
    )
    rows = _decision_rows(evaluation)
    ts_ns = evaluation.tape.ts_ns.cpu().numpy()
    if not np.array_equal(ts_ns[rows], agent.decisions.ts_ns):
        raise MismatchError("the account is of another window", where=str(directory), do="evaluate it again")
    fill_rows = evaluation.tape.fill_row.cpu().numpy()[rows]
    signal = _signal_of_tape(run, index)
    oracle = None if signal is None else solve(run.config)
    proof = _Proof.of(evaluation, agent, rows)
    at_random = random_trader(agent.decisions, agent.trades, run.config.evaluate.seed, evaluation.device)
    policies = {AGENT: (proof.policy, 1), RANDOM: (at_random, run.config.evaluate.random_traders)}
    if signal is not None and oracle is not None:
        policies[ORACLE] = (oracle_policy(oracle, signal), 1)
    accounts = _replay(evaluation, policies)
    if not np.array_equal(accounts[AGENT][0].decisions.pnl_ticks, agent.decisions.pnl_ticks):
        raise MismatchError(
            "its actions do not earn its account", where=str(directory), do="evaluate it again"
        )
    traders = {AGENT: agent}
    if ORACLE in accounts:
        traders[ORACLE] = Trader(*accounts[ORACLE][0][:2])
    for name, trader in traders.items():
        if (off := trader.unexplained_ticks() * evaluation.instrument.tick_value) > HALF_CENT:
            raise MismatchError(f"{off:.2f} of the {name}'s account is in no trade", where=str(directory))
    return TradedFold(
        index=index,
        config=run.config,
        instrument=evaluation.instrument,
        traders=traders,
        random_ticks=np.stack([account.decisions.pnl_ticks for account in accounts[RANDOM]]),
        ts_ns=ts_ns,
        book=evaluation.tape.book.cpu().numpy(),
        segment_start=evaluation.tape.first_row.cpu().numpy(),
        rows=rows,
        fill_rows=fill_rows,
        stopped=proof.stopped.cpu().numpy()[rows],
        signal=None if signal is None else signal[rows],
        fill_signal=None if signal is None else signal[np.minimum(fill_rows, len(signal) - 1)],
        oracle=oracle,
    )


def _decision_rows(evaluation: Evaluation) -> Ints:
    """Tape rows of the decisions of all tiles, one tile after the other."""
    next_row, tiles = evaluation.tape.next_row.tolist(), evaluation.tiles
    spans = zip(tiles.start_row.tolist(), tiles.limit_row.tolist(), strict=True)
    return np.concatenate([decisions_from(start, limit, next_row) for start, limit in spans])


def _signal_of_tape(run: Run, index: int) -> Floats | None:
    """What was planted at each tape row of the fold's test window, `[R]`."""
    signal = planted_signal(run.config, open_cache(run.cache_dir))
    if signal is None:
        return None
    test = run.fold(index).test
    window = Window(test.start_row, test.end_row, test.start_ns, test.end_ns)
    return signal[tape_info(window, run.config).first_cache_row : test.end_row]


def _replay(evaluation: Evaluation, policies: dict[str, tuple[Policy, int]]) -> dict[str, list[Account]]:
    """The accounts of every policy, so many traders of each, in one pass over the tiles."""
    total, num_tiles = evaluation.config.evaluate.tile_decisions, len(evaluation.tiles)
    sizes = [count * num_tiles for _, count in policies.values()]

    def all_of_them(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        shares = zip(*(field.split(sizes) for field in lanes), strict=True)
        parts = zip(policies.values(), shares, feasible.split(sizes), strict=True)
        chosen = [policy(Lanes(*own), allowed, step) for (policy, _), own, allowed in parts]
        return torch.cat([action for action, _ in chosen]), torch.cat([entropy for _, entropy in chosen])

    accounts = replay_policy(
        evaluation.tape, evaluation.tiles, all_of_them, evaluation.config, evaluation.instrument,
        sum(count for _, count in policies.values()),
        lambda step: evaluation.on_progress("traders", min(step, total), total),
    )  # fmt: skip
    left = iter(accounts)
    return {name: list(islice(left, count)) for name, (_, count) in policies.items()}


@dataclass(frozen=True)
class _Proof:
    """The agent's own actions as a policy, and which of them its stops dictate."""

    evaluation: Evaluation
    actions: Tensor  # [R] int64
    seen: Tensor  # [R] bool, decided already
    stopped: Tensor  # [R] bool

    @classmethod
    def of(cls, evaluation: Evaluation, agent: Trader, rows: Ints) -> "_Proof":
        actions = torch.zeros(len(evaluation.tape.ts_ns), dtype=torch.int64)
        actions[rows] = torch.from_numpy(agent.decisions.action.astype(np.int64))
        seen = torch.zeros(len(actions), dtype=torch.bool, device=evaluation.device)
        return cls(evaluation, actions.to(evaluation.device), seen, torch.zeros_like(seen))

    def policy(self, lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """As saved. Behind its tile's end a lane begins that tile again: no stop of it counts."""
        config = self.evaluation.config
        slots = Slots(config).read(self.evaluation.bus)
        action = self.actions[lanes.cursor]
        limits = slots["stop_loss_ratio"], slots["ema.abs_trade"], config.market
        _, by_stop = risk_stage(self.evaluation.tape, lanes, action, *limits)
        self.stopped[lanes.cursor] |= by_stop & ~self.seen[lanes.cursor]
        self.seen[lanes.cursor] = True
        return action, torch.zeros(len(action), device=action.device)
