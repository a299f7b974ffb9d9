"""The evaluate stage: the trained agent on the window after its own, beside its baselines."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.agent.losses import policy_entropy
from trainer.config import Config, InstrumentConfig
from trainer.data.cache import open_cache
from trainer.data.windows import Window
from trainer.errors import InputError, MismatchError
from trainer.learn.atomic import write_json
from trainer.learn.baselines import RULES, random_trader, rule_traders
from trainer.learn.bus import Slots
from trainer.learn.checkpoints import file_sha256, require_identity
from trainer.learn.entropy import entropy_stability
from trainer.learn.foxc import Checkpoint, read_foxc
from trainer.learn.lock import fold_lock
from trainer.learn.loop import resolve_device
from trainer.learn.markers import Marker, is_done, read_marker, write_marker
from trainer.learn.metrics import RANDOM, FoldMetrics, fold_metrics
from trainer.learn.records import read_records
from trainer.learn.replayer import Account, Policy, replay_policy
from trainer.learn.run import METRICS_FILE, Run, fold_dir
from trainer.learn.runner import configure_device
from trainer.learn.snapshot import stored_normaliser
from trainer.learn.tiles import Tiles, cut_tiles
from trainer.market.context import context_features
from trainer.market.finite import require_finite
from trainer.market.lanes import Lanes, defects_text
from trainer.market.stops import risk_stage
from trainer.market.tape import Tape, build_tape, observe, tape_info

_log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]

UNTRAINED = "untrained"


def no_progress(what: str, done: int, total: int) -> None:
    """Reports nothing."""


def agent_policy(
    agent: Agent, params: Tensor, bus: Tensor, tape: Tape, config: Config, instrument: InstrumentConfig
) -> Policy:
    """The greedy policy with every bus slot it reads frozen: lanes stand at different times, and a running
    average shared between them would carry later rows to earlier ones."""
    slots, w = Slots(config).read(bus), agent.layout.unflatten(params)

    @torch.no_grad()
    def policy(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        context = context_features(tape, lanes, slots["ema.abs_trade"], config.market, instrument)
        features, elapsed = observe(tape, lanes.cursor, config.data.window_rows)
        h = agent.encode(w, features, elapsed, context)[:, -1]
        log_policy = agent.policy(w, torch.cat([h, context], -1), feasible)
        action, _ = risk_stage(
            tape,
            lanes,
            log_policy.argmax(-1),
            slots["stop_loss_ratio"],
            slots["ema.abs_trade"],
            config.market,
        )
        return action, policy_entropy(log_policy, feasible)

    return policy


class Evaluation:
    """Everything one fold's evaluation needs, opened once."""

    def __init__(self, run: Run, index: int, checkpoint: Checkpoint, on_progress: Progress) -> None:
        self.config, self.on_progress = run.config, on_progress
        self.device = resolve_device(run.config.run.device)
        configure_device(self.device)
        cache, rows = open_cache(run.cache_dir), run.fold(index).test
        window = Window(rows.start_row, rows.end_row, rows.start_ns, rows.end_ns)
        require_finite(cache, window, self.config)
        self.instrument = cache.instrument
        self.tape = build_tape(cache, window, stored_normaliser(checkpoint), self.config, self.device)
        self.tiles: Tiles = cut_tiles(self.tape, tape_info(window, self.config).start_row, self.config)
        if not len(self.tiles):
            raise InputError(
                f"the test window of fold {index} has no row to trade on", where=str(run.cache_dir)
            )
        self.agent = Agent.build(self.config, self.device)
        slots = Slots(self.config)
        stored = [float(checkpoint.arrays.get(f"bus.{name}", start)) for name, start in slots.starts.items()]
        self.bus = torch.tensor(stored, dtype=torch.float32, device=self.device)

    def agent_account(self, params: NDArray[np.float32], what: str) -> Account:
        """The account of the agent with these weights."""
        flat = torch.from_numpy(params).to(self.device)
        policy = agent_policy(self.agent, flat, self.bus, self.tape, self.config, self.instrument)
        return self._replay(policy, 1, what)[0]

    def baselines(self, account: Account) -> dict[str, NDArray[Any]]:
        """Net ticks per decision `[T]` of every baseline, on the agent's decisions."""
        cfg = self.config.evaluate
        rules = rule_traders(self.tape, self.config.data.window_rows, len(self.tiles))
        by_rule = self._replay(rules, len(RULES), "rules")
        found = {name: a.decisions.pnl_ticks for name, a in zip(RULES, by_rule, strict=True)}
        random = random_trader(account.decisions, account.trades, cfg.seed, self.device)
        at_random = self._replay(random, cfg.random_traders, RANDOM)
        found[RANDOM] = np.mean([a.decisions.pnl_ticks for a in at_random], axis=0)
        initial = self.agent.layout.initial(self.config.learn.seed).numpy()
        found[UNTRAINED] = self.agent_account(initial, UNTRAINED).decisions.pnl_ticks
        return found

    def _replay(self, policy: Policy, traders: int, what: str) -> list[Account]:
        total = self.config.evaluate.tile_decisions

        def on_step(step: int) -> None:
            self.on_progress(what, min(step, total), total)

        return replay_policy(
            self.tape, self.tiles, policy, self.config, self.instrument, traders, on_step,
            use_graph=self.config.run.use_graph and self.device.type == "cuda",
        )  # fmt: skip


def evaluate(run: Run, run_dir: Path, index: int, on_progress: Progress = no_progress) -> FoldMetrics | None:
    """Evaluates fold `index` and writes trades, decisions, metrics and marker; None when it was done already.

    Requires the train marker and the very checkpoint it names. Raises InputError and MismatchError.
    """
    directory = fold_dir(run_dir, index)
    trained = read_marker(directory, "train")
    if trained is None or trained.checkpoint is None:
        raise InputError(
            "this fold has not been trained", where=str(directory), do="run the train stage first"
        )
    if is_done(directory, "evaluate", trained.model_dump(exclude={"stage"})):
        return None
    with fold_lock(directory):
        return _evaluate_fold(run, index, directory, trained, on_progress)


def _evaluate_fold(
    run: Run, index: int, directory: Path, trained: Marker, on_progress: Progress
) -> FoldMetrics:
    checkpoint = _trained_checkpoint(directory, trained)
    require_identity(checkpoint, config_digest=run.config_digest, data_fingerprint=run.data_fingerprint)
    evaluation = Evaluation(run, index, checkpoint, on_progress)
    account = evaluation.agent_account(checkpoint.array("params", dtype=np.float32), "agent")
    shares = read_records(directory, ["ent_share"])["ent_share"]
    metrics = fold_metrics(
        index, account.decisions, account.trades, baselines=evaluation.baselines(account),
        training_entropy=entropy_stability(shares[: trained.steps], run.config.gate),
        instrument=evaluation.instrument, cfg=run.config.evaluate, defects=account.defects,
    )  # fmt: skip
    if account.defects:
        _log.warning("fold %d, test window: %s", index, defects_text(account.defects))
    account.decisions.write_parquet(directory / "decisions.parquet")
    account.trades.write_parquet(directory / "trades.parquet")
    write_json(directory / METRICS_FILE, metrics.model_dump(mode="json"))
    write_marker(directory, trained.model_copy(update={"stage": "evaluate"}))
    return metrics


def _trained_checkpoint(directory: Path, trained: Marker) -> Checkpoint:
    path = directory / str(trained.checkpoint)
    found = file_sha256(path)
    if found != trained.checkpoint_sha256:
        raise MismatchError(
            f"sha256 is {found[:12]}, the train marker names {str(trained.checkpoint_sha256)[:12]}",
            where=str(path), do="train this fold again",
        )  # fmt: skip
    return read_foxc(path)
