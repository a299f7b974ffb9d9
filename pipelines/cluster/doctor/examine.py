"""Runs the checks beside each other, each for itself, within a bounded time."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import yaml

from pipelines.cluster.api import Body, DeniedError
from pipelines.cluster.connection import ConnectionOptions
from pipelines.cluster.doctor import (
    access,
    admission,
    argo,
    controller,
    image,
    local,
    namespace,
    pod_security,
    pool,
    storage,
    template,
)
from pipelines.cluster.doctor.cluster import Asked, Cluster
from pipelines.cluster.doctor.connection import Connection
from pipelines.cluster.doctor.reader import HiddenError
from pipelines.cluster.doctor.result import Check, Level, Result, error, warning
from pipelines.settings import ChartValues
from trainer.errors import InputError

CHECKS: list[Check] = [
    *namespace.FIRST,
    *access.CHECKS,
    *argo.CHECKS,
    *controller.CHECKS,
    *template.CHECKS,
    *namespace.CHECKS,
    *pod_security.CHECKS,
    *storage.CHECKS,
    *pool.CHECKS,
    *admission.CHECKS,
    *image.CHECKS,
]
# Longest waits: for the way to the cluster, then for all checks together. What comes later is told so.
CONNECT_S = 6.0
CHECKS_S = 8.0
# libyaml's loader where it is built in: ten times faster.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Finding:
    """A result with the check that it is of."""

    group: str
    check: str
    result: Result


@dataclass(frozen=True)
class Job:
    """A check that is ready to run. vital: nothing else can be asked when it gets no answer."""

    group: str
    name: str
    look: Callable[[], Iterable[Result]]
    vital: bool = False


def examine(options: ConnectionOptions, asked: Asked, *, raising: bool = False) -> Iterator[Finding]:
    """Findings in the order of the groups, each as soon as it and those before it are known.

    raising: an exception that no check foresees ends everything, in place of a line about it.
    """
    yield from _run([Job("this machine", name, look) for name, look in local.CHECKS], CHECKS_S, raising)
    try:
        connection = Connection(options)
    except InputError as failure:
        yield Finding("connection", "credentials", _lost(failure))
        return
    jobs = [
        Job("connection", "credentials", connection.credentials),
        Job("connection", "server", connection.server, vital=True),
        Job("connection", "clock", connection.clock),
    ]
    for finding in _run(jobs, CONNECT_S, raising):
        yield finding
        if finding.check == "server" and finding.result.level is Level.ERROR:
            return
    asked = replace(asked, instance_id=connection.target.instance_id)
    cluster = Cluster(connection.reader, connection.namespace, asked, rendered)
    yield from examine_cluster(cluster, raising=raising)


def examine_cluster(
    cluster: Cluster, seconds: float = CHECKS_S, *, raising: bool = False
) -> Iterator[Finding]:
    """Findings of the checks that read the cluster; what takes longer than `seconds` is told so."""
    yield from _run([_job(check, cluster) for check in CHECKS], seconds, raising, meanwhile=_load_renderer)


def _load_renderer() -> None:
    """While the server is asked: a busy machine must not look like a slow cluster."""
    import pipelines.workflow  # noqa: F401 (Hera: over a second)


def rendered(values: ChartValues) -> Body:
    """The template that this code makes of the values, parsed."""
    from pipelines.render import render  # Hera: over a second

    body: Body = yaml.load(render(values), LOADER)
    return body


def _job(check: Check, cluster: Cluster) -> Job:
    return Job(check.group, check.name, lambda: check.look(cluster))


def _run(
    jobs: Sequence[Job], seconds: float, raising: bool, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[Finding]:
    """Starts all jobs at once and tells their findings in order; the time starts when `meanwhile` is done."""
    started = [(job, _start(job)) for job in jobs]
    meanwhile()
    end = time.monotonic() + seconds
    hidden = []
    for job, answer in started:
        try:
            results = answer.result(max(0.0, end - time.monotonic()))
        except HiddenError:
            hidden.append(job.name)
            continue
        except Exception as failure:
            if raising and not isinstance(failure, InputError | TimeoutError):
                raise
            results = [_failed(job, failure)]
        for result in results:
            yield Finding(job.group, job.name, result)
    if hidden:
        what = f"not visible through an Argo server: {', '.join(hidden)}"
        do = "run doctor on the Kubernetes API: without --argo-server and ARGO_SERVER"
        yield Finding("not seen", "argo-server", warning(what, do))


def _start(job: Job) -> "Future[list[Result]]":
    """Runs the check in a thread that does not keep the process alive when it hangs."""
    answer: Future[list[Result]] = Future()

    def work() -> None:
        try:
            answer.set_result(list(job.look()))
        except BaseException as failure:
            answer.set_exception(failure)

    threading.Thread(target=work, name=job.name, daemon=True).start()
    return answer


def _failed(job: Job, failure: Exception) -> Result:
    if isinstance(failure, InputError) and job.vital:
        return _lost(failure)
    if isinstance(failure, DeniedError):
        do = failure.do or "ask somebody who may look, or for a role that may"
        return warning(f"{job.name}: cannot look: {failure.what}", do)
    if isinstance(failure, InputError):
        return warning(f"{job.name}: {failure.what}", failure.do)
    if isinstance(failure, TimeoutError):
        level = error if job.vital else warning
        return level(f"{job.name}: no answer in time", "try again; the server or the way to it is slow")
    what = f"{job.name}: the check itself broke ({type(failure).__name__}: {failure})"
    return warning(what, "run doctor --debug and report it")


def _lost(failure: InputError) -> Result:
    where = f"{failure.where}: " if failure.where else ""
    return error(f"{where}{failure.what}", failure.do)
