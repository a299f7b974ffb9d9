"""`walkforward data inspect`: the trainer inspects, since only the trainer reads data; this starts it."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pipelines.local import TRAINER_COMMAND
from trainer.errors import ExitCode
from trainer.parent import PARENT_VARIABLE

END_WAIT_S = 5.0  # an interrupted trainer puts the terminal in order


def inspect(
    location: Path | str,
    options: Mapping[str, object],
    *,
    json: bool,
    debug: bool,
    trainer_command: tuple[str, ...] = TRAINER_COMMAND,
) -> int:
    """Inspects data with the trainer's `options` by name, None left out; returns the trainer's exit code.

    The trainer writes to this process's own streams: only so does it know whether they are a terminal.
    """
    given = [
        (f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value is not None
    ]
    flags = ["--json"] * json + ["--debug"] * debug
    words = [
        *trainer_command,
        "inspect",
        *(word for pair in given for word in pair),
        *flags,
        "--",
        str(location),
    ]
    environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
    with subprocess.Popen(words, env=environment) as trainer:
        try:
            code = trainer.wait()
        except KeyboardInterrupt:
            # A terminal interrupts both; a signal to this process alone leaves the trainer to be ended.
            try:
                trainer.wait(END_WAIT_S)
            except subprocess.TimeoutExpired:
                trainer.terminate()
            return int(ExitCode.INTERRUPTED)
    return code if code >= 0 else 128 - code
