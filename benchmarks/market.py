"""Lane steps per second of the market replay alone: `python -m benchmarks.market --device cpu|cuda [--json]`.

A step is what a decision costs outside agent and learning: feasible actions, context, a random feasible
action, the risk stage and the replay up to the next decision. Eager, and on a GPU also compiled and captured
in one CUDA graph. Rates are medians of synchronised blocks after a warm-up in which positions build up.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.step import environment, random_walk_tape
from trainer.config import Config
from trainer.learn.captured import captured
from trainer.learn.random import Stream, integers, uniform
from trainer.learn.runner import configure_device
from trainer.learn.tree import CompiledTree, copy_into
from trainer.market import (
    Lanes,
    Tape,
    context_features,
    feasible_actions,
    reset_lanes,
    risk_stage,
    step_lanes,
)
from trainer.presets import INSTRUMENTS, PRESETS

INSTRUMENT = INSTRUMENTS["ES"]
BLOCKS, WARM_UP_STEPS = 5, 64
MEAN_TRADE_TICKS, STOP_RATIO = 4.0, 2.0


class Market(NamedTuple):
    """State of the benchmark between steps; every tensor is written in place."""

    lanes: Lanes
    num_steps: Tensor  # [] int64, steps taken
    filled_lots: Tensor  # [B] int64, lots filled so far: shows that the lanes trade
    context: Tensor  # [B, C] float32, of the last decision


@dataclass(frozen=True)
class Rate:
    """One mode's rate at B lanes; None where the device has no such mode."""

    mode: str
    lanes: int
    ms_per_step: float | None
    lane_steps_per_s: float | None


class Replayer:
    """The market part over one tape: what never changes."""

    def __init__(self, config: Config, num_rows: int, device: torch.device) -> None:
        self.config, self.device = config, device
        self.tape = random_walk_tape(config, num_rows, device)
        self.seed = torch.zeros((), dtype=torch.int64, device=device)
        self.mean, self.ratio = (torch.tensor(v, device=device) for v in (MEAN_TRADE_TICKS, STOP_RATIO))

    def start(self, num_lanes: int) -> Market:
        """Flat lanes at random anchors, their episodes at random points."""
        tape, market, device = self.tape, self.config.market, self.device
        zero = torch.zeros((), dtype=torch.int64, device=device)
        rows = integers(self.seed, zero, Stream.START, num_lanes, tape.anchors.shape[0])
        left = integers(self.seed, zero, Stream.EPISODE, num_lanes, market.episode_decisions) + 1
        lanes = reset_lanes(tape, tape.anchors[rows], None, left, market)
        context = context_features(tape, lanes, self.mean, market, INSTRUMENT)
        return Market(lanes, zero, torch.zeros_like(left), context)


def decide(replayer: Replayer, tape: Tape, state: Market) -> Market:
    """One decision of every lane."""
    config, lanes = replayer.config, state.lanes
    feasible = feasible_actions(tape, lanes, config.market)
    context = context_features(tape, lanes, replayer.mean, config.market, INSTRUMENT)
    noise = uniform(replayer.seed, state.num_steps, Stream.ACTION, tuple(feasible.shape))
    action = noise.masked_fill(~feasible, -1.0).argmax(1)
    action, _ = risk_stage(tape, lanes, action, replayer.ratio, replayer.mean, config.market)
    anchor = integers(replayer.seed, state.num_steps, Stream.ANCHOR, action.shape[0], tape.anchors.shape[0])
    lanes, out = step_lanes(tape, lanes, action, tape.anchors[anchor], config, INSTRUMENT)
    return Market(lanes, state.num_steps + 1, state.filled_lots + out.fill_lots.abs(), context)


def advancer(replayer: Replayer, state: Market, compiled: bool, graph: bool) -> Callable[[], None]:
    """A call that advances `state` in place by one step; captured where `graph`."""
    one = CompiledTree(decide, fullgraph=True, dynamic=False) if compiled else decide

    def advance() -> None:
        copy_into(state, one(replayer, replayer.tape, state))

    return captured(advance, warm_up=advance).replay if graph else advance


@torch.no_grad()
def measure(replayer: Replayer, num_lanes: int, mode: str, num_steps: int) -> Rate:
    """Median rate of `BLOCKS` blocks of `num_steps` steps. Raises RuntimeError when no lane traded."""
    fast = mode != "eager"
    if fast and replayer.device.type != "cuda":
        return Rate(mode, num_lanes, None, None)
    state = replayer.start(num_lanes)
    advance = advancer(replayer, state, compiled=fast, graph=fast)

    def block(steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            advance()
        if replayer.device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps

    block(WARM_UP_STEPS)
    step_s = statistics.median(block(num_steps) for _ in range(BLOCKS))
    if not state.filled_lots.any():
        raise RuntimeError("no lane traded: this rate would not count")
    return Rate(mode, num_lanes, step_s * 1e3, num_lanes / step_s)


def table(rates: list[Rate]) -> str:
    """One line a rate."""
    lines = [f"{'mode':18} {'lanes':>6} {'ms/step':>9} {'lane steps/s':>13}"]
    for r in rates:
        if r.ms_per_step is None:
            lines.append(f"{r.mode:18} {r.lanes:6} {'needs a GPU':>23}")
        else:
            lines.append(f"{r.mode:18} {r.lanes:6} {r.ms_per_step:9.3f} {r.lane_steps_per_s:13,.0f}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Prints environment and table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="default")
    parser.add_argument("--lanes", type=int, nargs="+", default=[64, 1024], help="B, one or several")
    parser.add_argument("--steps", type=int, default=100, help="steps of a timed block")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the tape")
    parser.add_argument("--json", action="store_true", help="for a script")
    options = parser.parse_args(argv)
    device = torch.device(options.device)
    configure_device(device)
    replayer = Replayer(PRESETS[options.preset](), options.rows, device)
    modes = ("eager", "compiled + graph")
    rates = [measure(replayer, b, mode, options.steps) for b in options.lanes for mode in modes]
    if options.json:
        body = {"environment": environment(device), "rates": [asdict(rate) for rate in rates]}
        sys.stdout.write(json.dumps(body) + "\n")
    else:
        sys.stdout.write(f"{environment(device)}\n{table(rates)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
