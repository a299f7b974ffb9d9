"""Fixtures shared by all tests."""

import os
import signal
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell's background job ignores Ctrl-C, and so would the children that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Directory of real order-book files; the test is skipped where it is absent."""
    path = Path(os.environ.get("ALPHA_RL_DATA", REPOSITORY.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"real order-book files are absent ({path}); set ALPHA_RL_DATA to their directory")
    return path
