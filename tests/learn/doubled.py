"""One point in float64 at which the gradient of a whole training step can be taken and checked."""

import dataclasses
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from benchmarks.step import new_runner, random_walk_tape
from tests.learn.small import SMALL_AGENT
from trainer.config import Config, LearnConfig
from trainer.learn import rollout
from trainer.learn.learner import Learner
from trainer.learn.objective import ReplayLosses
from trainer.learn.replay import Batch, Origin, StepClose, UntilClose
from trainer.learn.rollout import Fresh, forward
from trainer.learn.step import learn
from trainer.presets import INSTRUMENTS, demo
from trainer.types import NUM_ACTIONS, NUM_CONTEXT

F64 = torch.float64
B = 8

DOCUMENTS = {"reward": "at_close", "advantage": "done_only", "td_cut": "done", "target_max": "all"}
INTO_ENCODER = {"encoder_rl": 0.25, "encoder_distill": 0.5, "supervised_weight": 0.5}
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("context_hidden", {}),
    "documents": ("linear", DOCUMENTS | {"policy_weight": 2.0}),
    "into the encoder": ("context_hidden", INTO_ENCODER),
    "documents, into the encoder": ("linear", DOCUMENTS | INTO_ENCODER),
}


class Case(NamedTuple):
    """One point at which gradients are taken, in float64."""

    learner: Learner
    params: Tensor  # [P]
    target: Tensor  # [P_q]
    bus: Tensor
    lanes: Any
    batch: Batch


def configured(heads: str, rules: dict[str, Any], samples: int) -> Config:
    sizes = {"n_backtests": B, "per_capacity": 64, "batch_size": samples, "n_step": 2}
    agent = SMALL_AGENT | {"rl_heads": heads}
    return demo().replaced(data={"window_rows": 4}, agent=agent, learn=sizes | rules)


def random_batch(config: Config, tape_rows: int, generator: torch.Generator) -> Batch:
    """Every kind of sample: cut or not, closed or not, ratios inside and outside the clip."""
    width, num = config.agent.hidden + NUM_CONTEXT, config.learn.batch_size

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=F64)

    feasible = torch.rand(2, num, NUM_ACTIONS, generator=generator) < 0.6
    feasible[..., 0] = True
    rows = torch.randint(20, tape_rows, (2, num), generator=generator)
    return Batch(
        slot=torch.arange(num),
        weight=torch.linspace(0.2, 1.0, num, dtype=F64),
        x=normal(num, width),
        next_x=normal(num, width),
        feasible=feasible[0],
        next_feasible=feasible[1],
        action=torch.multinomial(feasible[0].float(), 1, generator=generator)[:, 0],
        returns=normal(num) * 4,
        discount=torch.full((num,), 0.7, dtype=F64),
        log_prob=-normal(num).abs() - 0.3,
        cut=torch.arange(num) % 4 == 0,
        **_ruled(config.learn, normal(2, num), rows),
    )


def _ruled(learn: LearnConfig, earned: Tensor, rows: Tensor) -> dict[str, Any]:
    """The columns that only some rules store."""
    found: dict[str, Any] = {}
    number = torch.arange(len(earned[0]))
    if learn.advantage == "done_only":
        found["step_close"] = StepClose(earned[0], number % 3 == 0)
    if learn.td_cut == "done":
        found["until_close"] = UntilClose(earned[1], number % 3 != 1)
    if learn.encoder_rl > 0:
        found["origin"] = Origin(*rows)
    return found


def make_case(monkeypatch: pytest.MonkeyPatch, heads: str, rules: dict[str, Any], samples: int = 10) -> Case:
    """All weights random, 8 lanes on a random walk, a random batch."""
    torch.set_num_threads(1)
    config, generator = configured(heads, rules, samples), torch.Generator().manual_seed(5)
    tape = random_walk_tape(config, 600, torch.device("cpu"))
    doubled = {name: getattr(tape, name).double() for name in ("features", "elapsed", "labels")}
    runner = new_runner(config, INSTRUMENTS["ES"], tape._replace(**doubled))
    learner = dataclasses.replace(runner.learner, move_sd=torch.tensor([0.7, 1.3, 2.1], dtype=F64))
    context = torch.randn(B, NUM_CONTEXT, generator=generator, dtype=F64)
    monkeypatch.setattr(rollout, "context_features", lambda *_: context)  # fresh lanes' own is mostly zeros
    size, (start, end) = learner.agent.layout.size, learner.agent.layout.group_range("q")
    slots = learner.slots
    bus = torch.tensor(list(slots.starts.values()), dtype=F64)
    for name, value in (("reward_scale", 2.0), ("distill_weight", 0.8), ("distill_temperature", 0.5)):
        bus[slots.index[name]] = value
    params, target = (torch.randn(size, generator=generator, dtype=F64) * 0.4 for _ in range(2))
    batch = random_batch(config, 600, generator)
    return Case(learner, params, target[start:end], bus, runner.state.lanes, batch)


def losses_at(case: Case, params: Tensor) -> tuple[Fresh, ReplayLosses]:
    fresh = forward(case.learner, params, case.lanes, case.bus)
    return fresh, learn(case.learner, params, case.target, case.batch, case.bus)
