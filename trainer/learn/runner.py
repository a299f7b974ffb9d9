"""Runs steps: plain on a CPU, compiled and captured in one CUDA graph on a GPU (GPU.md, SYSTEM.md section 8).

The mode is a function of the step alone, so a resumed run repeats it: uncaptured until the replay is surely
full, captured after. Capturing earlier once cost the documents a factor of 48.
"""

import os

import torch

from trainer.config import Config
from trainer.learn.captured import captured
from trainer.learn.learner import Learner
from trainer.learn.state import TrainState
from trainer.learn.step import Parts, step
from trainer.learn.tree import copy_into
from trainer.types import NUM_LEVELS


def capture_step(config: Config) -> int:
    """Completed steps after which the replay is full whatever the lanes did.

    Every decision becomes exactly one transition at most n steps later, so N / B + n steps suffice
    (65 at N 65,536, B 1,024, n 1: the 66th step is the first captured one).
    """
    return config.learn.per_capacity // config.learn.n_backtests + config.learn.n_step


def configure_device(device: torch.device) -> None:
    """Process-wide numerics: TF32 matmuls and deterministic kernels on a GPU, one thread on a CPU."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.set_float32_matmul_precision("high")
        from torch._inductor import config as inductor  # seconds to load, and only compiling needs it

        inductor.deterministic = True  # no choice of kernels by timing: a restart repeats the bits
        # Sums over the book's 10 levels become plain arithmetic: Triton 3.6 fails to compile 64-bit
        # reductions of that length fused with what surrounds them.
        inductor.unroll_reductions_threshold = 2 * NUM_LEVELS
    else:
        torch.set_num_threads(1)  # sums differ between thread counts, and folds run side by side


class Runner:
    """Advances a state in place. `state` keeps its tensors for the whole run, as a captured graph needs."""

    def __init__(self, learner: Learner, state: TrainState) -> None:
        self.learner, self.state = learner, state
        self.on_gpu = state.step.device.type == "cuda"
        run = learner.config.run
        self.parts = Parts()
        if self.on_gpu and run.use_compile:
            self.parts = Parts().compiled()
            for rows in learner.tape:  # folds and seeds differ in rows; one compilation serves them all
                torch._dynamo.mark_dynamic(rows, 0)
        self.completed = int(state.step)
        self._captures = self.on_gpu and run.use_graph
        self._graph: torch.cuda.CUDAGraph | None = None

    def advance(self) -> None:
        """One step."""
        if self._captures and self.completed >= capture_step(self.learner.config):
            if self._graph is None:
                self._graph = self._capture()
            self._graph.replay()
        else:
            copy_into(self.state, step(self.learner, self.state, self.parts))
        self.completed += 1

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Captures one step. Warm-up steps are discarded: they only write replay rows that it writes too."""
        return captured(
            lambda: copy_into(self.state, step(self.learner, self.state, self.parts)),
            warm_up=lambda: step(self.learner, self.state, self.parts),
        )
