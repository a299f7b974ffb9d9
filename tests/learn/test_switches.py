"""Each rule switched alone, in whole steps: what it may touch; a loss of weight 0 is not computed."""

from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.step import new_runner, random_walk_tape
from tests.learn.small import SMALL_AGENT
from trainer.config import Config
from trainer.learn import objective, rollout
from trainer.learn.adapt import adapt
from trainer.learn.runner import Runner
from trainer.learn.state import TrainState
from trainer.learn.step import Parts
from trainer.learn.tree import leaves
from trainer.presets import INSTRUMENTS, demo

N, LATER = 2, 9
RULES: dict[str, dict[str, dict[str, Any]]] = {
    "at_close": {"learn": {"reward": "at_close"}},
    "done_only": {"learn": {"advantage": "done_only"}},
    "done": {"learn": {"td_cut": "done"}},
    "all": {"learn": {"target_max": "all"}},
    "no policy gradient": {"learn": {"policy_weight": 0.0}},
    "no distillation": {"learn": {"distill_weight": 0.0}},
    "uniform replay": {"learn": {"prioritized": False}},
    "encoder_rl": {"learn": {"encoder_rl": 1.0}},
}
"""Rules of learning: none may change what the lanes do before anything was learned from the replay."""


def small(**rules: Any) -> Config:
    learn = {"n_backtests": 8, "per_capacity": 64, "batch_size": 16, "n_step": N}
    return demo().replaced(data={"window_rows": 3}, agent=SMALL_AGENT, learn=learn).replaced(**rules)


def run(config: Config, steps: int, parts: Parts | None = None) -> Runner:
    torch.set_num_threads(1)
    found = new_runner(config, INSTRUMENTS["ES"], random_walk_tape(config, 2000, torch.device("cpu")))
    found.parts = parts or found.parts
    for _ in range(steps):
        found.advance()
    return found


def differing(one: TrainState, other: TrainState) -> set[str]:
    pairs = zip(leaves(one), leaves(other), strict=True)
    return {name for (name, a), (_, b) in pairs if a.shape != b.shape or not torch.equal(a, b)}


def broken(state: TrainState) -> list[str]:
    return [name for name, t in leaves(state) if t.is_floating_point() and not t.isfinite().all()]


@pytest.fixture(scope="module")
def plain() -> dict[int, Runner]:
    return {steps: run(small(), steps) for steps in (N, LATER)}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_learning_moves_the_weights_but_not_the_first_decisions(
    name: str, plain: dict[int, Runner]
) -> None:
    found = {steps: run(small(**RULES[name]), steps) for steps in (N, LATER)}
    acted = {leaf for leaf in differing(found[N].state, plain[N].state) if leaf.startswith("lanes")}
    assert acted == set()
    assert "params" in differing(found[LATER].state, plain[LATER].state)
    assert broken(found[LATER].state) == []


def test_the_entropy_target_moves_nothing_but_its_own_slot_before_the_first_bounded_step(
    plain: dict[int, Runner],
) -> None:
    found = run(small(learn={"entropy_target": "all_actions"}), LATER)
    assert differing(found.state, plain[LATER].state) == {"bus"}
    slots = found.learner.slots
    moved = [name for name, i in slots.index.items() if found.state.bus[i] != plain[LATER].state.bus[i]]
    assert moved == ["ema.entropy_target"]


def grads_of(config: Config, steps: int = 8) -> dict[str, Tensor]:
    """The gradient of the last of `steps` steps by weight name."""
    grads: list[Tensor] = []

    def spy(learner: Any, state: Any, grad: Tensor, *rest: Any) -> Any:
        grads.append(grad)
        return adapt(learner, state, grad, *rest)

    return run(config, steps, Parts(adapt=spy)).learner.agent.layout.unflatten(grads[-1])


def trained(grads: dict[str, Tensor]) -> set[str]:
    """First parts of the names of weights that got a gradient."""
    return {name.split(".")[0] for name, grad in grads.items() if grad.any()}


ENCODER = {"select", "embed", "ssd0", "cfc"}


def test_without_supervised_losses_neither_encoder_nor_their_heads_learn() -> None:
    assert trained(grads_of(small())) == ENCODER | {"labels", "returns", "q", "pi", "v"}
    assert trained(grads_of(small(learn={"supervised_weight": 0.0}))) == {"q", "pi", "v"}


@pytest.mark.parametrize("scale", [0.0, 0.125])
def test_a_slower_encoder_moves_by_its_share_of_a_step_and_all_else_as_before(scale: float) -> None:
    """Adam's first step: every weight with a gradient moves by its learning rate."""
    slow = run(small(learn={"encoder_rate": scale, "weight_decay": 0.0}), 1)
    full = run(small(learn={"weight_decay": 0.0}), 1)
    layout = full.learner.agent.layout
    start = layout.unflatten(layout.initial(full.learner.config.learn.seed))
    moved, usual = (layout.unflatten(runner.state.params) for runner in (slow, full))
    seen = set()
    for name, before in start.items():
        share = scale if name.split(".")[0] in ENCODER else 1.0
        seen |= {share} if (usual[name] != before).any() else set()
        torch.testing.assert_close(moved[name] - before, share * (usual[name] - before), atol=1e-7, rtol=1e-3)
    assert seen == {scale, 1.0}


def test_the_replayed_losses_alone_can_train_the_encoder() -> None:
    learn = {"supervised_weight": 0.0, "encoder_rl": 0.5}
    assert trained(grads_of(small(learn=learn))) == ENCODER | {"q", "pi", "v"}


def test_the_documents_heads_all_learn() -> None:
    assert trained(grads_of(small(agent={"rl_heads": "linear"}))) >= {"q", "pi", "v"}


@pytest.mark.parametrize(
    ("module", "loss", "weight"),
    [
        (rollout, "supervised_losses", "supervised_weight"),
        (objective, "clipped_surrogate", "policy_weight"),
        (objective, "distillation_loss", "distill_weight"),
    ],
)
def test_a_loss_of_weight_zero_is_not_computed(
    module: Any, loss: str, weight: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError(f"{loss} was computed")

    monkeypatch.setattr(module, loss, refuse)
    assert broken(run(small(learn={weight: 0.0}), N + 2).state) == []
    with pytest.raises(AssertionError, match=f"{loss} was computed"):
        run(small(), 1)
