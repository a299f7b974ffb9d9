"""One stage of the plan as an Argo container template: command, limits, security, retries, mutex."""

from hera import workflows as w
from hera.workflows import models as m

from pipelines.placement import off_the_gpu_pool
from pipelines.plan import RetryRule, Scope, Stage
from pipelines.settings import ChartValues, PodResources

INPUT = "{{{{inputs.parameters.{}}}}}"
INPUTS: dict[Scope, tuple[str, ...]] = {"run": ("run-id",), "fold": ("run-id", "fold-idx"), "end": ()}
# Kubernetes says "Pod was active on the node longer than the specified deadline", Argo "Step exceeded its
# deadline"; the bare word would also match a transient "context deadline exceeded".
DEADLINE_MESSAGE = "longer than the specified deadline|exceeded its deadline"


def stage_template(stage: Stage, values: ChartValues, argv: list[str]) -> w.Container:
    """The container template of a stage; `argv` are the words a developer types after `python -m trainer`."""
    sizes: PodResources = getattr(values, f"{stage.resources}_resources")
    return w.Container(
        name=stage.name,
        inputs=[w.Parameter(name=name) for name in INPUTS[stage.scope]],
        image=f"{values.image}:{{{{workflow.parameters.git-branch}}}}",
        image_pull_policy=values.image_pull_policy,
        command=["python", "-m", "trainer"],
        args=argv,
        env=_environment(),
        # By reference: the Workflow never holds what is in the Secret. The exit handler needs none of it.
        env_from=[w.SecretEnvFrom(name=values.env_secret)]
        if values.env_secret and stage.scope != "end"
        else None,
        resources=w.Resources(cpu_request=sizes.cpu, memory_request=sizes.memory, memory_limit=sizes.memory),
        security_context=container_security(),
        affinity=None if stage.resources == "gpu" else off_the_gpu_pool(values),
        volume_mounts=_mounts(values),
        retry_strategy=retry_strategy(stage.retry),
        active_deadline_seconds=stage.deadline_s,
        labels={"alpha-rl/stage": stage.name},
        metrics=_metrics(stage) if values.prometheus else None,
        # A fold's lock is on its DAG, so that train and evaluate are one critical section.
        synchronization=_run_mutex(stage, values) if stage.scope == "run" else None,
        termination_message_policy="FallbackToLogsOnError",
    )


def retry_strategy(rule: RetryRule) -> w.RetryStrategy:
    """Retry everything but the codes that never change; all `lastRetry` values are strings in Argo.

    Policy Always: evictions, node shutdowns and graceful deletes arrive as Failed, lost pods as Error.
    """
    codes = ", ".join(str(code) for code in rule.never)
    return w.RetryStrategy(
        retry_policy="Always",
        limit=rule.limit,
        expression=(
            f"asInt(lastRetry.exitCode) not in [{codes}]"
            f" and not (lastRetry.message matches '{DEADLINE_MESSAGE}')"
        ),
        backoff=m.Backoff(
            duration=f"{rule.backoff_s}s", factor=m.IntOrString(root=rule.factor), cap=f"{rule.cap_s}s"
        ),
    )


def container_security() -> m.SecurityContext:
    """Restricted Pod Security with a read-only root; what must be written goes to /tmp or the claim."""
    return m.SecurityContext(
        allow_privilege_escalation=False,
        capabilities=m.Capabilities(drop=["ALL"]),
        read_only_root_filesystem=True,
        run_as_non_root=True,
        seccomp_profile=m.SeccompProfile(type="RuntimeDefault"),
    )


def _run_mutex(stage: Stage, values: ChartValues) -> m.Synchronization:
    key = f"{values.template_name}-{INPUT.format('run-id')}-{stage.name}"
    return m.Synchronization(mutexes=[m.Mutex(name=key)])


def _environment() -> list[w.Env]:
    local = {
        "HOME": "/tmp",
        # Live compile caches on a network file system break: the trainer keeps them there in one archive.
        "TRITON_CACHE_DIR": "/tmp/triton",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return [w.Env(name=name, value=value) for name, value in local.items()]


def _mounts(values: ChartValues) -> list[m.VolumeMount]:
    mounts = [
        m.VolumeMount(name="cache", mount_path=values.cache_mount),
        m.VolumeMount(name="tmp", mount_path="/tmp"),
    ]
    if values.data_claim:
        mounts.append(m.VolumeMount(name="data", mount_path=values.data_mount, read_only=True))
    return mounts


def _metrics(stage: Stage) -> list[w.Gauge | w.Counter]:
    labels = [m.MetricLabel(key="stage", value=stage.name), m.MetricLabel(key="status", value="{{status}}")]
    return [
        w.Gauge(
            name="alpha_rl_stage_duration_seconds",
            help="Wall time of a stage's attempt",
            realtime=False,
            value="{{duration}}",
            labels=labels,
        ),
        w.Counter(
            name="alpha_rl_stage_attempts_total", help="Ended attempts of a stage", value="1", labels=labels
        ),
    ]
