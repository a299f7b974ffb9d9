"""The first lines of a fold's training log: what runs, on what, and how often it will see its window."""

import platform

import numpy as np
import torch

from trainer.config import Config
from trainer.learn.compile_cache import arch_of
from trainer.learn.journal import Journal
from trainer.learn.tiles import count_decisions
from trainer.market.tape import Tape

# From about 250 passes on an agent begins to trade its window's noise (docs/decisions/training-length.md).
MOST_PASSES = 1000


def write_header(journal: Journal, config: Config, code_sha: str, tape: Tape) -> None:
    """Writes them; warns of a training that is too long for its window. Reads the tape's segments only."""
    device = tape.ts_ns.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    journal.header(config, code_sha, versions, name, arch_of(device), config.learn.seed)
    decisions = count_decisions(tape, int(tape.anchors.min()))
    walked = config.run.n_steps * config.learn.n_backtests
    passes = walked / max(decisions, 1)
    told = f"{decisions} decisions, passed over {passes:.3g} times in {config.run.n_steps} steps"
    journal.write(f"window: {told}")
    if passes > MOST_PASSES:
        fitting = max(1, MOST_PASSES // 4 * decisions // config.learn.n_backtests)
        journal.warn(
            f"the window has {told}: an agent learns so few by heart. "
            f"Give more data, or about --n-steps {fitting}"
        )
