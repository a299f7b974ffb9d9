"""Values of the chart, each with its unit and reason: fixed when the template is rendered. Loads no Hera."""

import re
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from pipelines.plan import TRAIN
from trainer.errors import InputError

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
# What an image tag may be; also keeps run ids usable as mutex names and directory names.
TAG_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"
RUN_ID_PATTERN = f"^({TAG_PATTERN[1:-1]})?$"
# What to say of a pattern to someone who does not read them.
ALLOWED = {
    NAME_PATTERN: "only lower-case letters, digits and dashes, and no dash at either end",
    **dict.fromkeys(
        (TAG_PATTERN, RUN_ID_PATTERN),
        "only up to 128 letters, digits, dots, dashes and underscores, and no dot or dash in front",
    ),
}
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=63)]
# Argo appends five random characters and a dash to the template's name.
TemplateName = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=52)]
Tag = Annotated[str, StringConstraints(pattern=TAG_PATTERN)]


class Values(BaseModel):
    """Base: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PodResources(Values):
    """Requests of one stage's pod; the memory limit equals the request: a pod is never overcommitted."""

    cpu: str = Field(
        default="2", description="CPU cores requested; no limit, throttling only slows a stage down"
    )
    memory: str = Field(default="8Gi", description="memory requested and allowed")


class ChartValues(Values):
    """What the platform decides: names, image, storage, placement (PIPELINE.md, "Pod specification")."""

    namespace: Name = Field(default="argo", description="namespace of the template and its workflows")
    template_name: TemplateName = Field(default="walkforward", description="name of the WorkflowTemplate")
    image: str = Field(
        default="alpha-rl", description="image without tag; the tag is the parameter git-branch"
    )
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        default="IfNotPresent", description="IfNotPresent also runs on clusters that are loaded by hand"
    )
    service_account: Name = Field(
        default="walkforward", description="may create and patch workflowtaskresults, nothing else"
    )
    cache_claim: Name = Field(
        default="feature-cache", description="existing claim for runs, checkpoints and caches"
    )
    cache_mount: str = Field(default="/feature-cache", description="where the cache claim is mounted")
    data_claim: Name | None = Field(
        default="market-data", description="existing claim of raw data; null: none mounted"
    )
    data_mount: str = Field(default="/data", description="where the data claim is mounted, read-only")
    env_secret: Name | None = Field(
        default=None,
        description="existing Secret whose keys become the environment of the stages: AWS_ACCESS_KEY_ID, "
        "AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL of the store; null: none",
    )
    semaphore_config_map: Name = Field(
        default="walkforward-semaphores", description="ConfigMap of the semaphores"
    )
    semaphore_key: str = Field(default="gpu-pool", description="its key: how many training pods run at once")
    gpus: Literal[0, 1] = Field(
        default=1, description="GPUs of a training pod; 0 trains on CPU (test clusters)"
    )
    gpu_pool_label: str = Field(
        default="k8s.scaleway.com/pool-name",
        description="node label that names the pool; empty: no node selector",
    )
    keep_gpu_pool_free: bool = Field(
        default=True,
        description="the other stages never run on nodes of the GPU pool; off where there is no other node",
    )
    gpu_tolerations: tuple[str, ...] = Field(
        default=("nvidia.com/gpu",), description="taint keys that training pods tolerate (effect NoSchedule)"
    )
    lost_node_toleration_s: int = Field(
        default=60, ge=0, description="seconds a pod stays bound to a lost node (Kubernetes' default is 300)"
    )
    avoid_last_node: bool = Field(
        default=False, description="retry on another node; unschedulable where the pool has one node"
    )
    priority_class: str = Field(
        default="", description="priority class of training pods; empty: the cluster's default"
    )
    queue_name: str = Field(default="", description="Kueue queue of training pods; empty: no label")
    user_id: int = Field(
        default=10_001, ge=1, description="numeric non-root user and group of all containers"
    )
    grace_s: int = Field(
        default=120, ge=1, description="seconds from SIGTERM to SIGKILL: time to save a checkpoint"
    )
    patch_executor: bool = Field(
        default=True,
        description="restrict Argo's init and wait containers and give the token to them alone; "
        "off only where the controller does it",
    )
    artifact_repository: bool = Field(
        default=False,
        description="the cluster has an artifact repository: the report is shown in the Argo UI",
    )
    shm_size: str = Field(default="2Gi", description="size of /dev/shm in training pods; counts as memory")
    tmp_size: str = Field(
        default="10Gi", description="local scratch: compile caches are live there, never on the claim"
    )
    cpu_resources: PodResources = Field(default=PodResources(), description="of prepare and evaluate")
    small_resources: PodResources = Field(
        default=PodResources(cpu="500m", memory="2Gi"), description="of the gate and the exit handler"
    )
    gpu_resources: PodResources = Field(default=PodResources(cpu="4", memory="24Gi"), description="of train")
    kept_days: int = Field(
        default=14, ge=1, description="days a finished workflow is kept; its files stay on the claim"
    )
    pod_gc_delay: str = Field(
        default="10m", description="time pods stay after a successful workflow, to read logs"
    )
    train_deadline_s: int = Field(
        default=TRAIN.deadline_s,
        ge=1,
        description="seconds an attempt at training may take; then its fold fails, and a new submit goes on",
    )
    prometheus: bool = Field(
        default=True, description="emit run and attempt metrics from the Argo controller"
    )

    @property
    def runs_dir(self) -> str:
        """Where run directories are in the pods."""
        return f"{self.cache_mount}/alpha-rl-runs"

    @property
    def cache_dir(self) -> str:
        """Where feature caches are in the pods."""
        return f"{self.cache_mount}/alpha-rl-caches"


def first_error(error: ValidationError, where: str) -> InputError:
    """One line for a person from a validation error: field, what, and how many more there are."""
    first, *others = error.errors()
    field = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(others)} more)" if others else ""
    text = re.sub(r"^Value error, ", "", first["msg"])
    if first["type"] == "string_pattern_mismatch":
        text = ALLOWED.get(first["ctx"]["pattern"], text)
    return InputError(
        f"{field}: {text}{more}" if field else f"{text}{more}", where=where, do="correct the value"
    )


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text fits the pattern."""
    return re.fullmatch(pattern, text) is not None
