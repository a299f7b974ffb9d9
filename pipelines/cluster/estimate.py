"""How long a run will take, from finished runs of the same template; never a guess.

Training scales with its steps. Only runs of the same lanes, preset, data and GPU pool say anything about it.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipelines.cluster.api import MANAGED_LABEL, Body, WorkflowApi
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.stages import StageRun, WorkflowRun
from pipelines.plan import EVALUATE, GATE, PREPARE, TRAIN
from trainer.errors import InputError

# A stage of a run with another value of these takes another time, nobody knows which.
COMPARED = ("n-backtests", "per-capacity", "preset", "market", "mbp10-data-dir", "config", "gpu-pool")
NEWEST = 20


@dataclass(frozen=True)
class Estimate:
    """Seconds of each stage (train and evaluate: of one fold), and the number of runs they come from."""

    prepare_s: float
    train_s: float
    evaluate_s: float
    gate_s: float
    folds: int
    num_runs: int

    @property
    def at_once_s(self) -> float:
        """Wall time when all folds train at the same time."""
        return self.prepare_s + self.train_s + self.evaluate_s + self.gate_s

    @property
    def one_by_one_s(self) -> float:
        """Wall time when one fold follows the other."""
        return self.prepare_s + self.folds * (self.train_s + self.evaluate_s) + self.gate_s

    def __str__(self) -> str:
        basis = f"from {self.num_runs} finished run{'s' if self.num_runs > 1 else ''}"
        fold = f"{duration(self.train_s)} of training a fold"
        if self.folds == 1:
            return f"{duration(self.at_once_s)} ({fold}; {basis})"
        return (
            f"{duration(self.at_once_s)} if all {self.folds} folds run at once, "
            f"{duration(self.one_by_one_s)} one by one ({fold}; {basis})"
        )


def estimate(api: WorkflowApi, template: str, values: Mapping[str, str]) -> Estimate | None:
    """From the newest comparable runs; None where there is none. values: all parameters of the run.

    Raises InputError where the cluster cannot be asked.
    """
    if not all(values.get(name, "").isdecimal() for name in ("n-steps", "folds")):
        return None  # a template of another kind
    # Argo's label for the template is only on workflows that its own command or server made.
    bodies = [body for body in api.workflows(MANAGED_LABEL) if _template_of(body) == template]
    runs = [run for run in _first_of_their_run(bodies) if _comparable(run, values)][:NEWEST]
    if not runs:
        return None
    steps, folds = int(values["n-steps"]), int(values["folds"])
    train = [
        seconds / int(run.parameters["n-steps"]) for run in runs for seconds in _seconds(run, TRAIN.name)
    ]
    evaluate = [
        seconds * (int(run.parameters["folds"]) + 1)
        for run in runs
        for seconds in _seconds(run, EVALUATE.name)
    ]
    prepare, gate = ([s for run in runs for s in _seconds(run, stage.name)] for stage in (PREPARE, GATE))
    if not train or not evaluate or not prepare:
        return None
    return Estimate(
        prepare_s=statistics.median(prepare),
        train_s=statistics.median(train) * steps,
        # One of folds + 1 windows of the data is replayed.
        evaluate_s=statistics.median(evaluate) / (folds + 1),
        gate_s=statistics.median(gate) if gate else 0.0,
        folds=1 if int(values.get("fold-idx", "-1")) >= 0 else folds,
        num_runs=len(runs),
    )


def _template_of(body: Body) -> str:
    return str((body["spec"].get("workflowTemplateRef") or {}).get("name", ""))


def _first_of_their_run(newest_first: Iterable[Body]) -> list[WorkflowRun]:
    """Newest first, without those that found a part of their work done by an earlier workflow."""
    found: dict[str, WorkflowRun] = {}
    for body in newest_first:
        try:
            run = workflow_run(body)
        except InputError:
            continue  # its nodes cannot be read here; the others can
        found.pop(run.run_id, None)
        found[run.run_id] = run
    return list(found.values())


def _comparable(run: WorkflowRun, values: Mapping[str, str]) -> bool:
    done = run.num_folds_done > 0 and run.ended
    sized = all(run.parameters.get(name, "").isdecimal() for name in ("n-steps", "folds"))
    return done and sized and all(run.parameters.get(name) == values.get(name) for name in COMPARED)


def _seconds(run: WorkflowRun, name: str) -> list[float]:
    """Time that the pods of each succeeded stage of that name existed, all attempts together.

    Not from the start of the stage: it waits for the pool's semaphore first.
    """
    return [
        sum(
            (attempt.finished - attempt.started).total_seconds()
            for attempt in stage.attempts
            if attempt.started is not None and attempt.finished is not None
        )
        for stage in run.stages
        if stage.stage == name and _worked(stage)
    ]


def _worked(stage: StageRun) -> bool:
    return bool(stage.attempts) and (stage.phase == "Succeeded" or stage.gave_verdict)


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
