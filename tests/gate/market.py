"""Written markets ready to be traded on, and the way from a trader's account to the gate's verdict."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.learn.evaluated import put
from trainer.config import Config, InstrumentConfig
from trainer.data.cache import Cache, open_cache
from trainer.data.latent import LatentModel
from trainer.data.synthetic import session_path
from trainer.data.windows import Window
from trainer.learn.baselines import RULES, random_trader, rule_traders
from trainer.learn.decide import SUMMARY_FILE, decide
from trainer.learn.entropy import entropy_stability
from trainer.learn.metrics import RANDOM, FoldMetrics, fold_metrics
from trainer.learn.prepare import prepare
from trainer.learn.replayer import Account, Policy, replay_policy
from trainer.learn.run import Run, WindowRows
from trainer.learn.tiles import Tiles, cut_tiles
from trainer.learn.verdict import Summary, read_summary
from trainer.market.tape import Tape, build_tape, fit_normaliser, tape_info, window_labels
from trainer.presets import demo

STEADY = 0.6 + 0.02 * np.sin(np.arange(400.0))  # share of ln(#feasible) at each training step
CONFIG = demo().replaced(
    synthetic={
        "rows_per_session": 32_768,
        "sessions": 3,
        "drift_cost_ratio": 1.7,
        "noise_ticks": 1.2,
    },
    data={"folds": 2, "decision_rows": 16},
    evaluate={"tile_decisions": 64, "bootstrap_resamples": 500, "random_traders": 8},
)


@dataclass(frozen=True)
class Fold:
    """A test window as a trader meets it."""

    tape: Tape
    tiles: Tiles
    signal: Tensor  # [R] float64, the hidden signal of each tape row
    config: Config
    instrument: InstrumentConfig

    def replay(self, policy: Policy, traders: int = 1) -> list[Account]:
        """The trader's account on this window, through the replay that judges the agent."""
        return replay_policy(self.tape, self.tiles, policy, self.config, self.instrument, traders)

    def cut(self, limit_row: int) -> "Fold":
        """The same window ending with `limit_row`, where what is held is closed."""
        kept = self.tiles.start_row < limit_row
        limits = np.minimum(self.tiles.limit_row[kept], limit_row)
        return replace(self, tiles=Tiles(self.tiles.start_row[kept], limits))

    @cached_property
    def rules(self) -> Mapping[str, Account]:
        """Accounts of the rule traders by name."""
        policy = rule_traders(self.tape, self.config.data.window_rows, len(self.tiles))
        return dict(zip(RULES, self.replay(policy, len(RULES)), strict=True))

    def random(self, account: Account) -> NDArray[np.float64]:
        """Net ticks per decision of the mean random trader of the account's turnover."""
        cfg = self.config.evaluate
        policy = random_trader(account.decisions, account.trades, cfg.seed, torch.device("cpu"))
        found = self.replay(policy, cfg.random_traders)
        return np.asarray(np.mean([a.decisions.pnl_ticks for a in found], axis=0))


@dataclass(frozen=True)
class Market:
    """A prepared run on a written market."""

    run: Run
    cache: Cache
    folds: tuple[Fold, ...]

    def changed(self, cache: Cache) -> "Market":
        """The same run on a cache with other prices."""
        folds = tuple(open_fold(self.run, cache, index) for index in range(len(self.run.folds)))
        return replace(self, cache=cache, folds=folds)

    def raised(self, jumps: Mapping[int, int]) -> "Market":
        """The same run on a raised cache."""
        return self.changed(raised(self.cache, jumps))

    def replay(self, trader: Callable[[Fold], Policy]) -> list[Account]:
        """The trader's account on every fold."""
        return [fold.replay(trader(fold))[0] for fold in self.folds]

    def metrics(self, accounts: Sequence[Account]) -> list[FoldMetrics]:
        """The metrics of every fold."""
        pairs = enumerate(zip(self.folds, accounts, strict=True))
        return [metrics(fold, index, account) for index, (fold, account) in pairs]


def raised(cache: Cache, jumps: Mapping[int, int]) -> Cache:
    """Every price from a row on is higher by some ticks, for each of `jumps` (row: ticks)."""
    rise = np.zeros(cache.num_rows, np.int32)
    for row, ticks in jumps.items():
        rise[row:] += ticks
    return replace(cache, bid_px=cache.bid_px + rise[:, None], ask_px=cache.ask_px + rise[:, None])


def open_market(source: str, root: Path) -> Market:
    """Writes the market, builds its cache and opens the test windows of both folds."""
    config = CONFIG.replaced(market_source=source)  # type: ignore[arg-type]
    run = prepare(config, root / source, root / "cache", lambda what, done, total: None)
    cache = open_cache(run.cache_dir)
    return Market(run, cache, ()).changed(cache)


def open_fold(run: Run, cache: Cache, index: int) -> Fold:
    """Test window `index` of the run on `cache`."""
    return open_window(
        run, cache, *(window(rows) for rows in (run.folds[index].train, run.folds[index].test))
    )


def open_window(run: Run, cache: Cache, train: Window, test: Window) -> Fold:
    """The rows of `test`, normalised as training on `train` would."""
    normaliser = fit_normaliser(cache, train, window_labels(cache, train, run.config), run.config)
    tape = build_tape(cache, test, normaliser, run.config, "cpu")
    info, signal = tape_info(test, run.config), hidden_signal(run.config.digest(), run.config)
    assert len(signal) == cache.num_rows, "a value of the signal for each row of the cache"
    rows = torch.from_numpy(signal[info.first_cache_row : test.end_row])
    return Fold(tape, cut_tiles(tape, info.start_row, run.config), rows, run.config, cache.instrument)


def window(rows: WindowRows) -> Window:
    """As the evaluate stage reads it from the run file."""
    return Window(rows.start_row, rows.end_row, rows.start_ns, rows.end_ns)


_SIGNALS: dict[str, NDArray[np.float64]] = {}


def hidden_signal(digest: str, config: Config) -> NDArray[np.float64]:
    """What the generator planted, for every valid row of all sessions; drawn once for each config."""
    if digest not in _SIGNALS:
        model, sessions = LatentModel.from_config(config), range(config.synthetic.sessions)
        _SIGNALS[digest] = np.concatenate([session_path(config, model, k, 0.0).signal for k in sessions])
    return _SIGNALS[digest]


def metrics(fold: Fold, index: int, account: Account, training: NDArray[np.float64] = STEADY) -> FoldMetrics:
    """The fold's metrics against the baselines of the evaluate stage, all replayed on the same window.

    `training` is the executed entropy of the training steps.
    """
    found = {name: rule.decisions.pnl_ticks for name, rule in fold.rules.items()}
    found[RANDOM] = fold.random(account)
    return fold_metrics(
        index, account.decisions, account.trades, baselines=found,
        training_entropy=entropy_stability(training, fold.config.gate),
        instrument=fold.instrument, cfg=fold.config.evaluate, defects=account.defects,
    )  # fmt: skip


def gate(run_dir: Path) -> tuple[int, Summary]:
    """Exit code and summary of the gate stage."""
    code = decide(run_dir, io.StringIO())
    return code, read_summary(run_dir / SUMMARY_FILE)


def judged(run: Run, run_dir: Path, folds: list[FoldMetrics]) -> tuple[int, Summary]:
    """The gate stage on a run directory that holds these folds."""
    run.save(run_dir)
    for found in folds:
        put(run, run_dir, found)
    return gate(run_dir)


def reasons(summary: Summary) -> dict[int, list[str]]:
    """What the verdict names, by fold."""
    found: dict[int, list[str]] = {}
    for criterion in summary.verdict.reasons:
        found.setdefault(criterion.fold, []).append(criterion.name)
    return found
