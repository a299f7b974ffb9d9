"""The evaluation's replay on a GPU: from a captured graph, decision by decision, and on the CPU."""

import numpy as np
import pytest
import torch

from benchmarks.step import random_walk_tape
from tests.learn.accounts import same_account
from trainer.agent.agent import Agent
from trainer.config import Config
from trainer.learn.baselines import RULES, random_trader, rule_traders
from trainer.learn.bus import Slots
from trainer.learn.evaluate import agent_policy
from trainer.learn.replayer import Account, Policy, replay_policy
from trainer.learn.runner import configure_device
from trainer.learn.tiles import cut_tiles
from trainer.presets import INSTRUMENTS, demo

pytestmark = pytest.mark.gpu

ES = INSTRUMENTS["ES"]
NUM_ROWS = 6000


def config() -> Config:
    """Tiles of 100 decisions, so that a block of the graph ends behind them."""
    return demo().replaced(evaluate={"tile_decisions": 100})


def replayed(device: str, *, use_graph: bool) -> list[Account]:
    """The accounts of an untrained agent, of the rules, and of three traders at random."""
    cfg, on = config(), torch.device(device)
    configure_device(on)
    tape = random_walk_tape(cfg, NUM_ROWS, on)
    tiles = cut_tiles(tape, cfg.data.window_rows, cfg)
    agent, (bus, _) = Agent.build(cfg, on), Slots(cfg).initial(on)

    def accounts(policy: Policy, traders: int) -> list[Account]:
        return replay_policy(tape, tiles, policy, cfg, ES, traders, use_graph=use_graph)

    params = agent.layout.initial(cfg.learn.seed).to(on)
    (own,) = accounts(agent_policy(agent, params, bus, tape, cfg, ES), 1)
    rules = accounts(rule_traders(tape, cfg.data.window_rows, len(tiles)), len(RULES))
    return [own, *rules, *accounts(random_trader(own.decisions, own.trades, 0, on), 3)]


@pytest.fixture(scope="module")
def captured() -> list[Account]:
    return replayed("cuda", use_graph=True)


def test_a_captured_replay_equals_the_plain_one_bit_for_bit(captured: list[Account]) -> None:
    plain = replayed("cuda", use_graph=False)
    assert sum(len(account.trades) for account in captured) > 50
    assert [same_account(one, other) for one, other in zip(captured, plain, strict=True)] == [[]] * 8


def test_traders_without_a_network_earn_the_same_on_gpu_and_cpu(captured: list[Account]) -> None:
    on_cpu = replayed("cpu", use_graph=False)
    for one, other in zip(captured[1:5], on_cpu[1:5], strict=True):
        assert same_account(one, other) == []
        assert np.isfinite(one.decisions.pnl_ticks).all()
