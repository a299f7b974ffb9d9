"""Lines of logs: each once whatever breaks, and merged by time."""

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cluster.merging import SECOND_NS, LogLine, Seen, log_line, merged, time_ns

BEGAN_NS = 1_796_000_000 * SECOND_NS


@pytest.mark.parametrize(
    ("time", "ns"),
    [
        ("1970-01-01T00:00:01Z", SECOND_NS),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.000000001Z", SECOND_NS + 1),
        ("1970-01-01T01:00:01.25+01:00", 1_250_000_000),
        ("2026-11-30T03:21:06.123456789Z", 1_796_008_866_123_456_789),
    ],
)
def test_a_time_is_read_to_the_nanosecond(time: str, ns: int) -> None:
    assert time_ns(time) == ns


@pytest.mark.parametrize("text", ["", "unable", "2026-11-30", "2026-11-30T03:21:06", "2026-11-30T03:21:06.Z"])
def test_other_text_is_no_time(text: str) -> None:
    assert time_ns(text) is None


def test_a_line_keeps_its_text_and_words_of_the_kubelet_are_none() -> None:
    assert log_line("1970-01-01T00:00:01Z a  b") == LogLine(SECOND_NS, "1970-01-01T00:00:01Z", "a  b")
    assert log_line("1970-01-01T00:00:01Z") == LogLine(SECOND_NS, "1970-01-01T00:00:01Z", "")
    assert log_line("unable to retrieve container logs for containerd://1") is None


def answer(log: list[LogLine], since_time: str | None) -> list[LogLine]:
    """What a kubelet answers: the log from a whole second on, in the order of its file."""
    from_ns = 0 if since_time is None else time_ns(since_time) or 0
    return [line for line in log if line.ns >= from_ns]


@st.composite
def logs(draw: st.DrawFn, *, unique: bool = False) -> list[LogLine]:
    """Few different times, some equal to the nanosecond, some out of order; texts that repeat."""
    steps = draw(st.lists(st.sampled_from([0, 0, 1, SECOND_NS // 4, SECOND_NS, 5 * SECOND_NS]), max_size=40))
    lines, at_ns = [], BEGAN_NS
    for i, step in enumerate(steps):
        at_ns += step
        late_ns = draw(st.sampled_from([0, 0, 0, SECOND_NS // 4, SECOND_NS]))
        text = str(i) if unique else draw(st.sampled_from(["a", "b"]))
        lines.append(LogLine(at_ns - late_ns, "", text))
    return lines


@given(logs(), st.data())
def test_no_line_is_lost_or_doubled_wherever_the_stream_is_cut(
    log: list[LogLine], data: st.DataObject
) -> None:
    seen, got = Seen(), list[LogLine]()
    for written in sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=6))):
        reply = answer(log[:written], seen.since_time)
        got += seen.new(islice(reply, data.draw(st.integers(0, len(reply)))))
    got += seen.new(answer(log, seen.since_time))
    assert got == log
    assert not seen.gap


@given(logs(), st.data())
def test_a_reader_that_stops_in_the_middle_goes_on_there(log: list[LogLine], data: st.DataObject) -> None:
    seen, got = Seen(), list[LogLine]()
    while len(got) < len(log):
        taken = data.draw(st.integers(1, len(log)))
        got += islice(seen.new(answer(log, seen.since_time)), taken)
    assert got == log


@given(logs(unique=True), st.data())
def test_after_a_rotation_nothing_is_doubled_and_a_loss_is_said(
    log: list[LogLine], data: st.DataObject
) -> None:
    seen = Seen()
    read = data.draw(st.integers(0, len(log)))
    first_kept = data.draw(st.integers(0, len(log)))
    got = list(seen.new(answer(log[:read], None)))
    got += seen.new(answer(log[first_kept:], seen.since_time))
    assert got == log[:read] + log[max(read, first_kept) :]
    if first_kept < read:
        assert not seen.gap
    elif read > 0 and got[read:]:
        # Also when exactly the read part was thrown away: nobody can tell that from a loss.
        assert seen.gap


def test_a_server_that_answers_more_than_was_asked_doubles_nothing() -> None:
    log = [LogLine(BEGAN_NS + i * SECOND_NS, "", str(i)) for i in range(10)]
    seen = Seen()
    assert list(seen.new(log[:8])) == log[:8]
    assert seen.since_time == "2026-11-30T00:53:25Z"
    assert list(seen.new(log)) == log[8:]
    assert not seen.gap


def test_memory_is_that_of_the_last_seconds() -> None:
    seen = Seen()
    lines = (LogLine(BEGAN_NS + i * SECOND_NS // 10, "", "x") for i in range(100_000))
    assert sum(1 for _ in seen.new(lines)) == 100_000
    assert len(seen._recent) <= 31


def test_only_lines_since_the_given_time_are_asked_for() -> None:
    seen = Seen(since_ns=1_796_008_866 * SECOND_NS + 5)
    assert seen.since_time == "2026-11-30T03:21:06Z"
    assert Seen().since_time is None


@given(st.lists(st.lists(st.integers(0, 30)), max_size=5))
def test_merging_is_sorting_when_each_log_is_sorted(times: list[list[int]]) -> None:
    parts = [sorted(part) for part in times]
    sources = [
        (str(i), (part[0] if part else 0) * SECOND_NS, (LogLine(s * SECOND_NS, "", "") for s in part))
        for i, part in enumerate(parts)
    ]
    got = [(line.ns // SECOND_NS, label) for label, line in merged(sources)]
    assert got == sorted((second, str(i)) for i, part in enumerate(parts) for second in part)


def test_merging_keeps_the_order_of_each_log() -> None:
    late = [LogLine(5, "", "first"), LogLine(4, "", "second"), LogLine(6, "", "third")]
    other = [LogLine(4, "", "other")]
    got = [line.text for _, line in merged([("a", 0, iter(late)), ("b", 0, iter(other))])]
    assert got == ["other", "first", "second", "third"]


def test_a_log_is_opened_only_when_its_time_comes() -> None:
    opened = []

    def source(name: str, first_s: int) -> Iterator[LogLine]:
        opened.append(name)
        yield LogLine(first_s * SECOND_NS, "", name)
        yield LogLine((first_s + 100) * SECOND_NS, "", name)

    lines = merged([(n, s * SECOND_NS, source(n, s)) for n, s in (("a", 0), ("b", 50), ("c", 1000))])
    next(lines)
    assert opened == ["a"]
    next(lines)
    assert opened == ["a", "b"]
    assert [line.text for _, line in lines] == ["a", "b", "c", "c"]
