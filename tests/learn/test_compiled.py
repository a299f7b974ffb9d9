"""The compiled step: every part traces into one graph, without a warning, and computes the same."""

import torch

from benchmarks.step import new_runner, random_walk_tape
from trainer.config import Config
from trainer.learn.runner import Runner
from trainer.learn.step import Parts
from trainer.learn.tree import leaves
from trainer.presets import INSTRUMENTS, demo


def tiny() -> Config:
    return demo().replaced(
        data={"window_rows": 3},
        agent={
            "hidden": 12,
            "buckets": (4, 4, 4),
            "ssd_blocks": 1,
            "ssd_heads": 2,
            "ssd_state": 4,
            "head_hidden": 8,
        },
        learn={"n_backtests": 4, "per_capacity": 32, "batch_size": 8, "n_step": 2},
    )


def runner() -> Runner:
    return new_runner(tiny(), INSTRUMENTS["ES"], random_walk_tape(tiny(), 2_000, torch.device("cpu")))


def test_parts_traced_whole_equal_the_plain_step_bit_for_bit() -> None:
    # The `eager` backend traces and then runs the same kernels: what it finds is wrong tracing, not rounding.
    plain, traced = runner(), runner()
    traced.parts = Parts().compiled(backend="eager")
    for _ in range(4):
        plain.advance()
        traced.advance()
    for (name, a), (_, b) in zip(leaves(plain.state), leaves(traced.state), strict=True):
        assert torch.equal(a, b), name
