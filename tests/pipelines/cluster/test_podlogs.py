"""One pod's log across broken streams, restarts and the end of the pod."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.cluster.api import UnreachableError
from pipelines.cluster.merging import LogLine
from pipelines.cluster.podlogs import PodLog
from pipelines.cluster.snapshots import Alarm
from tests.pipelines.cluster.scripted_api import UNREACHABLE, ScriptedApi, since, stamped
from trainer.errors import InputError


class BreakingKubelet:
    """A pod that writes on between reads; each stream ends where the script says, cleanly or broken."""

    def __init__(self, lines: list[str], cuts: list[tuple[int, int, bool]]) -> None:
        self.lines, self.cuts, self.written = lines, cuts, 0

    @property
    def ended(self) -> bool:
        return not self.cuts

    def answer(self, since_time: str | None, follow: bool) -> Iterator[str]:
        if self.ended:
            yield from since(self.lines, since_time)
            return
        more, delivered, broken = self.cuts.pop(0)
        self.written = min(len(self.lines), self.written + more)
        yield from since(self.lines[: self.written], since_time)[:delivered]
        if broken:
            raise UNREACHABLE


def followed(kubelet: BreakingKubelet, notes: list[str]) -> list[LogLine]:
    api = ScriptedApi(logs={"p": kubelet.answer})
    log = PodLog(api, "w", "p")
    found = list(log.follow(lambda: kubelet.ended, Alarm(notes.append), api.sleep))
    assert log.gone == ""
    return found


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([0.0, 0.0, 0.1, 1.0, 4.0]), max_size=30),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.booleans()), max_size=8),
)
def test_every_line_once_wherever_streams_end(gaps: list[float], cuts: list[tuple[int, int, bool]]) -> None:
    at_s, lines = 0.0, []
    for gap in gaps:
        at_s += gap
        lines.append(stamped(at_s, "step"))
    assert [line.time + " step" for line in followed(BreakingKubelet(lines, cuts), [])] == lines


def test_an_outage_is_said_once_and_its_end() -> None:
    lines = [stamped(i, f"step {i}") for i in range(6)]
    notes: list[str] = []
    got = followed(BreakingKubelet(lines, [(3, 3, True), (0, 0, True), (0, 0, True), (3, 9, False)]), notes)
    assert [line.text for line in got] == [f"step {i}" for i in range(6)]
    assert notes[0] == "https://api: cannot connect: connection refused; trying again until it answers"
    assert notes[1].startswith("connected again after")
    assert len(notes) == 2


def test_a_single_break_is_not_worth_a_word() -> None:
    notes: list[str] = []
    followed(BreakingKubelet([stamped(1, "a")], [(1, 1, True)]), notes)
    assert notes == []


def test_only_the_last_seconds_are_read_again() -> None:
    asked = []

    def answer(since_time: str | None, follow: bool) -> Iterator[str]:
        asked.append((since_time, follow))
        return iter([stamped(7.5, "a")])

    ended = iter([False, True])
    log = PodLog(ScriptedApi(logs={"p": answer}), "w", "p")
    found = log.follow(lambda: next(ended), Alarm(lambda text: None), lambda seconds: None)
    assert [line.text for line in found] == ["a"]
    assert asked == [(None, True), ("2026-11-30T03:00:05Z", False)]


def test_a_pod_that_has_not_started_is_waited_for() -> None:
    api = ScriptedApi(logs={})
    tries = iter([False, False, True])

    def ended() -> bool:
        over = next(tries)
        if over:
            api.logs["p"] = [stamped(1, "a")]
        return over

    log = PodLog(api, "w", "p")
    assert [line.text for line in log.follow(ended, Alarm(lambda text: None), api.sleep)] == ["a"]


def test_a_pod_that_is_gone_says_why() -> None:
    log = PodLog(ScriptedApi(), "w", "p")
    assert list(log.follow(lambda: True, Alarm(lambda text: None))) == []
    assert log.gone == "cluster: no log of pod p; its pod was deleted"


def test_a_container_that_never_started_has_no_log_and_nothing_to_correct() -> None:
    def answer(since_time: str | None, follow: bool) -> Iterator[str]:
        what = 'container "main" in pod "p" is waiting to start: PodInitializing'
        raise InputError(what, where="get log of pod p", do="correct it and try again")
        yield ""

    log = PodLog(ScriptedApi(logs={"p": answer}), "w", "p")
    assert list(log.read(Alarm(lambda text: None))) == []
    assert log.gone == "no log: its main container did not start"


def test_the_kubelets_own_words_are_no_lines_but_the_reason() -> None:
    words = "unable to retrieve container logs for containerd://0123"
    log = PodLog(ScriptedApi(logs={"p": [words]}), "w", "p")
    assert list(log.read(Alarm(lambda text: None))) == []
    assert log.gone == f"p: {words}"
    mixed = PodLog(ScriptedApi(logs={"p": [stamped(1, "a"), words]}), "w", "p")
    assert [line.text for line in mixed.read(Alarm(lambda text: None))] == ["a"]
    assert mixed.gone == ""


def test_a_node_that_never_answers_is_given_up() -> None:
    def answer(since_time: str | None, follow: bool) -> Iterator[str]:
        raise UnreachableError("no route to host", where="https://api")
        yield ""

    api = ScriptedApi(logs={"p": answer})
    log = PodLog(api, "w", "p")
    assert list(log.read(Alarm(lambda text: None), api.sleep)) == []
    assert log.gone == "https://api: no route to host"
    assert 100 < sum(api.naps) < 200


def test_giving_up_one_pod_does_not_silence_the_next_outage() -> None:
    notes: list[str] = []
    alarm = Alarm(notes.append)
    api = ScriptedApi(logs={"p": lambda since_time, follow: broken()})
    for _ in range(2):
        list(PodLog(api, "w", "p").read(alarm, api.sleep))
    assert len(notes) == 2
    assert all("trying again" in note for note in notes)


def broken() -> Iterator[str]:
    raise UNREACHABLE
    yield ""
