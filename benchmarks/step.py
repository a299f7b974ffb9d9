"""Steps per second of the learning step with a full replay: `python -m benchmarks.step --device cuda`.

Eager, eager in one CUDA graph, compiled, compiled in one CUDA graph, in one run on one made-up tape (random
walk, real shapes). Rates are medians of synchronised blocks after warm-up; nothing counts before the replay
is full. Needs torch, numpy and pydantic only.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from trainer.config import Config, InstrumentConfig
from trainer.learn.learner import Learner
from trainer.learn.progress import code_sha
from trainer.learn.runner import Runner, capture_step, configure_device
from trainer.learn.state import initial_state
from trainer.market.schedule import Span
from trainer.market.tape import Tape, TapeLabels, TapeRows, tape_from_arrays
from trainer.presets import INSTRUMENTS, PRESETS
from trainer.types import NUM_FEATURES, NUM_LEVELS

MODES = {"eager": (False, False), "eager + graph": (True, False), "compiled": (False, True),
         "compiled + graph": (True, True)}  # fmt: skip
BLOCKS = 5


@dataclass(frozen=True)
class Rate:
    """One mode's rates; None where the device has no such mode."""

    mode: str
    steps_per_s: float | None
    env_steps_per_s: float | None
    samples_per_s: float | None
    ms_per_step: float | None
    warm_up_s: float | None


def random_walk_tape(config: Config, num_rows: int, device: torch.device) -> Tape:
    """A tape of the real shapes: one segment, one-tick spread, random features and labels."""
    rng = np.random.default_rng(0)
    mid = rng.integers(-1, 2, num_rows).cumsum().astype(np.int32) + 20_000
    level = np.arange(NUM_LEVELS, dtype=np.int32)
    sizes = rng.integers(1, 60, (2, num_rows, NUM_LEVELS)).astype(np.int32)
    ts_ns = np.arange(num_rows, dtype=np.int64) * 20_000_000
    features = rng.standard_normal((num_rows, NUM_FEATURES)).astype(np.float32)
    horizons = len(config.data.horizons)
    labels = TapeLabels(
        rng.integers(0, 2, (num_rows, horizons, 5)).astype(np.float32),
        np.ones((num_rows, horizons), np.bool_),
        rng.integers(0, config.data.return_classes, (num_rows, horizons)),
    )
    end_ns = int(ts_ns[-1]) + 1
    rows = TapeRows(
        ts_ns, mid[:, None] - level, mid[:, None] + 1 + level, sizes[0], sizes[1], features,
        [Span(0, num_rows, 0, end_ns, False)],
    )  # fmt: skip
    return tape_from_arrays(rows, config, end_ns=end_ns, labels=labels, elapsed_scale_s=0.02, device=device)


def new_runner(config: Config, instrument: InstrumentConfig, tape: Tape) -> Runner:
    """A fresh run on the tape."""
    learner = Learner.build(
        config, instrument, tape, torch.ones(len(config.data.horizons), device=tape.ts_ns.device)
    )
    return Runner(learner, initial_state(config, learner.agent, tape))


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(runner: Runner, mode: str, num_steps: int) -> Rate:
    """Fills the replay, then times `BLOCKS` blocks of `num_steps` steps."""
    device, learn = runner.state.step.device, runner.learner.config.learn
    begin = time.perf_counter()
    while runner.completed <= capture_step(runner.learner.config) + 2:
        runner.advance()
    _synchronise(device)
    warm_up_s = time.perf_counter() - begin
    if int(runner.state.replay.filled) != learn.per_capacity:
        raise RuntimeError("the replay is not full: this rate would not count")
    seconds = []
    for _ in range(BLOCKS):
        begin = time.perf_counter()
        for _ in range(num_steps):
            runner.advance()
        _synchronise(device)
        seconds.append((time.perf_counter() - begin) / num_steps)
    step_s = statistics.median(seconds)
    return Rate(
        mode,
        1 / step_s,
        learn.n_backtests / step_s,
        learn.batch_size / step_s,
        step_s * 1e3,
        round(warm_up_s, 1),
    )


def profile(runner: Runner, num_steps: int = 10, num_kernels: int = 40) -> str:
    """Kernels of a warm step by time on the device, launches per step and the share of time they are busy."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        begin = time.perf_counter()
        for _ in range(num_steps):
            runner.advance()
        torch.cuda.synchronize()
        wall_us = (time.perf_counter() - begin) * 1e6
    kernels = sorted(found.key_averages(), key=lambda k: -k.self_device_time_total)
    busy_us = sum(k.self_device_time_total for k in kernels)
    lines = [f"{sum(k.count for k in kernels) / num_steps:.0f} kernels a step, busy {busy_us / wall_us:.0%}"]
    for k in kernels[:num_kernels]:
        lines.append(
            f"{k.self_device_time_total / num_steps:9.1f} us {k.count / num_steps:6.1f} x {k.key[:100]}"
        )
    return "\n".join(lines)


def environment(device: torch.device) -> dict[str, str]:
    """What a speed claim must carry."""
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.machine(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda) if on_gpu else "none",
        "commit": code_sha(),
    }


def run(
    config: Config,
    device: torch.device,
    modes: list[str],
    num_steps: int,
    num_rows: int,
    profiled: str | None = None,
) -> list[Rate]:
    """The rate of every mode, each from a fresh state."""
    tape, rates = random_walk_tape(config, num_rows, device), []
    for mode in modes:
        graph, compiled = MODES[mode]
        if graph and device.type != "cuda":
            rates.append(Rate(mode, None, None, None, None, None))
            continue
        chosen = config.replaced(run={"use_graph": graph, "use_compile": compiled})
        runner = new_runner(chosen, INSTRUMENTS["ES"], tape)
        if compiled and device.type != "cuda":
            runner.parts = runner.parts.compiled()
        rates.append(measure(runner, mode, num_steps))
        if profiled == mode:
            sys.stdout.write(profile(runner) + "\n")
        del runner
    return rates


def table(rates: list[Rate]) -> str:
    """One line a mode."""
    lines = [
        f"{'mode':18} {'ms/step':>9} {'steps/s':>9} {'env steps/s':>12} {'samples/s':>11} {'warm-up s':>10}"
    ]
    for r in rates:
        if r.steps_per_s is None:
            lines.append(f"{r.mode:18} {'needs a GPU':>9}")
        else:
            lines.append(
                f"{r.mode:18} {r.ms_per_step:9.2f} {r.steps_per_s:9.1f} {r.env_steps_per_s:12,.0f} "
                f"{r.samples_per_s:11,.0f} {r.warm_up_s:10.1f}"
            )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Prints environment and table; `--out` writes them as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--preset", choices=sorted(PRESETS), help="default on cuda, demo on cpu")
    parser.add_argument("--modes", default=",".join(MODES), help="comma-separated")
    parser.add_argument("--steps", type=int, help="steps of a timed block")
    parser.add_argument("--lanes", type=int, help="B; the replay shrinks with it so that it still fills")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the tape")
    parser.add_argument("--profile", choices=list(MODES), help="also list this mode's kernels (GPU)")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args(argv)
    modes = options.modes.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"--modes: {', '.join(sorted(unknown))}; choose from {', '.join(MODES)}")
    device = torch.device(options.device)
    configure_device(device)
    config = PRESETS[options.preset or ("default" if device.type == "cuda" else "demo")]()
    if options.lanes:
        filled = config.learn.per_capacity // config.learn.n_backtests
        capacity = 1 << (options.lanes * filled - 1).bit_length()
        config = config.replaced(learn={"n_backtests": options.lanes, "per_capacity": capacity})
    agent, learn, data = config.agent, config.learn, config.data
    shapes = {"B": learn.n_backtests, "D": agent.hidden, "K": data.window_rows, "N": learn.per_capacity,
              "batch": learn.batch_size}  # fmt: skip
    sys.stdout.write(f"{environment(device)} {shapes}\n")
    steps = options.steps or (100 if device.type == "cuda" else 10)
    rates = run(config, device, modes, steps, options.rows, options.profile)
    sys.stdout.write(table(rates) + "\n")
    if options.out:
        body = {"environment": environment(device), "shapes": shapes, "rates": [asdict(r) for r in rates]}
        options.out.write_text(json.dumps(body, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
