"""The market benchmark drives real lanes, counts only trading ones, and says what it measured on."""

import json

import pytest
import torch

from benchmarks.market import Replayer, advancer, decide, main, measure
from benchmarks.step import environment
from trainer.learn.tree import CompiledTree, flatten
from trainer.presets import demo


@pytest.fixture(scope="module")
def replayer() -> Replayer:
    return Replayer(demo(), 3_000, torch.device("cpu"))


def test_lanes_advance_in_place_and_trade(replayer: Replayer) -> None:
    state = replayer.start(8)
    cursors = state.lanes.cursor.clone()
    advance = advancer(replayer, state, compiled=False, graph=False)
    for _ in range(20):
        advance()
    assert state.num_steps.item() == 20
    assert (state.lanes.cursor != cursors).all()
    assert (state.filled_lots > 0).all()
    assert state.lanes.lots.abs().max() > 0


def test_steps_in_place_equal_steps_that_keep_their_inputs(replayer: Replayer) -> None:
    in_place, kept = replayer.start(8), replayer.start(8)
    advance = advancer(replayer, in_place, compiled=False, graph=False)
    for _ in range(30):
        advance()
        kept = decide(replayer, replayer.tape, kept)
    for a, b in zip(flatten(in_place), flatten(kept), strict=True):
        assert torch.equal(a, b)


def test_a_rate_is_lanes_over_time(replayer: Replayer) -> None:
    rate = measure(replayer, 8, "eager", num_steps=2)
    assert rate.ms_per_step is not None
    assert rate.ms_per_step > 0
    assert rate.lane_steps_per_s == pytest.approx(8 / (rate.ms_per_step / 1e3))


def test_the_step_is_one_graph_for_the_compiler_and_computes_the_same(replayer: Replayer) -> None:
    state = replayer.start(4)
    whole = CompiledTree(decide, fullgraph=True, dynamic=False, backend="eager")
    for plain, traced in zip(
        flatten(decide(replayer, replayer.tape, state)),
        flatten(whole(replayer, replayer.tape, state)),
        strict=True,
    ):
        assert torch.equal(plain, traced)


def test_json_carries_environment_every_width_and_the_mode_a_cpu_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--preset", "demo", "--lanes", "4", "8", "--steps", "1", "--rows", "3000", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert set(body["environment"]) == set(environment(torch.device("cpu")))
    assert [(r["lanes"], r["mode"]) for r in body["rates"]] == [
        (4, "eager"), (4, "compiled + graph"), (8, "eager"), (8, "compiled + graph"),
    ]  # fmt: skip
    assert [r["lane_steps_per_s"] is None for r in body["rates"]] == [False, True, False, True]


def test_the_table_names_units_and_what_needs_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--preset", "demo", "--lanes", "4", "--steps", "1", "--rows", "3000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "lane steps/s" in lines[1]
    assert lines[2].startswith("eager")
    assert lines[3].endswith("needs a GPU")
