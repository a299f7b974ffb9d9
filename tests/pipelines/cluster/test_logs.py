"""`walkforward logs`: which lines, in which order, with which words around them."""

import io
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.cluster.logs import LogOptions, seconds_of, show_logs
from pipelines.cluster.nodes import pod_name
from tests.pipelines.cluster.made_workflows import NAME, RUN_DIR, MadeWorkflow, finished, pod
from tests.pipelines.cluster.scripted_api import UNREACHABLE, ScriptedApi, since, stamped
from trainer.errors import InputError


def pod_of(stage: str, attempt: int = 1, fold: int | None = None) -> str:
    path = f"{NAME}.{stage}" if fold is None else f"{NAME}.fold({fold}:{fold}).{stage}"
    return pod_name(NAME, f"{path}({attempt - 1})", stage)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(api: ScriptedApi, options: LogOptions, stdout: io.StringIO | None = None) -> tuple[str, str]:
    stdout, stderr = stdout or io.StringIO(), io.StringIO()
    assert show_logs(api, NAME, options, stdout, stderr, api.sleep) == 0
    return stdout.getvalue(), stderr.getvalue()


TRAIN = (pod("Failed", begin=1, end=9, code=137, message="OOMKilled"), pod("Running", begin=20))


def preempted(phase: str = "Running") -> MadeWorkflow:
    return MadeWorkflow(folds=1).done("prepare").dag(0).stage("train", phase, *TRAIN, fold=0)


LOGS: dict[str, Any] = {
    pod_of("prepare"): [stamped(10, "prepared: 1 folds")],
    pod_of("train", 1, 0): [stamped(5, "step 100/200"), stamped(8, "checkpoint saved: x")],
    pod_of("train", 2, 0): [stamped(21, "resumed from step 100"), stamped(22, "step 150/200")],
}


def test_the_newest_attempt_of_each_stage_by_time() -> None:
    out, err = shown(ScriptedApi([[preempted().body()]], LOGS), LogOptions())
    assert out == (
        "prepare/1 | prepared: 1 folds\nfold0 train/2 | resumed from step 100\nfold0 train/2 | step 150/200\n"
    )
    assert err == ""


def test_all_attempts_one_attempt_one_stage_one_fold() -> None:
    def lines(options: LogOptions) -> list[str]:
        return shown(ScriptedApi([[preempted().body()]], LOGS), options)[0].splitlines()

    assert [line.split(" |")[0] for line in lines(LogOptions(attempt="all"))] == [
        "fold0 train/1", "fold0 train/1", "prepare/1", "fold0 train/2", "fold0 train/2",
    ]  # fmt: skip
    assert lines(LogOptions(attempt=1, stage="train"))[0] == "fold0 train/1 | step 100/200"
    assert len(lines(LogOptions(fold=0))) == 2
    assert len(lines(LogOptions(stage="prepare"))) == 1
    assert lines(LogOptions(stage="train", tail=1)) == ["fold0 train/2 | step 150/200"]
    assert lines(LogOptions(tail=0)) == []


def test_what_argos_executor_adds_is_left_out() -> None:
    added = 'time=2026-11-30T04:17:18.298Z level=INFO msg="sub-process exited" argo=true error=<nil>'
    logs = {
        pod_of("prepare"): [*LOGS[pod_of("prepare")], stamped(11, added), stamped(12, "argo=true is mine")]
    }
    api = ScriptedApi([[preempted().body()]], logs)
    assert shown(api, LogOptions(stage="prepare", tail=2))[0].splitlines() == [
        "prepare/1 | prepared: 1 folds",
        "prepare/1 | argo=true is mine",
    ]


def test_times_are_shown_when_asked_for() -> None:
    out, _ = shown(ScriptedApi([[preempted().body()]], LOGS), LogOptions(stage="prepare", timestamps=True))
    assert out == "prepare/1 | 2026-11-30T03:00:10.000000000Z prepared: 1 folds\n"


def test_since_leaves_older_lines_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = MadeWorkflow().body()["metadata"]["creationTimestamp"]
    assert now == "2026-11-30T03:00:00Z"
    monkeypatch.setattr("pipelines.cluster.logs.time.time", lambda: 1_796_007_600 + 31.5)
    out, _ = shown(ScriptedApi([[preempted().body()]], LOGS), LogOptions(since_s=10))
    assert out == "fold0 train/2 | step 150/200\n"


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out, _ = shown(ScriptedApi([[preempted().body()]], LOGS), LogOptions(stage="prepare"), Terminal())
    assert out == "\x1b[36mprepare/1 |\x1b[0m prepared: 1 folds\n"
    monkeypatch.setenv("NO_COLOR", "1")
    out, _ = shown(ScriptedApi([[preempted().body()]], LOGS), LogOptions(stage="prepare"), Terminal())
    assert "\x1b" not in out


def test_a_pod_that_is_gone_is_said_with_the_place_of_its_log() -> None:
    logs = {name: lines for name, lines in LOGS.items() if name != pod_of("train", 1, 0)}
    out, err = shown(ScriptedApi([[preempted().body()]], logs), LogOptions(attempt="all"))
    assert len(out.splitlines()) == 3
    assert err == (
        f"fold0 train/1: cluster: no log of pod {pod_of('train', 1, 0)}; its pod was deleted; "
        f"on the claim: {RUN_DIR}/fold0/logs/\n"
    )


def test_nothing_but_gone_pods_is_an_error() -> None:
    with pytest.raises(InputError, match=r"fold0 train/1: cluster: no log of pod .* on the claim"):
        shown(ScriptedApi([[preempted().body()]]), LogOptions(attempt=1, stage="train"))


def test_before_the_first_pod_there_is_only_what_it_waits_for() -> None:
    waiting = MadeWorkflow().stage("prepare", "Pending", message="Waiting for argo/Mutex/m lock")
    out, err = shown(ScriptedApi([[waiting.body()]]), LogOptions())
    assert (out, err) == ("", f"{NAME}: no pod was started; waits for mutex m\n")


def test_a_pod_that_has_not_started_is_said_and_not_asked() -> None:
    made = MadeWorkflow(folds=1).done("prepare").dag(0)
    made.stage("train", "Running", TRAIN[0], pod("Pending", message="Unschedulable: no GPU"), fold=0)
    out, err = shown(ScriptedApi([[made.body()]], LOGS), LogOptions())
    assert out == "prepare/1 | prepared: 1 folds\n"
    assert err == "fold0 train/2: has not started: Unschedulable: no GPU\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LogOptions(fold=7), "--fold: no fold 7 in .*; its folds are 0"),
        (LogOptions(stage="fly"), "--stage: no stage fly in .*; its stages: prepare, train, evaluate, gate"),
        (LogOptions(attempt=9), "--attempt: no attempt 9 there"),
    ],
)
def test_what_is_not_there_is_refused(options: LogOptions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        shown(ScriptedApi([[preempted().body()]], LOGS), options)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("2d", 172_800)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "1.5h", "5 m"])
def test_other_words_are_no_duration(text: str) -> None:
    with pytest.raises(InputError, match=r"--since: .* is no duration; write it like"):
        seconds_of(text)


def test_following_goes_on_across_attempts_and_broken_streams() -> None:
    """The second attempt breaks off twice, once in the middle of a second; a third one finishes."""
    second = [stamped(20 + i / 4, f"step {i}/8") for i in range(8)]
    cuts = iter([3, 6, 8])

    def growing(since_time: str | None, follow: bool) -> Iterator[str]:
        cut = next(cuts, 8)
        yield from since(second[:cut], since_time)
        if follow:
            raise UNREACHABLE

    third = (*TRAIN[:1], pod("Failed", begin=20, end=24, code=1), pod("Succeeded", begin=30, end=40, code=0))
    last = MadeWorkflow(folds=1).done("prepare").dag(0).stage("train", "Succeeded", *third, fold=0)
    logs = LOGS | {
        pod_of("train", 2, 0): growing,
        pod_of("train", 3, 0): [stamped(30, "resumed"), stamped(31, "step 8/8")],
    }
    api = ScriptedApi([[preempted().body()], [UNREACHABLE], [last.body("Succeeded")]], logs)
    lines = shown(api, LogOptions(follow=True, stage="train"))[0].splitlines()
    # Each pod has its own thread: only the order within an attempt is sure here.
    assert [line for line in lines if "train/2" in line] == [f"fold0 train/2 | step {i}/8" for i in range(8)]
    assert [line for line in lines if "train/2" not in line] == [
        "fold0 train/3 | resumed",
        "fold0 train/3 | step 8/8",
    ]


def test_following_an_ended_workflow_is_reading_it() -> None:
    body = finished()
    logs = {pod_of("gate"): [stamped(30, "PASS")]}
    out, _ = shown(ScriptedApi([[body]], logs), LogOptions(follow=True, stage="gate"))
    assert out == "gate/1 | PASS\n"


def test_an_error_while_following_ends_it() -> None:
    denied = InputError("not allowed to watch workflows", where="permission")
    api = ScriptedApi([[preempted().body()], [denied]], LOGS)
    with pytest.raises(InputError, match="not allowed to watch"):
        show_logs(
            api, NAME, LogOptions(follow=True, stage="prepare"), io.StringIO(), io.StringIO(), api.sleep
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["logs", "x", "--attempt", "0"], "--attempt: '0' is no attempt; give a number from 1, or all"),
        (["logs", "x", "--tail=-1"], "--tail: is below 0"),
        (["logs", "x", "--since", "soon"], "--since: 'soon' is no duration"),
        (["status", "--watch"], "options: --watch follows one workflow, in words; name one workflow"),
        (["status", "x", "--watch", "--json"], "leave --json or --watch out"),
        (["status", "--limit", "0"], "--limit: is below 1"),
    ],
)
def test_bad_options_are_one_line_before_any_server_is_asked(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["logs", "status"])
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"walkforward {command} @latest" in capsys.readouterr().out
