"""Progress lines: few, against the whole training, and silent for a script but for warnings."""

import io

from benchmarks.learning.progress import Progress

STEP = "step 30/40 wr=0.330 hold=44.2% sps=5.97 eta=2s\n"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_line_shows_run_fold_and_the_whole_training_at_most_every_two_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress("demo-planted-s0", 160, stream=stream, clock=clock)
    progress.note("market", 1, 3)
    clock.now_s = 2.5
    progress.note("market", 2, 3)
    progress.note("market", 3, 3)
    progress.fold(1)
    clock.now_s = 5.0
    progress.write(STEP)
    progress.write("seed: 0\n")
    assert stream.getvalue().splitlines() == [
        "demo-planted-s0: market 2/3",
        "demo-planted-s0 fold 1: step 30/160 wr=0.330 hold=44.2% sps=5.97",
    ]


def test_quiet_progress_shows_a_warning_once_and_nothing_else() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress("a", 40, quiet=True, stream=stream, clock=clock)
    clock.now_s = 9.0
    progress.write(STEP)
    progress.write("warning: checkpoint 1 not saved\n")
    progress.write("warning: checkpoint 2 not saved\n")
    progress.say("done")
    assert stream.getvalue() == "a: warning: checkpoint 1 not saved\n"
