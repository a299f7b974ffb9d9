"""`walkforward status`: the recent workflows, or one with its folds, attempts, progress and GPU time."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from pipelines.cluster.api import MANAGED_LABEL, Body, WorkflowApi
from pipelines.cluster.estimate import duration
from pipelines.cluster.gpu import AttemptLog, GpuTime, gpu_time
from pipelines.cluster.podlogs import PodLog
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.snapshots import Alarm
from pipelines.cluster.stages import Attempt, StageRun, WorkflowRun
from pipelines.cluster.verdict import verdict_of
from pipelines.plan import TRAIN
from pipelines.progress import Progress
from trainer.errors import ExitCode, InputError

# Enough to hide the servers' latency, few enough not to trouble them.
READERS = 8
# A person waits: a node that does not answer now counts as gone.
IMPATIENT_TRIES = 2


@dataclass(frozen=True)
class StageStatus:
    """A stage and what its newest attempt says of its progress."""

    run: StageRun
    progress: Progress | None


@dataclass(frozen=True)
class Status:
    """A workflow at one moment, with what only its logs tell."""

    run: WorkflowRun
    stages: tuple[StageStatus, ...]
    gpu: GpuTime
    now: datetime


def status_of(api: WorkflowApi, run: WorkflowRun, now: datetime) -> Status:
    """Reads the logs that say something: of running stages, and of every attempt at training."""
    wanted = {
        attempt.pod
        for stage in run.stages
        for attempt in stage.attempts
        if (stage.stage == TRAIN.name or not attempt.ended) and attempt.phase not in ("Pending", "Omitted")
    }
    with ThreadPoolExecutor(READERS) as pool:
        logs = dict(zip(wanted, pool.map(lambda pod: _log(api, run.name, pod), wanted), strict=True))
    gpu = GpuTime()
    for stage in run.stages:
        if stage.stage == TRAIN.name:
            gpu += gpu_time(stage.attempts, [_of(logs, a) for a in stage.attempts], run.gpus, now)
    return Status(run, tuple(StageStatus(stage, _progress(stage, logs)) for stage in run.stages), gpu, now)


def _log(api: WorkflowApi, workflow: str, pod: str) -> AttemptLog | None:
    log = PodLog(api, workflow, pod)
    found = AttemptLog().read(log.read(Alarm(lambda text: None), tries=IMPATIENT_TRIES))
    return None if log.gone else found


def _of(logs: dict[str, AttemptLog | None], attempt: Attempt) -> AttemptLog | None:
    """A pod that never started has an empty log."""
    return AttemptLog() if attempt.phase == "Pending" else logs.get(attempt.pod)


def _progress(stage: StageRun, logs: dict[str, AttemptLog | None]) -> Progress | None:
    """From the log's last line of progress, else what the pod told Argo (with a delay of up to a minute)."""
    if stage.last is None or (stage.ended and stage.stage != TRAIN.name):
        return None
    log = logs.get(stage.last.pod)
    if log is not None and log.last is not None:
        return log.last
    done, total = stage.last.progress or (0, 0)
    # Argo counts pods where none reports: 0/1 and 1/1 say nothing of the work.
    return Progress(done, total) if total > 1 else None


def show_status(api: WorkflowApi, body: Body, as_json: bool, stdout: TextIO) -> int:
    """One workflow, for people or as JSON; returns 0 whatever its state. Raises InputError."""
    from pipelines.cluster.tables import status_table

    status = status_of(api, workflow_run(body), datetime.now(UTC))
    if as_json:
        stdout.write(json.dumps(as_object(status), indent=2) + "\n")
    else:
        status_table(status, stdout)
    return int(ExitCode.DONE)


def show_recent(api: WorkflowApi, limit: int, as_json: bool, stdout: TextIO) -> int:
    """The newest workflows, one a row; returns 0. Raises InputError."""
    from pipelines.cluster.tables import recent_table

    runs = [_readable(body) for body in api.workflows(MANAGED_LABEL)[:limit]]
    if as_json:
        stdout.write(json.dumps([summary_object(run) for run in runs], indent=2) + "\n")
    else:
        recent_table(runs, datetime.now(UTC), api.namespace, stdout)
    return int(ExitCode.DONE)


def _readable(body: Body) -> WorkflowRun:
    """A list must not fail for one workflow whose nodes are elsewhere: it is shown without stages."""
    try:
        return workflow_run(body)
    except InputError:
        plain = {key: value for key, value in (body.get("status") or {}).items() if "ode" not in key}
        return workflow_run({**body, "status": plain})


def summary_object(run: WorkflowRun) -> dict[str, Any]:
    """A workflow without its stages, as JSON values; times in ISO 8601, durations in seconds."""
    verdict = verdict_of(run)
    return {
        "name": run.name,
        "namespace": run.namespace,
        "run_id": run.run_id,
        "phase": run.phase,
        "message": run.message,
        "created": _iso(run.created),
        "started": _iso(run.started),
        "finished": _iso(run.finished),
        "folds": len(run.folds),
        "folds_done": run.num_folds_done,
        "verdict": None if verdict is None else asdict(verdict),
    }


def as_object(status: Status) -> dict[str, Any]:
    """All that is known, as JSON values."""
    return {
        **summary_object(status.run),
        "gpu": {"used_s": status.gpu.used_s, "wasted_s": status.gpu.wasted_s},
        "stages": [_stage_object(stage) for stage in status.stages],
    }


def _stage_object(stage: StageStatus) -> dict[str, Any]:
    run, progress = stage.run, stage.progress
    return {
        "label": run.label,
        "stage": run.stage,
        "fold": run.fold,
        "state": run.state,
        "reason": run.reason,
        "started": _iso(run.started),
        "finished": _iso(run.finished if run.ended else None),
        "done": progress.done if progress else None,
        "total": progress.total if progress else None,
        **({name: progress.fields.get(name) for name in ("wr", "sps", "eta")} if progress else {}),
        "attempts": [_attempt_object(attempt) for attempt in run.attempts],
    }


def _attempt_object(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "pod": attempt.pod,
        "node": attempt.node,
        "phase": attempt.phase,
        "started": _iso(attempt.started),
        "finished": _iso(attempt.finished),
        "exit_code": attempt.exit_code,
        "message": attempt.message,
    }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def gpu_text(gpu: GpuTime) -> str:
    """`GPU time: 42 min used, 3 min of it wasted (7 %) on steps that were trained again`."""
    if gpu.wasted_s is None:
        return f"GPU time: {duration(gpu.used_s)} used; wasted: unknown, as logs are gone"
    share = 100 * gpu.wasted_s / gpu.used_s if gpu.used_s else 0.0
    return f"GPU time: {duration(gpu.used_s)} used, {duration(gpu.wasted_s)} of it wasted ({share:.0f} %)"


def failures_of(stages: Sequence[StageRun]) -> list[str]:
    """A line for each attempt that went wrong: `fold0 train/1 (exit 137): ...`."""
    lines = []
    for stage in stages:
        for attempt in stage.attempts:
            if attempt.phase not in ("Failed", "Error") or (stage.gave_verdict and attempt is stage.last):
                continue
            code = "" if attempt.exit_code is None else f" (exit {attempt.exit_code})"
            lines.append(f"{stage.label}/{attempt.number}{code}: {attempt.message or 'no reason is known'}")
    return lines
