"""Code sha, termination message and the count of crashes at one place."""

import json
import socket
import subprocess
from datetime import datetime

import pytest

from trainer.errors import CrashedTooOftenError, ExitCode, InputError
from trainer.learn.progress import ATTEMPTS_FILE, STARTS_FILE, CrashCounter, code_sha, termination_message


def test_termination_message_is_one_line_of_an_existing_file(tmp_path):
    log = tmp_path / "termination-log"
    log.touch()
    assert termination_message("file @ 12:\n  bad record", log)
    assert log.read_text() == "file @ 12: bad record"


def test_termination_message_outside_a_container_makes_no_file(tmp_path):
    log = tmp_path / "termination-log"
    assert not termination_message("anything", log)
    assert not log.exists()


def test_termination_message_keeps_whole_characters_within_the_limit(tmp_path):
    log = tmp_path / "termination-log"
    log.touch()
    assert termination_message("a" + "é" * 4000, log)
    assert log.read_bytes().decode() == "a" + "é" * 2047


def test_termination_message_that_cannot_be_written_does_not_raise(tmp_path):
    assert not termination_message("anything", tmp_path)


def git(directory, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(directory), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A git work tree with one commit, and no CODE_SHA in the environment."""
    monkeypatch.delenv("CODE_SHA", raising=False)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "--no-verify", "-m", "one")
    return tmp_path


def test_code_sha_is_the_head_of_the_source_tree(repository):
    assert code_sha(repository) == git(repository, "rev-parse", "HEAD")


def test_code_sha_of_the_environment_comes_first(repository, monkeypatch):
    monkeypatch.setenv("CODE_SHA", "feedc0de")
    assert code_sha(repository) == "feedc0de"


def test_code_sha_inside_another_projects_tree_is_unknown(repository):
    installed = repository / "venv" / "site-packages"
    installed.mkdir(parents=True)
    assert code_sha(installed) == "unknown"


def test_code_sha_without_git_is_unknown(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert code_sha(repository) == "unknown"


def test_code_sha_of_a_missing_tree_is_unknown(repository):
    assert code_sha(repository / "absent") == "unknown"


def start(fold, step):
    """One start of the trainer as a fresh process sees it."""
    return CrashCounter(fold).start(step)


def test_every_start_leaves_its_number_and_the_step_it_goes_on_from(tmp_path):
    for step in (0, 100, 100):
        start(tmp_path, step)
    lines = [json.loads(line) for line in (tmp_path / ATTEMPTS_FILE).read_text().splitlines()]
    assert [(line["attempt"], line["resumed_from_step"]) for line in lines] == [(1, 0), (2, 100), (3, 100)]
    assert {line["host"] for line in lines} == {socket.gethostname()}
    assert all(datetime.fromisoformat(line["at"]).tzinfo for line in lines)


def test_third_crash_at_the_same_place_ends_the_retries(tmp_path):
    assert [start(tmp_path, 100) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(CrashedTooOftenError, match="3 crashes in a row behind step 100") as caught:
        start(tmp_path, 100)
    assert caught.value.exit_code == ExitCode.CRASHED_TOO_OFTEN == 70


def test_crash_after_a_new_checkpoint_counts_from_one_again(tmp_path):
    assert [start(tmp_path, step) for step in (0, 0, 0, 100, 100)] == [1, 2, 3, 4, 5]
    with pytest.raises(CrashedTooOftenError):
        start(tmp_path, 100)


def test_resume_from_an_older_checkpoint_is_no_progress(tmp_path):
    assert [start(tmp_path, step) for step in (200, 200, 100)] == [1, 2, 3]
    with pytest.raises(CrashedTooOftenError):
        start(tmp_path, 100)


def test_interruptions_are_no_crashes(tmp_path):
    for attempt in range(1, 11):
        assert start(tmp_path, 100) == attempt
        CrashCounter(tmp_path).finish()


def test_interruption_between_crashes_does_not_clear_them(tmp_path):
    start(tmp_path, 100)
    start(tmp_path, 100)  # the first crashed
    start(tmp_path, 100)  # the second crashed
    CrashCounter(tmp_path).finish()
    assert start(tmp_path, 100) == 4
    with pytest.raises(CrashedTooOftenError):
        start(tmp_path, 100)


def test_start_after_the_refusal_gets_all_its_tries(tmp_path):
    for _ in range(3):
        start(tmp_path, 0)
    with pytest.raises(CrashedTooOftenError):
        start(tmp_path, 0)
    assert [start(tmp_path, 0) for _ in range(3)] == [4, 5, 6]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"attempt": 3}'])
def test_broken_count_does_not_stop_the_run(tmp_path, content):
    (tmp_path / STARTS_FILE).write_text(content)
    assert start(tmp_path, 0) == 1


def test_directory_that_is_a_file_is_one_clear_error(tmp_path):
    (tmp_path / "fold0").write_text("")
    with pytest.raises(InputError, match="the start cannot be noted"):
        start(tmp_path / "fold0", 0)
