"""The step on a GPU: captured, compiled and eager runs agree."""

import pytest
import torch

from benchmarks.step import new_runner, random_walk_tape
from trainer.config import Config
from trainer.learn.runner import Runner, capture_step, configure_device
from trainer.learn.tree import copy_into, leaves
from trainer.presets import INSTRUMENTS, demo, seed

pytestmark = pytest.mark.gpu

NUM_STEPS = 12


def small() -> Config:
    return demo().replaced(learn={"per_capacity": 512, "n_backtests": 64, "batch_size": 128})


def documents() -> Config:
    """Every rule of the seed preset, and the encoder trained by replayed losses."""
    rules = {"reward", "advantage", "td_cut", "target_max", "entropy_target", "decaying_rates"}
    learn = seed().learn.model_dump(include=rules) | {"encoder_rl": 0.5}
    return small().replaced(learn=learn, agent={"rl_heads": "linear"})


def run_of(config: Config, *, graph: bool, compiled: bool, steps: int) -> Runner:
    device = torch.device("cuda")
    configure_device(device)
    chosen = config.replaced(run={"use_graph": graph, "use_compile": compiled})
    runner = new_runner(chosen, INSTRUMENTS["ES"], random_walk_tape(chosen, 20_000, device))
    for _ in range(steps):
        runner.advance()
    torch.cuda.synchronize()
    return runner


def differing(one: Runner, other: Runner) -> dict[str, float]:
    found = {}
    for (name, a), (_, b) in zip(leaves(one.state), leaves(other.state), strict=True):
        if name != "replay.rows" and not torch.equal(a, b):
            found[name] = float((a.double() - b.double()).abs().max())
    return found


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_captured_run_equals_the_uncaptured_one_bit_for_bit(compiled: bool) -> None:
    steps = capture_step(small()) + NUM_STEPS
    captured = run_of(small(), graph=True, compiled=compiled, steps=steps)
    loose = run_of(small(), graph=False, compiled=compiled, steps=steps)
    assert captured._graph is not None
    assert differing(captured, loose) == {}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_documents_rules_are_captured_bit_for_bit(compiled: bool) -> None:
    torch._dynamo.reset()  # other rules are other code: torch keeps eight versions of one function
    steps = capture_step(documents()) + NUM_STEPS
    captured = run_of(documents(), graph=True, compiled=compiled, steps=steps)
    loose = run_of(documents(), graph=False, compiled=compiled, steps=steps)
    torch._dynamo.reset()
    assert captured._graph is not None
    assert differing(captured, loose) == {}


def test_the_first_steps_compiled_and_eager_agree_with_equal_integers() -> None:
    compiled = run_of(small(), graph=False, compiled=True, steps=1)
    eager = run_of(small(), graph=False, compiled=False, steps=1)
    for (name, a), (_, b) in zip(leaves(compiled.state), leaves(eager.state), strict=True):
        if a.dtype in (torch.int64, torch.bool) and name not in ("replay.priority", "replay.max_priority"):
            assert torch.equal(a, b), name
        elif name == "params":
            # Adam's first step moves every weight by its rate whatever the gradient's size: only near-zero
            # gradients can differ, by up to twice the rate.
            assert ((a - b).abs() > 1e-4).float().mean() < 0.01


def test_two_gpu_runs_are_equal_bit_for_bit() -> None:
    steps = capture_step(small()) + NUM_STEPS
    one = run_of(small(), graph=True, compiled=True, steps=steps)
    assert differing(one, run_of(small(), graph=True, compiled=True, steps=steps)) == {}


def test_a_run_resumed_behind_the_capture_equals_the_whole_one_bit_for_bit() -> None:
    split = capture_step(small()) + NUM_STEPS // 2
    whole = run_of(small(), graph=True, compiled=True, steps=capture_step(small()) + NUM_STEPS)
    first = run_of(small(), graph=True, compiled=True, steps=split)
    resumed = run_of(small(), graph=True, compiled=True, steps=0)
    copy_into(resumed.state, first.state)
    resumed.completed = split
    for _ in range(NUM_STEPS - NUM_STEPS // 2):
        resumed.advance()
    assert differing(whole, resumed) == {}
