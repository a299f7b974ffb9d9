"""Parsed log lines and what the two displays show."""

import io
from itertools import count

import pytest
from rich.console import Console

from pipelines.progress import LiveDisplay, PlainDisplay, Progress, display_for, parse_progress

STEP = "step 1200/25000 wr=0.561 hold=41.2% ent=1.93 l_q=0.1 lr_q=0.001 sps=9.5 eta=41m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_line_gives_progress_and_the_shown_fields() -> None:
    fields = {"wr": "0.561", "sps": "9.5", "eta": "41m"}
    assert parse_progress(STEP) == Progress(1200, 25000, fields)


def test_prepare_reports_progress_without_fields() -> None:
    assert parse_progress("progress 3/17") == Progress(3, 17)


@pytest.mark.parametrize(
    "line", ["", "resumed from step 5 (x)", "a step 1/2 wr=1", "step one/two", "progress"]
)
def test_other_lines_are_no_progress(line: str) -> None:
    assert parse_progress(line) is None


def test_plain_lines_are_prefixed_whole_and_without_carriage_returns() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream)
    display.started("fold0 train")
    display.line("fold0 train", STEP)
    display.ended("fold0 train", "done")
    display.close()
    assert stream.getvalue() == f"fold0 train | started\nfold0 train | {STEP}\nfold0 train | done\n"


@pytest.mark.parametrize(("line_s", "tenths"), [(1.0, range(11)), (0.25, range(0, 11, 4)), (0.0, [0])])
def test_plain_progress_is_thinned_to_tenths_of_each_piece_of_work_and_in_time(
    line_s: float, tenths: list[int]
) -> None:
    stream, lines_so_far = io.StringIO(), count()
    display = PlainDisplay(stream, lambda: next(lines_so_far) * line_s)
    for work in ("market", "cache"):
        for done in range(101):
            display.line("prepare", f"progress {done}/100 {work}")
    lines = stream.getvalue().splitlines()
    wanted = [
        f"prepare | progress {10 * tenth}/100 {work}" for work in ("market", "cache") for tenth in tenths
    ]
    assert lines == wanted


def test_the_live_table_shows_a_row_a_stage_and_keeps_failures() -> None:
    stream = Terminal()
    display = LiveDisplay(Console(file=stream, width=120, force_terminal=True))
    display.started("fold0 train")
    display.line("fold0 train", STEP)
    display.ended("fold1 train", "failed (exit 2): no data")
    display.close()
    assert "1200/25000 (4 %)" in stream.getvalue()
    assert "wr=0.561" in stream.getvalue()
    assert "fold1 train | failed (exit 2): no data" in stream.getvalue()


def test_a_long_wait_leaves_the_other_columns_readable() -> None:
    stream = Terminal()
    display = LiveDisplay(Console(file=stream, width=80, force_terminal=True))
    display.started("fold0 train", ago_s=100)
    display.line("fold0 train", STEP)
    display.waiting("fold1 train", "Unschedulable: " + "0/1 nodes are available " * 9)
    display.ended("prepare", "done", took_s=42)
    display.close()
    shown = stream.getvalue()
    assert "fold0 train  running  1200/25000 (4 %)  wr=0.561 sps=9.5 eta=41m  100 s" in shown
    assert "…" in shown.rpartition("fold1 train")[2]
    assert "42 s" in shown


def test_plain_lines_say_what_a_stage_waits_for_and_since_when_it_runs() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream)
    display.waiting("fold1 train", "no GPU")
    display.started("fold0 train", ago_s=61.2)
    assert stream.getvalue() == "fold1 train | waiting: no GPU\nfold0 train | started 61 s ago\n"


def test_live_only_where_both_streams_are_terminals() -> None:
    assert isinstance(display_for(Terminal(), io.StringIO()), PlainDisplay)
    assert isinstance(display_for(io.StringIO(), Terminal()), PlainDisplay)
    live = display_for(Terminal(), Terminal())
    live.close()
    assert isinstance(live, LiveDisplay)
