"""The compiled step: every part traces into one graph, without a warning, and computes the same."""

import pytest
import torch

from benchmarks.step import new_runner, random_walk_tape
from tests.learn.small import SMALL_AGENT
from trainer.config import Config
from trainer.learn.runner import Runner
from trainer.learn.step import Parts
from trainer.learn.tree import leaves
from trainer.presets import INSTRUMENTS, demo, seed

DOCUMENTS = {"reward", "advantage", "td_cut", "target_max", "entropy_target"}


def tiny() -> Config:
    return demo().replaced(
        data={"window_rows": 3},
        agent=SMALL_AGENT,
        learn={"n_backtests": 4, "per_capacity": 32, "batch_size": 8, "n_step": 2},
    )


RULES = {
    "the default": {},
    "every other rule": {
        "agent": {"rl_heads": "linear"},
        "learn": {**seed().learn.model_dump(include=DOCUMENTS), "encoder_rl": 0.5, "policy_weight": 2.0},
    },
}


def runner(config: Config) -> Runner:
    return new_runner(config, INSTRUMENTS["ES"], random_walk_tape(config, 2_000, torch.device("cpu")))


@pytest.mark.parametrize("rules", RULES)
def test_parts_traced_whole_equal_the_plain_step_bit_for_bit(rules: str) -> None:
    # The `eager` backend traces and then runs the same kernels: what it finds is wrong tracing, not rounding.
    torch._dynamo.reset()  # five parts a run, and torch keeps eight versions of one function
    config = tiny().replaced(**RULES[rules])
    plain, traced = runner(config), runner(config)
    traced.parts = Parts().compiled(backend="eager")
    for _ in range(4):
        plain.advance()
        traced.advance()
    for (name, a), (_, b) in zip(leaves(plain.state), leaves(traced.state), strict=True):
        assert torch.equal(a, b), name
