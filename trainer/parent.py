"""A stage that a local runner started ends with its runner, however that ended: no orphan works on.

Without it a trainer whose runner got SIGKILL would hold the run's lock, or die at its next line of output
without having saved. In a container nothing sets the variable: there the pod is what ends.
"""

import os
import signal
import threading
import time

PARENT_VARIABLE = "ALPHA_RL_STOP_WITH_PARENT"
"""Process id of the runner to stop with; set by the local runner for its stages."""


def stop_with_parent(poll_s: float = 0.2) -> None:
    """Sends this process SIGTERM, as its runner would have, once the process the variable names is gone."""
    named = os.environ.get(PARENT_VARIABLE, "")
    if not named.isdigit():
        return

    def watch() -> None:
        while os.getppid() == int(named):
            time.sleep(poll_s)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="stop-with-parent", daemon=True).start()
