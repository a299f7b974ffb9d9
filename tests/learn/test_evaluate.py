"""The evaluate stage on a really trained fold: money adds up, nothing leaks, nothing is judged twice."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trainer.agent.agent import Agent
from trainer.data.cache import Cache, open_cache
from trainer.errors import ExitCode, InputError, MismatchError
from trainer.learn import evaluate as stage
from trainer.learn.account import Decisions, Trades
from trainer.learn.baselines import RULES, random_trader
from trainer.learn.evaluate import UNTRAINED, Evaluation, agent_policy, evaluate, no_progress
from trainer.learn.foxc import Checkpoint, read_foxc
from trainer.learn.lock import fold_lock
from trainer.learn.markers import read_marker, write_marker
from trainer.learn.metrics import RANDOM, FoldMetrics
from trainer.learn.replayer import Account, replay_policy
from trainer.learn.run import METRICS_FILE, Run, fold_dir
from trainer.learn.tiles import Tiles
from trainer.market.lanes import Lanes
from trainer.types import Action

Trained = tuple[Run, Path]


@pytest.fixture(scope="module")
def checkpoint(trained: Trained) -> Checkpoint:
    return read_foxc(fold_dir(trained[1], 0) / "checkpoint-200.bin")


@pytest.fixture(scope="module")
def evaluation(trained: Trained, checkpoint: Checkpoint) -> Evaluation:
    return Evaluation(trained[0], 0, checkpoint, no_progress)


@pytest.fixture(scope="module")
def agent(evaluation: Evaluation, checkpoint: Checkpoint) -> Account:
    return evaluation.agent_account(checkpoint.array("params", dtype=np.float32), "agent")


def same(one: Account, other: Account, rows: Any = slice(None)) -> None:
    for name in ("ts_ns", "pnl_ticks", "action", "ordered", "in_market", "num_feasible"):
        expected, found = getattr(one.decisions, name)[rows], getattr(other.decisions, name)
        assert np.array_equal(expected, found), name


def test_a_fold_is_evaluated_once_and_its_files_agree(trained_copy: Trained) -> None:
    run, run_dir = trained_copy
    directory, seen = fold_dir(run_dir, 0), []
    metrics = evaluate(run, run_dir, 0, lambda what, done, total: seen.append(what))
    assert metrics is not None
    assert FoldMetrics.model_validate_json((directory / METRICS_FILE).read_bytes()) == metrics
    decisions = Decisions.read_parquet(directory / "decisions.parquet")
    trades = Trades.read_parquet(directory / "trades.parquet")
    assert (len(decisions), len(trades)) == (metrics.num_decisions, metrics.num_trades)
    assert decisions.pnl_ticks.sum() == pytest.approx(metrics.net_ticks)
    assert trades.pnl_ticks.sum() == pytest.approx(metrics.net_ticks)
    assert metrics.unexplained_ticks == pytest.approx(0.0, abs=1e-9)
    assert set(metrics.baselines) == {*RULES, RANDOM, UNTRAINED}
    assert metrics.baselines["flat"] == 0.0
    trained, evaluated = read_marker(directory, "train"), read_marker(directory, "evaluate")
    assert trained is not None
    assert evaluated == trained.model_copy(update={"stage": "evaluate"})
    assert list(dict.fromkeys(seen)) == ["agent", "rules", "random", "untrained"]
    assert evaluate(run, run_dir, 0) is None


def test_what_the_replay_could_not_do_as_ordered_is_warned_of_and_written_down(
    trained_copy: Trained, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Evaluation.agent_account

    def with_defects(*args: Any) -> Account:
        return whole(*args)._replace(defects={"partial_fills": 3, "gap_exits": 1})

    monkeypatch.setattr(Evaluation, "agent_account", with_defects)
    metrics = evaluate(*trained_copy, 0)
    assert metrics is not None
    assert metrics.defects == {"partial_fills": 3, "gap_exits": 1}
    assert caplog.messages == ["fold 0, test window: 3 partial_fills, 1 gap_exits"]


def test_a_fold_that_trained_on_is_evaluated_again(
    trained_copy: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, run_dir = trained_copy
    directory = fold_dir(run_dir, 0)
    marker = read_marker(directory, "train")
    assert marker is not None
    write_marker(directory, marker.model_copy(update={"stage": "evaluate", "steps": 100}))
    monkeypatch.setattr(stage, "_evaluate_fold", lambda *arguments: "evaluated")
    assert evaluate(run, run_dir, 0) == "evaluated"


def test_an_untrained_fold_is_refused(tiny_run: Trained) -> None:
    with pytest.raises(InputError, match="this fold has not been trained; run the train stage") as caught:
        evaluate(*tiny_run, 0)
    assert caught.value.exit_code is ExitCode.BAD_INPUT


def test_a_checkpoint_other_than_the_marker_names_is_refused(trained_copy: Trained) -> None:
    path = fold_dir(trained_copy[1], 0) / "checkpoint-200.bin"
    path.write_bytes((fold_dir(trained_copy[1], 0) / "checkpoint-100.bin").read_bytes())
    with pytest.raises(
        MismatchError, match=r"checkpoint-200\.bin: sha256 is .*, the train marker names"
    ) as caught:
        evaluate(*trained_copy, 0)
    assert caught.value.exit_code is ExitCode.MISMATCH


def test_a_fold_of_another_configuration_is_refused(trained_copy: Trained) -> None:
    other = trained_copy[0].model_copy(update={"config_digest": "0123456789abcdef"})
    with pytest.raises(MismatchError, match="config digest is"):
        evaluate(other, trained_copy[1], 0)


def test_a_fold_in_other_hands_is_not_evaluated(trained_copy: Trained) -> None:
    with (
        fold_lock(fold_dir(trained_copy[1], 0)),
        pytest.raises(InputError, match="another process works in this fold"),
    ):
        evaluate(*trained_copy, 0)


def test_every_decision_row_of_the_test_window_is_visited_once(
    evaluation: Evaluation, agent: Account, trained: Trained
) -> None:
    rows, config = trained[0].fold(0).test, trained[0].config
    cache = open_cache(trained[0].cache_dir)
    expected: list[int] = []
    for segment in cache.segments:
        low, high = max(int(segment["first_row"]), rows.start_row), min(int(segment["end_row"]), rows.end_row)
        # A gap is left on the first row behind it, an announced end on the last row before it.
        last = high if segment["ends_in_gap"] else high - 1
        expected += range(low, last, config.data.decision_rows) if low < high else []
    assert agent.decisions.ts_ns.tolist() == cache.ts_ns[expected].tolist()
    assert len(evaluation.tiles) >= 6
    assert np.bincount(agent.decisions.tile).max() == config.evaluate.tile_decisions


def test_a_tile_alone_equals_the_tile_among_others(
    evaluation: Evaluation, agent: Account, checkpoint: Checkpoint
) -> None:
    params, tiles = checkpoint.array("params", dtype=np.float32), evaluation.tiles
    try:
        evaluation.tiles = Tiles(tiles.start_row[2:3], tiles.limit_row[2:3])
        alone = evaluation.agent_account(params, "agent")
    finally:
        evaluation.tiles = tiles
    assert len(alone.trades) > 0
    same(agent, alone, agent.decisions.tile == 2)


def test_several_copies_of_the_agent_equal_one(
    evaluation: Evaluation, agent: Account, checkpoint: Checkpoint
) -> None:
    e, params = evaluation, torch.from_numpy(checkpoint.array("params", dtype=np.float32))
    policy = agent_policy(e.agent, params, e.bus, e.tape, e.config, e.instrument)
    for copy in replay_policy(e.tape, e.tiles, policy, e.config, e.instrument, 3):
        same(agent, copy)


def test_the_bus_is_the_checkpoints_and_stays_so(evaluation: Evaluation, checkpoint: Checkpoint) -> None:
    before = evaluation.bus.clone()
    evaluation.agent_account(checkpoint.array("params", dtype=np.float32), "agent")
    assert torch.equal(evaluation.bus, before)
    names = [name for name in checkpoint.arrays if name.startswith("bus.")]
    assert sorted(before.tolist()) == sorted(float(checkpoint.arrays[name]) for name in names)


def test_the_agent_takes_its_likeliest_action_unless_a_stop_closes_for_it(
    evaluation: Evaluation, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    e, params = evaluation, torch.from_numpy(checkpoint.array("params", dtype=np.float32))
    greedy = agent_policy(e.agent, params, e.bus, e.tape, e.config, e.instrument)
    likeliest: list[Tensor] = []
    whole = Agent.policy

    def policy(self: Agent, *inputs: Any) -> Tensor:
        likeliest.append(whole(self, *inputs).argmax(-1))
        return whole(self, *inputs)

    def watched(lanes: Lanes, feasible: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        action, entropy = greedy(lanes, feasible, step)
        closes = ((action == Action.FLAT_FROM_LONG) & (lanes.lots > 0)) | (
            (action == Action.FLAT_FROM_SHORT) & (lanes.lots < 0)
        )
        assert ((action == likeliest[-1]) | closes).all()
        assert feasible.gather(1, action[:, None]).all()
        assert (entropy <= feasible.sum(1).float().log() + 1e-5).all()
        return action, entropy

    monkeypatch.setattr(Agent, "policy", policy)
    (account,) = replay_policy(e.tape, e.tiles, watched, e.config, e.instrument)
    assert len(account.trades) > 10
    assert len(likeliest) == e.config.evaluate.tile_decisions


def test_random_traders_turn_over_as_much_as_the_agent(evaluation: Evaluation, agent: Account) -> None:
    e = evaluation
    policy = random_trader(agent.decisions, agent.trades, 0, e.device)
    accounts = replay_policy(e.tape, e.tiles, policy, e.config, e.instrument, 16)
    assert np.mean([len(a.trades) for a in accounts]) == pytest.approx(len(agent.trades), rel=0.35)


@pytest.mark.parametrize("decision", [60, 112])
def test_rows_behind_a_decision_change_nothing_up_to_it(
    trained: Trained, checkpoint: Checkpoint, agent: Account, monkeypatch: pytest.MonkeyPatch, decision: int
) -> None:
    params, one = checkpoint.array("params", dtype=np.float32), agent.decisions
    row = int(np.searchsorted(open_cache(trained[0].cache_dir).ts_ns, one.ts_ns[decision]))

    def changed(path: Path) -> Cache:
        cache, after = open_cache(path), slice(row + 1, None)
        names = ("ts_ns", "bid_px", "ask_px", "bid_sz", "features")
        columns = {name: np.array(getattr(cache, name)) for name in names}
        columns["features"][after] = 7.0
        columns["bid_sz"][after] = 1
        columns["bid_px"][after] -= 400
        columns["ask_px"][after] -= 400
        columns["ts_ns"][row + 1 : -1] += np.diff(columns["ts_ns"][after]) // 2
        return dataclasses.replace(cache, **columns)

    monkeypatch.setattr(stage, "open_cache", changed)
    two = Evaluation(trained[0], 0, checkpoint, no_progress).agent_account(params, "agent").decisions
    for name in ("ts_ns", "action", "entropy", "num_feasible"):
        assert np.array_equal(getattr(one, name)[: decision + 1], getattr(two, name)[: decision + 1]), name
    # What the decision earns is known one decision later.
    assert np.array_equal(one.pnl_ticks[:decision], two.pnl_ticks[:decision])
    assert not np.array_equal(one.entropy, two.entropy)


def test_metrics_hold_no_bare_nan(trained_copy: Trained) -> None:
    evaluate(*trained_copy, 0)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in the metrics file")

    json.loads((fold_dir(trained_copy[1], 0) / METRICS_FILE).read_text(), parse_constant=refuse)
