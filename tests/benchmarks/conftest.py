"""Finished runs on small markets, whose account is that of a known trader in place of the agent's."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.trading.fold import TradedFold, open_fold
from tests.learn.small import SMALL_AGENT
from trainer.config import Config
from trainer.data.synthetic import write_market
from trainer.learn.account import Decisions, Trades
from trainer.learn.baselines import random_trader
from trainer.learn.checkpoints import CheckpointStore
from trainer.learn.evaluate import Evaluation, evaluate, no_progress
from trainer.learn.foxc import read_foxc
from trainer.learn.loop import train
from trainer.learn.prepare import prepare
from trainer.learn.replayer import Policy, replay_policy
from trainer.learn.run import Run, fold_dir
from trainer.presets import demo

STEPS = 2
CONFIG = demo().replaced(
    synthetic={"rows_per_session": 2048, "sessions": 2},
    data={"window_rows": 4, "folds": 1},
    agent=SMALL_AGENT,
    learn={"n_backtests": 8, "per_capacity": 64, "batch_size": 8},
    evaluate={
        "tile_decisions": 60,
        "bootstrap_block_decisions": 5,
        "bootstrap_resamples": 100,
        "random_traders": 3,
    },
    run={"n_steps": STEPS, "log_every": 1, "device": "cpu"},
)
Finish = Callable[..., Path]


@pytest.fixture(scope="session")
def finish(tmp_path_factory: pytest.TempPathFactory) -> Finish:
    """`finish(config)` trains for two steps and evaluates; the run directory."""
    cache, threads = tmp_path_factory.mktemp("trading-cache"), torch.get_num_threads()

    def finished(config: Config) -> Path:
        run_dir = tmp_path_factory.mktemp("trading") / "run"
        run = prepare(config, run_dir, cache, no_progress)
        train(run, run_dir, 0, io.StringIO())
        evaluate(run, run_dir, 0)
        torch.set_num_threads(threads)
        return run_dir

    return finished


def act(run_dir: Path, policy: Callable[[Evaluation, Decisions, Trades], Policy]) -> None:
    """Puts the account of `policy` in place of the agent's."""
    directory = fold_dir(run_dir, 0)
    evaluation = Evaluation(
        Run.load(run_dir), 0, read_foxc(CheckpointStore(directory).path(STEPS)), no_progress
    )
    saved: tuple[Any, Any] = (
        Decisions.read_parquet(directory / "decisions.parquet"),
        Trades.read_parquet(directory / "trades.parquet"),
    )
    account = replay_policy(
        evaluation.tape,
        evaluation.tiles,
        policy(evaluation, *saved),
        evaluation.config,
        evaluation.instrument,
    )[0]
    account.decisions.write_parquet(directory / "decisions.parquet")
    account.trades.write_parquet(directory / "trades.parquet")


def coin(evaluation: Evaluation, decisions: Decisions, trades: Trades) -> Policy:
    """Enters and leaves at random; a trade or two a dozen decisions, whatever the agent did."""
    half = Decisions(**{**vars(decisions), "in_market": decisions.ts_ns % 2 == 0})
    columns = {name: [name != "forced"] * (len(decisions) // 6) for name in vars(trades)}
    some = Trades(**columns)  # of one decision each, left of their own accord
    return random_trader(half, some, 7, evaluation.device)


@pytest.fixture(scope="session")
def planted(finish: Finish) -> Path:
    """A run on the planted market whose agent trades at random; not to be written to."""
    run_dir = finish(CONFIG)
    act(run_dir, coin)
    return run_dir


@pytest.fixture(scope="session")
def fold(planted: Path) -> TradedFold:
    """Its only fold."""
    return open_fold(planted, 0, no_progress)


@pytest.fixture(scope="session")
def martingale(finish: Finish) -> Path:
    """A run on the martingale with the account of its own agent; not to be written to."""
    return finish(CONFIG.replaced(market_source="martingale"))


@pytest.fixture(scope="session")
def files(finish: Finish, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the files of the same market, whose origin it does not know."""
    data = tmp_path_factory.mktemp("trading-data")
    write_market(CONFIG, data)
    run_dir = finish(CONFIG.replaced(run={"mbp10_data_dir": str(data)}))
    act(run_dir, coin)
    return run_dir


@pytest.fixture
def copied(planted: Path, tmp_path: Path) -> Path:
    """The planted run, to be damaged."""
    return Path(shutil.copytree(planted, tmp_path / "run"))
