"""The benchmark reads the trainer's own log lines."""

import io

import numpy as np
import pytest

from benchmarks.speed import speed_of_log
from trainer.errors import InputError
from trainer.learn.journal import LINE_METRICS, Journal
from trainer.presets import demo


def log_of_intervals(fold, seconds):
    """The attempt's log of a run whose intervals of 10 steps take the given seconds each."""
    now_s = [0.0]
    with Journal(fold, 10 * len(seconds), 10, io.StringIO(), clock=lambda: now_s[0]) as journal:
        journal.header(demo(), "abc", {}, "H200", "sm_90", 0)
        for index, passed_s in enumerate(seconds):
            now_s[0] += passed_s
            journal.drain(np.zeros((10, len(LINE_METRICS))), tuple(LINE_METRICS), 10 * index + 1)
    return journal.log_path.read_text()


def test_speed_is_the_median_without_the_first_interval(tmp_path):
    speed = speed_of_log("demo", log_of_intervals(tmp_path, [100.0, 1.0, 2.0, 5.0]))
    assert (speed.slowest, speed.median, speed.fastest) == (2.0, 5.0, 10.0)
    assert speed.line() == "demo on H200: 5 steps/s (median of 3 intervals, 2 to 10)"


def test_log_of_a_single_interval_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="fewer than two step lines; raise --intervals"):
        speed_of_log("demo", log_of_intervals(tmp_path, [1.0]))
