"""GPU time used, and what of it was wasted."""

from datetime import timedelta
from typing import Any

import pytest

from pipelines.cluster.gpu import AttemptLog, GpuTime, gpu_time
from pipelines.cluster.merging import log_line
from pipelines.cluster.stages import Attempt
from pipelines.progress import Progress
from tests.pipelines.cluster.made_workflows import BEGAN
from tests.pipelines.cluster.scripted_api import stamped


def log(*texts: str, first_s: float = 0) -> AttemptLog:
    lines = [log_line(stamped(first_s, text)) for text in texts]
    return AttemptLog().read([line for line in lines if line is not None])


def attempt(number: int, phase: str, used_s: float | None = None, **more: Any) -> Attempt:
    resources = {} if used_s is None else {"nvidia.com/gpu": used_s, "cpu": 99.0}
    return Attempt(number, f"p{number}", phase, resource_s=resources, **more)


def test_a_log_says_where_it_began_what_it_reached_and_saved() -> None:
    read = log(
        "config: preset=demo",
        "resumed from step 100 (/runs/r/fold0/checkpoint-100.bin)",
        "step 150/1000 wr=0.5 sps=9.5 eta=2m",
        "checkpoint saved: /runs/r/fold0/checkpoint-200.bin (12 bytes, 3 ms)",
        "progress 5/7 market",
        "step 190/1000 wr=0.6 sps=9.5 eta=1m",
        first_s=7,
    )
    assert (read.began_at, read.reached, read.saved) == (100, 200, 200)
    assert read.last == Progress(190, 1000, {"wr": "0.6", "sps": "9.5", "eta": "1m"})
    assert read.first_ns == 1_796_007_607 * 10**9


def test_a_run_without_interruption_wasted_nothing() -> None:
    assert gpu_time([attempt(1, "Succeeded", 600)], [log("step 1000/1000")], 1, BEGAN) == GpuTime(600, 0)
    assert gpu_time([attempt(1, "Succeeded", 600)], [None], 1, BEGAN) == GpuTime(600, 0)


def test_steps_behind_the_checkpoint_that_the_next_attempt_took_are_wasted() -> None:
    first = log("step 400/1000", "checkpoint saved: r/checkpoint-400.bin (1 bytes, 1 ms)", "step 500/1000")
    second = log("resumed from step 400 (x)", "step 1000/1000")
    attempts = [attempt(1, "Failed", 100), attempt(2, "Succeeded", 120)]
    assert gpu_time(attempts, [first, second], 1, BEGAN) == GpuTime(220, 20)


def test_an_attempt_that_resumed_counts_its_own_steps_only() -> None:
    second = log("resumed from step 400 (x)", "step 600/1000")
    third = log("resumed from step 500 (x)")
    attempts = [attempt(1, "Failed", 100), attempt(2, "Error", 60), attempt(3, "Running")]
    first = log("step 400/1000", "checkpoint saved: r/checkpoint-400.bin (1 bytes, 1 ms)")
    assert gpu_time(attempts, [first, second, third], 1, BEGAN) == GpuTime(160, 30)


def test_an_attempt_without_a_step_is_wasted_whole() -> None:
    attempts = [attempt(1, "Failed", 40), attempt(2, "Succeeded", 100)]
    assert gpu_time(attempts, [log("config: x"), log("step 9/9")], 1, BEGAN) == GpuTime(140, 40)


def test_a_next_attempt_that_began_anew_kept_nothing() -> None:
    attempts = [attempt(1, "Failed", 40), attempt(2, "Succeeded", 100)]
    assert gpu_time(attempts, [log("step 5/9"), log("config: x", "step 9/9")], 1, BEGAN) == GpuTime(140, 40)


def test_a_next_attempt_that_never_came_to_the_trainer_resumed_nothing() -> None:
    attempts = [attempt(1, "Failed", 100), attempt(2, "Error", 0), attempt(3, "Succeeded", 50)]
    logs = [log("step 500/1000"), AttemptLog(), log("resumed from step 400 (x)")]
    assert gpu_time(attempts, logs, 1, BEGAN) == GpuTime(150, 20)


def test_the_last_attempt_keeps_what_it_saved() -> None:
    stopped = log("step 400/1000", "checkpoint saved: r/checkpoint-400.bin (1 bytes, 1 ms)")
    assert gpu_time([attempt(1, "Failed", 100)], [stopped], 1, BEGAN) == GpuTime(100, 0)


@pytest.mark.parametrize("logs", [[None, log("step 9/9")], [log("step 5/9"), None]])
def test_without_the_logs_the_waste_is_unknown(logs: list[AttemptLog | None]) -> None:
    attempts = [attempt(1, "Failed", 40), attempt(2, "Succeeded", 100)]
    assert gpu_time(attempts, logs, 1, BEGAN) == GpuTime(140, None)
    assert GpuTime(140, None) + GpuTime(10, 5) == GpuTime(150, None)


def test_a_pod_that_got_no_gpu_used_none() -> None:
    lost = attempt(1, "Error", started=BEGAN, finished=BEGAN + timedelta(seconds=9))
    assert gpu_time([lost], [None], 0, BEGAN) == GpuTime(0, 0)
    waiting = attempt(1, "Pending", started=BEGAN)
    assert gpu_time([waiting], [AttemptLog()], 1, BEGAN + timedelta(seconds=99)) == GpuTime(0, 0)


def test_a_running_pod_counts_from_its_first_line() -> None:
    running = attempt(1, "Running", started=BEGAN)
    now = BEGAN + timedelta(seconds=100)
    assert gpu_time([running], [log("config: x", first_s=30)], 2, now) == GpuTime(140, 0)
    assert gpu_time([running], [None], 1, now) == GpuTime(100, 0)
