"""Chart values read back from an installed template, so that it is compared with its own settings.

Who installed the chart with other claims or another image wants to hear whether the code is the same, not
that the values are. A value that cannot be found keeps its default and shows up as a difference.
"""

import json
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from pipelines.cluster.api import Body
from pipelines.cluster.doctor.demand import Demand, Pod
from pipelines.cluster.doctor.node import GPU
from pipelines.settings import ChartValues

LOST_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Parts:
    """The places of a template that values go to."""

    def __init__(self, template: Body):
        demand = Demand(template, {})
        by_stage: dict[str, Pod] = {pod.stage: pod for pod in demand.pods}
        self.demand, self.spec, self.template = demand, demand.spec, template
        self.train, self.gate = by_stage["train"].body, by_stage["gate"].body
        self.prepare = by_stage["prepare"].body
        self.container: Body = self.train["container"]
        self.volumes: dict[str, Body] = {each["name"]: each for each in self.spec["volumes"]}
        self.mounts = {each["name"]: each["mountPath"] for each in self.container["volumeMounts"]}

    def claim(self, volume: str) -> str | None:
        """Claim of a volume; None where there is no such volume."""
        return self.volumes[volume]["persistentVolumeClaim"]["claimName"] if volume in self.volumes else None

    def tolerations(self, of: Body) -> list[Body]:
        """Tolerations of a template or of the workflow."""
        found: list[Body] = of.get("tolerations") or []
        return found


def _sizes(template: Body) -> dict[str, str]:
    requests = template["container"]["resources"]["requests"]
    return {"cpu": requests["cpu"], "memory": requests["memory"]}


def _semaphore(parts: Parts) -> Body:
    found: Body = parts.train["synchronization"]["semaphores"][0]["configMapKeyRef"]
    return found


def _env_secret(container: Body) -> str | None:
    """The Secret that the environment is filled from; None for none."""
    named = [each["secretRef"]["name"] for each in container.get("envFrom") or []]
    return named[0] if named else None


FINDERS: dict[str, Callable[[Parts], Any]] = {
    "namespace": lambda p: p.template["metadata"]["namespace"],
    "template_name": lambda p: p.template["metadata"]["name"],
    "image": lambda p: p.container["image"].removesuffix(":{{workflow.parameters.git-branch}}"),
    "image_pull_policy": lambda p: p.container["imagePullPolicy"],
    "service_account": lambda p: p.spec["serviceAccountName"],
    "cache_claim": lambda p: p.claim("cache"),
    "cache_mount": lambda p: p.mounts["cache"],
    "data_claim": lambda p: p.claim("data"),
    "data_mount": lambda p: p.mounts["data"],
    "semaphore_config_map": lambda p: _semaphore(p)["name"],
    "semaphore_key": lambda p: _semaphore(p)["key"],
    "env_secret": lambda p: _env_secret(p.container),
    "gpus": lambda p: int((p.container["resources"].get("limits") or {}).get(GPU, 0)),
    "gpu_pool_label": lambda p: next(iter(p.train.get("nodeSelector") or {}), ""),
    "keep_gpu_pool_free": lambda p: "affinity" in p.prepare or not p.train.get("nodeSelector"),
    "gpu_tolerations": lambda p: [
        each["key"] for each in p.tolerations(p.train) if each["effect"] == "NoSchedule"
    ],
    "lost_node_toleration_s": lambda p: next(
        each["tolerationSeconds"] for each in p.tolerations(p.spec) if each["key"] in LOST_NODE
    ),
    "avoid_last_node": lambda p: "affinity" in p.train["retryStrategy"],
    "priority_class": lambda p: p.train.get("priorityClassName", ""),
    "queue_name": lambda p: p.train["metadata"]["labels"].get("kueue.x-k8s.io/queue-name", ""),
    "user_id": lambda p: p.spec["securityContext"]["runAsUser"],
    "grace_s": lambda p: json.loads(p.spec["podSpecPatch"])["terminationGracePeriodSeconds"],
    "patch_executor": lambda p: "initContainers" in json.loads(p.spec["podSpecPatch"]),
    "shm_size": lambda p: next(each for each in p.train["volumes"] if each["name"] == "shm")["emptyDir"][
        "sizeLimit"
    ],
    "tmp_size": lambda p: p.volumes["tmp"]["emptyDir"]["sizeLimit"],
    "artifact_repository": lambda p: Pod(p.gate, p.demand).has_artifacts,
    "cpu_resources": lambda p: _sizes(p.prepare),
    "small_resources": lambda p: _sizes(p.gate),
    "gpu_resources": lambda p: _sizes(p.train),
    "kept_days": lambda p: p.spec["ttlStrategy"]["secondsAfterCompletion"] // 86_400,
    "pod_gc_delay": lambda p: p.spec["podGC"]["deleteDelayDuration"],
    "train_deadline_s": lambda p: p.train["activeDeadlineSeconds"],
    "prometheus": lambda p: "metrics" in p.spec,
}


def values_of(template: Body) -> ChartValues:
    """Values that the template was rendered with, as far as they can be read from it."""
    found: dict[str, Any] = {}
    try:
        parts = Parts(template)
    except (KeyError, TypeError, AttributeError):
        return _valid(
            {
                "namespace": template["metadata"].get("namespace"),
                "template_name": template["metadata"]["name"],
            }
        )
    for name, find in FINDERS.items():
        try:
            found[name] = find(parts)
        except (KeyError, IndexError, TypeError, ValueError, StopIteration):
            continue
    return _valid(found)


def _valid(found: dict[str, Any]) -> ChartValues:
    """Values with the ones left out that no chart could have set."""
    while True:
        try:
            return ChartValues.model_validate(found)
        except ValidationError as error:
            for fault in error.errors():
                found.pop(str(fault["loc"][0]), None)
