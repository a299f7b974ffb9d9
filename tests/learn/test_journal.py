"""The training log: exact records across resumes, grep-able lines, progress for Argo."""

import io
import json
import re
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.errors import InputError
from trainer.learn.journal import LINE_METRICS, Journal
from trainer.learn.records import RECORDS_FILE, read_records
from trainer.presets import demo

NAMES = (*LINE_METRICS, "l_aux")
STEP_LINE = re.compile(
    r"^step \d+/\d+ wr=\S+ hold=\S+% ent=\S+ l_q=\S+ l_pi=\S+ l_v=\S+ lr_q=\S+ sps=\S+ eta=\S+$"
)


class Clock:
    """Seconds that pass only when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def rows(first_step: int, num: int) -> np.ndarray:
    """Records `[num, M] float32` that depend on the step alone."""
    steps = np.arange(first_step, first_step + num, dtype=np.float32)[:, None]
    return np.concatenate([0.1 * steps + column for column in range(len(NAMES))], axis=1, dtype=np.float32)


def journal(fold: Path, **options) -> Journal:
    return Journal(fold, **{"total_steps": 20, "log_every": 5, "stream": io.StringIO(), **options})


def steps_in(fold: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (fold / RECORDS_FILE).read_text().splitlines()]


def test_every_step_has_one_record_and_every_fifth_a_line(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream) as log:
        log.drain(rows(1, 7), NAMES, 1)
        log.drain(rows(8, 13), NAMES, 8)
    assert steps_in(tmp_path) == list(range(1, 21))
    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["5/20", "10/20", "15/20", "20/20"]
    assert [line for line in lines if not STEP_LINE.match(line)] == []


def test_documented_grep_finds_each_step_line_and_no_other(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream) as log:
        log.header(demo(), "abc", {"torch": "2.11"}, "cpu", "cpu", 0)
        log.drain(rows(1, 20), NAMES, 1)
        log.checkpoint_saved(Path("fold0/checkpoint-20.bin"), 123, 4.5)
    found = [line for line in stream.getvalue().splitlines() if re.search("step.*wr=", line)]
    assert len(found) == 4
    assert "\r" not in stream.getvalue()


def test_last_step_has_a_line_although_not_a_multiple(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream, total_steps=7) as log:
        log.drain(rows(1, 7), NAMES, 1)
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["5/7", "7/7"]


def test_line_shows_the_documented_formats(tmp_path):
    stream, clock = io.StringIO(), Clock()
    record = np.array([[0.561, 0.412, 1.93, 0.5, 0.25, 0.125, 1e-3, 0.0]], np.float64)
    with journal(tmp_path, stream=stream, total_steps=25_000, log_every=1200, clock=clock) as log:
        clock.now_s = 60.0
        log.drain(np.repeat(record, 1200, axis=0), NAMES, 1)
    assert stream.getvalue() == (
        "step 1200/25000 wr=0.561 hold=41.2% ent=1.93 l_q=0.5 l_pi=0.25 l_v=0.125 lr_q=1.00e-03 "
        "sps=20 eta=19m50s\n"
    )


def test_rate_counts_from_the_resumed_step(tmp_path):
    stream, clock = io.StringIO(), Clock()
    with journal(tmp_path, stream=stream, total_steps=7210, log_every=10, clock=clock) as log:
        log.resumed(0, "none")
        log.drain(rows(1, 3600), NAMES, 1)
    with journal(tmp_path, stream=stream, total_steps=7210, log_every=10, clock=clock, attempt=2) as log:
        log.resumed(3600, "checkpoint")
        clock.now_s += 10.0
        log.drain(rows(3601, 10), NAMES, 3601)
    assert "step 3610/7210" in stream.getvalue()
    assert stream.getvalue().endswith("sps=1 eta=1h00m\n")


def test_missing_value_is_nan_in_the_line_and_null_in_the_record(tmp_path):
    stream = io.StringIO()
    record = rows(1, 1)
    record[0, NAMES.index("wr")] = np.nan
    record[0, NAMES.index("l_aux")] = np.inf
    with journal(tmp_path, stream=stream, log_every=1) as log:
        log.drain(record, NAMES, 1)
    assert " wr=nan " in stream.getvalue()
    written = json.loads((tmp_path / RECORDS_FILE).read_text(), parse_constant=pytest.fail)
    assert (written["wr"], written["l_aux"]) == (None, None)
    assert np.isnan(read_records(tmp_path, ["wr"])["wr"]).all()


def test_attempt_log_holds_what_the_stream_got(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream, attempt=3) as log:
        log.drain(rows(1, 20), NAMES, 1)
        log.warn("disk\nnearly full")
    assert (tmp_path / "logs" / "attempt-3.log").read_text() == stream.getvalue()
    assert stream.getvalue().endswith("warning: disk nearly full\n")


def test_header_names_config_code_versions_device_arch_and_seed(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream) as log:
        log.header(demo(), "abc123", {"python": "3.11", "torch": "2.11"}, "cuda (H200)", "sm_90", 7)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith(f"config: preset=demo digest={demo().digest()} {{")
    assert json.loads(lines[0].split(" ", 3)[3])["learn"]["n_backtests"] == 64
    assert lines[1:] == [
        "code: abc123",
        "versions: python=3.11 torch=2.11",
        "device: cuda (H200)",
        "GPU arch: sm_90",
        "seed: 7",
    ]


def test_checkpoint_line_gives_path_bytes_and_milliseconds(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream) as log:
        log.checkpoint_saved(Path("runs/a/fold0/checkpoint-5000.bin"), 67_108_864, 81.6)
    assert stream.getvalue() == "checkpoint saved: runs/a/fold0/checkpoint-5000.bin (67108864 bytes, 82 ms)\n"


def test_resumed_run_leaves_the_bytes_of_a_whole_one(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with journal(whole) as log:
        log.drain(rows(1, 20), NAMES, 1)
    with journal(broken) as log:
        log.drain(rows(1, 13), NAMES, 1)
    with (broken / RECORDS_FILE).open("ab") as file:
        file.write(b'{"step":14,"wr":0.')  # torn by a kill
    stream = io.StringIO()
    with journal(broken, attempt=2, stream=stream) as log:
        log.resumed(10, "checkpoint-10.bin")
        log.drain(rows(11, 10), NAMES, 11)
    assert stream.getvalue().startswith(
        "resumed from step 10 (checkpoint-10.bin) resumed_from_step=10 attempt=2\nstep 15/20 "
    )
    assert (broken / RECORDS_FILE).read_bytes() == (whole / RECORDS_FILE).read_bytes()


def test_start_from_nothing_drops_records_of_a_crashed_attempt(tmp_path):
    for attempt in (1, 2):
        with journal(tmp_path, attempt=attempt) as log:
            log.drain(rows(1, 4), NAMES, 1)
    assert steps_in(tmp_path) == [1, 2, 3, 4]


def test_resume_from_another_run_warns_of_the_missing_records(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream) as log:
        log.resumed(10, "other/checkpoint-10.bin")
        log.drain(rows(11, 2), NAMES, 11)
    assert "has no records of the steps 1 to 10" in stream.getvalue()
    assert steps_in(tmp_path) == [11, 12]


# Files on a busy disk take what they take: no deadline.
@settings(deadline=None, max_examples=50)
@given(written=st.integers(0, 20), resume=st.integers(0, 20), torn=st.booleans())
def test_resume_keeps_exactly_the_records_up_to_the_checkpoint(tmp_path_factory, written, resume, torn):
    fold = tmp_path_factory.mktemp("fold")
    with journal(fold) as log:
        log.drain(rows(1, written), NAMES, 1)
    if torn:
        whole = (fold / RECORDS_FILE).read_bytes()
        (fold / RECORDS_FILE).write_bytes(whole[:-3])
    with journal(fold) as log:
        log.resumed(resume, "checkpoint")
    complete = max(0, written - 1) if torn else written
    assert steps_in(fold) == list(range(1, min(complete, resume) + 1))


# Files on a busy disk take what they take: no deadline.
@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_float32_values_survive_the_record(tmp_path_factory, values):
    fold = tmp_path_factory.mktemp("fold")
    records = np.zeros((len(values), len(NAMES)), np.float32)
    records[:, 0] = values
    with journal(fold, log_every=1000, total_steps=1000) as log:
        log.drain(records, NAMES, 1)
    assert read_records(fold, ["wr"])["wr"].astype(np.float32).tolist() == records[:, 0].tolist()


def test_argo_progress_is_written_at_the_resume_and_after_each_block(tmp_path, monkeypatch):
    progress = tmp_path / "progress"
    monkeypatch.setenv("ARGO_PROGRESS_FILE", str(progress))
    with journal(tmp_path / "fold0") as log:
        assert not progress.exists()
        log.resumed(10, "checkpoint")
        assert progress.read_text() == "10/20\n"
        log.drain(rows(11, 3), NAMES, 11)
        assert progress.read_text() == "13/20\n"


def test_unwritable_progress_file_warns_once_and_training_goes_on(tmp_path):
    stream = io.StringIO()
    with journal(tmp_path, stream=stream, progress_file=tmp_path / "absent" / "progress") as log:
        log.drain(rows(1, 2), NAMES, 1)
        log.drain(rows(3, 2), NAMES, 3)
    assert stream.getvalue().count("progress cannot be written") == 1
    assert steps_in(tmp_path) == [1, 2, 3, 4]


@pytest.mark.parametrize("first_step", [0, 2, 5])
def test_skipped_or_repeated_step_is_refused(tmp_path, first_step):
    with journal(tmp_path) as log:
        log.drain(rows(1, 3), NAMES, 1)
        with pytest.raises(ValueError, match=f"step {first_step} cannot follow step 3"):
            log.drain(rows(first_step, 1), NAMES, first_step)
    assert steps_in(tmp_path) == [1, 2, 3]


def test_records_that_do_not_fit_the_names_are_refused(tmp_path):
    with journal(tmp_path) as log:
        with pytest.raises(ValueError, match="names count 7"):
            log.drain(rows(1, 1), NAMES[:-1], 1)
        with pytest.raises(ValueError, match=r"needs the metrics \['wr'\]"):
            log.drain(rows(1, 1)[:, 1:], NAMES[1:], 1)


def test_run_directory_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "fold0").write_text("")
    with pytest.raises(InputError, match=r"fold0: the training log cannot be written"):
        journal(tmp_path / "fold0")


@pytest.fixture
def small_disk():
    """No file of this process may grow beyond 100 bytes, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_line(log):
    log.warn("x" * 200)


def write_records(log):
    log.drain(rows(1, 4), NAMES, 1)


@pytest.mark.parametrize("write", [write_line, write_records])
def test_full_disk_is_one_clear_error_and_leaves_a_log_to_go_on_from(tmp_path, small_disk, write):
    log = journal(tmp_path)
    with pytest.raises(InputError, match=r"cannot be written .* run the same command to go on"):
        write(log)
    with pytest.raises(InputError, match="cannot be written"):
        log.close()
    with journal(tmp_path, attempt=2) as log:
        log.resumed(0, "nothing")
    assert steps_in(tmp_path) == []


def test_reading_without_a_log_or_an_unknown_metric_is_one_clear_error(tmp_path):
    with pytest.raises(InputError, match="no training log; train this fold first"):
        read_records(tmp_path, ["wr"])
    with journal(tmp_path) as log:
        log.drain(rows(1, 2), NAMES, 1)
    with pytest.raises(InputError, match="record 1 lacks sharpe"):
        read_records(tmp_path, ["sharpe"])
