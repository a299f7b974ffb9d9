"""A stage ends with the runner that started it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from trainer.parent import PARENT_VARIABLE, stop_with_parent

CHILD = (
    "import sys, time; from trainer.parent import stop_with_parent; stop_with_parent(0.05);"
    "print('up', flush=True); time.sleep(30)"
)
# Starts the child with its own process id in the variable, says the child's id, and waits to be killed.
PARENT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}],
                         env={{**os.environ, {PARENT_VARIABLE!r}: str(os.getpid())}},
                         stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(30)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that nobody reaps in this container is dead for our purpose.
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_child_gets_sigterm_when_its_runner_was_killed_outright() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(child), "the orphan went on working"


def test_nothing_is_watched_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.delenv(PARENT_VARIABLE, raising=False)
    before = threading.active_count()
    stop_with_parent()
    assert threading.active_count() == before
