"""Following a workflow: what is told of it, and how it ends."""

import io
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from pipelines.cluster.nodes import pod_name
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.snapshots import Alarm, snapshots
from pipelines.cluster.watching import Changes, follow, running_attempts
from pipelines.progress import LiveDisplay, PlainDisplay
from tests.pipelines.cluster.made_workflows import BEGAN, NAME, RUN_ID, MadeWorkflow, finished, pod
from tests.pipelines.cluster.scripted_api import UNREACHABLE, ScriptedApi, stamped
from trainer.errors import InputError

TRAIN_POD = pod_name(NAME, f"{NAME}.fold(0:0).train(0)", "train")


def training(progress: str = "0/1", **more: Any) -> dict[str, Any]:
    made = MadeWorkflow(folds=1).done("prepare").dag(0)
    return made.stage("train", "Running", pod("Running", begin=20, progress=progress, **more), fold=0).body()


def told(*bodies: dict[str, Any]) -> list[str]:
    stream = io.StringIO()
    changes = Changes(PlainDisplay(stream), clock=lambda: BEGAN + timedelta(seconds=60))
    for body in bodies:
        changes.update(workflow_run(body))
    return stream.getvalue().splitlines()


def test_each_change_is_one_line() -> None:
    waiting = MadeWorkflow(folds=1).done("prepare").dag(0)
    why = "Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    waiting.stage("train", "Running", pod("Pending", begin=20, message=why), fold=0)
    lines = told(
        waiting.body(), waiting.body(), training(), training("300/1000"), training("310/1000"), finished()
    )
    assert lines == [
        f"walkforward | workflow {NAME}, run id {RUN_ID}",
        "prepare | done",
        f"fold0 train | waiting: {why}",
        "fold0 train | started 40 s ago",
        "fold0 train | progress 300/1000",
        "fold0 train | done",
        "fold0 evaluate | done",
        "fold1 train | done",
        "fold1 evaluate | done",
        "gate | done",
    ]


def test_a_stage_that_never_ran_says_once_that_it_was_omitted() -> None:
    made = MadeWorkflow(folds=1).done("prepare").dag(0)
    made.left_out("evaluate", "evaluate", "Omitted", "omitted: depends condition not met", fold=0)
    assert told(made.body())[-1] == "fold0 evaluate | omitted: depends condition not met"


def test_a_preempted_attempt_is_told_and_the_next_one_begins() -> None:
    def train(phase: str, *pods: dict[str, Any], message: str = "") -> dict[str, Any]:
        made = MadeWorkflow(folds=1).done("prepare").dag(0)
        return made.stage("train", phase, *pods, fold=0, message=message).body()

    gone = pod("Error", begin=20, end=30, message="pod deleted")
    broken = pod("Failed", begin=50, end=55, code=2, message="main: Error (exit code 2): bad row")
    lines = told(
        training(),
        train("Running", gone, message="Backoff for 10 seconds"),
        train("Running", gone, pod("Running", begin=50)),
        train("Failed", gone, broken, message="retryStrategy.expression evaluated to false"),
    )
    assert lines[2:] == [
        "fold0 train | started 40 s ago",
        "fold0 train | attempt 1 failed: pod deleted",
        "fold0 train | waiting: Backoff for 10 seconds",
        "fold0 train | started 10 s ago",
        "fold0 train | failed (exit 2): main: Error (exit code 2): bad row",
    ]


def test_step_lines_are_thinned_to_tenths_and_carry_the_metrics() -> None:
    lines = [stamped(i, f"step {i}/100 wr=0.5{i:02d} sps=9 eta=1m") for i in range(1, 101)]
    api = ScriptedApi([[training()], [finished()]], {TRAIN_POD: lines})
    out, err = io.StringIO(), io.StringIO()
    assert follow(api, NAME, out, err, api.sleep) == 0
    steps = [line for line in err.getvalue().splitlines() if " | step " in line]
    assert [line.split()[4] for line in steps] == ["1/100", *(f"{i}/100" for i in range(10, 101, 10))]
    assert steps[1].endswith("step 10/100 wr=0.510 sps=9 eta=1m")
    assert out.getvalue() == "verdict: pass\n"


def test_what_a_stage_resumed_from_and_its_warnings_are_told() -> None:
    stream = io.StringIO()
    changes = Changes(PlainDisplay(stream))
    run = workflow_run(training())
    (source,) = running_attempts(run)
    for text in ("config: x", "resumed from step 40 (c) attempt=2", "warning: disk full", "device: cpu"):
        changes.line(source, text)
    assert stream.getvalue().splitlines() == [
        "fold0 train | resumed from step 40 (c) attempt=2",
        "fold0 train | warning: disk full",
    ]


def test_argos_late_progress_does_not_follow_the_logs_own() -> None:
    stream = io.StringIO()
    changes = Changes(PlainDisplay(stream))
    run = workflow_run(training("0/100"))
    changes.update(run)
    changes.line(running_attempts(run)[0], "step 60/100 wr=0.5")
    changes.update(workflow_run(training("50/100")))
    assert stream.getvalue().splitlines()[-1] == "fold0 train | step 60/100 wr=0.5"


def test_a_terminal_has_a_table_with_what_stages_wait_for() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    display = LiveDisplay(Console(file=stream, width=120, force_terminal=True))
    changes = Changes(display)
    changes.update(workflow_run(training("300/1000")))
    made = MadeWorkflow(folds=1).done("prepare").dag(0)
    made.stage("train", "Running", pod("Pending", message="Unschedulable: no GPU"), fold=0)
    changes.update(workflow_run(made.body()))
    display.close()
    assert "300/1000 (30 %)" in stream.getvalue() or "Unschedulable: no GPU" in stream.getvalue()
    assert "Unschedulable: no GPU" in stream.getvalue().rpartition("fold0 train")[2]


@pytest.mark.parametrize("code", [0, 3, 4])
def test_the_exit_code_is_the_verdict(code: int) -> None:
    api, out = ScriptedApi([[finished(code)]]), io.StringIO()
    assert follow(api, NAME, out, io.StringIO(), api.sleep) == code
    assert out.getvalue().startswith("verdict: ")
    assert out.getvalue().count("\n") == 1


def test_an_api_server_restart_is_waited_for_and_said_once() -> None:
    away = [[UNREACHABLE]] * 3
    api = ScriptedApi([[training()], *away, [training(), UNREACHABLE], [], [finished()]])
    err = io.StringIO()
    assert follow(api, NAME, io.StringIO(), err, api.sleep) == 0
    notes = [line for line in err.getvalue().splitlines() if line.startswith("walkforward |")]
    assert len([line for line in notes if "trying again until it answers" in line]) == 1
    assert len([line for line in notes if "connected again" in line]) == 1


def test_a_wrong_address_is_not_tried_for_ever() -> None:
    api = ScriptedApi([[UNREACHABLE]])
    with pytest.raises(InputError, match="connection refused"):
        follow(api, NAME, io.StringIO(), io.StringIO(), api.sleep)


def test_a_workflow_that_is_deleted_meanwhile_is_an_error() -> None:
    api = ScriptedApi([[training()], [InputError(f"no workflow {NAME}", where="cluster")]])
    with pytest.raises(InputError, match="no workflow"):
        follow(api, NAME, io.StringIO(), io.StringIO(), api.sleep)


def test_ctrl_c_leaves_the_workflow_and_says_how_to_go_on() -> None:
    released = threading.Event()

    class Interrupted(ScriptedApi):
        def watch_workflow(self, name: str) -> Iterator[dict[str, Any]]:
            yield training()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            released.wait(30)  # a quiet watch

    err = io.StringIO()
    assert follow(Interrupted(), NAME, io.StringIO(), err, flags=" --context prod") == 75
    released.set()
    assert (
        f"{NAME} goes on; follow it again with: walkforward status {NAME} --watch -n argo --context prod\n"
        in err.getvalue()
    )


def test_pauses_between_tries_grow_and_are_bounded() -> None:
    api = ScriptedApi([[training()], *[[UNREACHABLE]] * 8, [finished()]])
    runs = list(snapshots(api, NAME, Alarm(lambda text: None), api.sleep))
    assert [run.ended for run in runs] == [False, True]
    assert api.naps == [1.0, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0]


def test_a_repeated_snapshot_is_given_once() -> None:
    api = ScriptedApi([[training()], [training()], [training(), finished()]])
    assert len(list(snapshots(api, NAME, Alarm(lambda text: None), api.sleep))) == 2
