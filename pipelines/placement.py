"""Where pods go and what they hold: storage, GPU, tolerations, and the patch Argo has no fields for."""

import json
from typing import Any

from hera import workflows as w
from hera.workflows import models as m

from pipelines.settings import ChartValues

GPU = "nvidia.com/gpu"
EXECUTOR_TOKEN = "executor-token"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_LIFE_S = 3607  # the kubelet renews it; Kubernetes' own mounts ask for the same


def storage(values: ChartValues) -> list[m.Volume]:
    """Volumes of all pods: the existing claims (made and kept by the chart) and local scratch."""
    volumes = [
        _claim("cache", values.cache_claim, read_only=None),
        m.Volume(name="tmp", empty_dir=m.EmptyDirVolumeSource(size_limit=m.Quantity(root=values.tmp_size))),
    ]
    if values.data_claim:
        volumes.append(_claim("data", values.data_claim, read_only=True))
    return volumes


def _claim(name: str, claim: str, read_only: bool | None) -> m.Volume:
    source = m.PersistentVolumeClaimVolumeSource(claim_name=claim, read_only=read_only)
    return m.Volume(name=name, persistent_volume_claim=source)


def gpu_placement(template: w.Container, values: ChartValues) -> None:
    """One GPU on the chosen pool, shared memory, queue and priority; only for the training pod."""
    sizes = values.gpu_resources
    template.resources = w.Resources(
        cpu_request=sizes.cpu,
        memory_request=sizes.memory,
        memory_limit=sizes.memory,
        gpus=values.gpus or None,
    )
    shm = m.EmptyDirVolumeSource(medium="Memory", size_limit=m.Quantity(root=values.shm_size))
    template.volumes = [m.Volume(name="shm", empty_dir=shm)]
    template.volume_mounts = [
        *(template.volume_mounts or []),
        m.VolumeMount(name="shm", mount_path="/dev/shm"),
    ]
    template.priority_class_name = values.priority_class or None
    if values.queue_name:
        template.labels = {**(template.labels or {}), "kueue.x-k8s.io/queue-name": values.queue_name}
    if values.gpus and values.gpu_pool_label:
        template.node_selector = {values.gpu_pool_label: "{{workflow.parameters.gpu-pool}}"}
    if values.gpus:
        # A template's tolerations replace the workflow's, so the lost-node ones are repeated here.
        taints = [
            m.Toleration(key=key, operator="Exists", effect="NoSchedule") for key in values.gpu_tolerations
        ]
        template.tolerations = [*taints, *tolerations(values)]


def off_the_gpu_pool(values: ChartValues) -> m.Affinity | None:
    """Keeps a pod without a GPU from the pool's nodes, also where no taint does: they cost by the hour."""
    if not (values.keep_gpu_pool_free and values.gpus and values.gpu_pool_label):
        return None
    elsewhere = m.NodeSelectorRequirement(
        key=values.gpu_pool_label, operator="NotIn", values=["{{workflow.parameters.gpu-pool}}"]
    )
    terms = m.NodeSelector(node_selector_terms=[m.NodeSelectorTerm(match_expressions=[elsewhere])])
    return m.Affinity(node_affinity=m.NodeAffinity(required_during_scheduling_ignored_during_execution=terms))


def tolerations(values: ChartValues) -> list[m.Toleration]:
    """How long a pod stays bound to a lost node: until then its fold cannot be tried elsewhere."""
    return [
        m.Toleration(
            key=f"node.kubernetes.io/{state}",
            operator="Exists",
            effect="NoExecute",
            toleration_seconds=values.lost_node_toleration_s,
        )
        for state in ("not-ready", "unreachable")
    ]


def affinity_rule() -> m.RetryAffinity:
    """Retry on a node where no earlier attempt ran."""
    return m.RetryAffinity(node_anti_affinity=m.RetryNodeAntiAffinity())


def pod_security(values: ChartValues) -> m.PodSecurityContext:
    """Restricted Pod Security for whole pods; the group owns the mounted claims."""
    return m.PodSecurityContext(
        run_as_non_root=True,
        run_as_user=values.user_id,
        run_as_group=values.user_id,
        fs_group=values.user_id,
        # Changing the owner of a large claim at every pod start would take minutes.
        fs_group_change_policy="OnRootMismatch",
        seccomp_profile=m.SeccompProfile(type="RuntimeDefault"),
    )


def pod_patch(values: ChartValues) -> str:
    """JSON merged into every pod: grace period, and Argo's own containers: restricted, alone with the token.

    Argo's containers report the result through the API; the stage itself gets no credentials at all.
    """
    patch: dict[str, Any] = {"terminationGracePeriodSeconds": values.grace_s}
    # Progress in the UI: Argo's default reports once a minute.
    wait: dict[str, Any] = {
        "name": "wait",
        "env": [{"name": "ARGO_PROGRESS_PATCH_TICK_DURATION", "value": "10s"}],
    }
    if values.patch_executor:
        security = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            # The stages' user, whatever the controller's default: it reads the gate's outputs from the claim.
            "runAsUser": values.user_id,
            "runAsGroup": values.user_id,
        }
        mount = {"name": EXECUTOR_TOKEN, "mountPath": TOKEN_PATH, "readOnly": True}
        own = {"securityContext": security, "volumeMounts": [mount]}
        wait |= own
        patch["automountServiceAccountToken"] = False
        patch["volumes"] = [{"name": EXECUTOR_TOKEN, "projected": {"sources": _token_sources()}}]
        patch["initContainers"] = [{"name": "init", **own}]
    patch["containers"] = [wait]
    return json.dumps(patch, sort_keys=True)


def _token_sources() -> list[dict[str, Any]]:
    """What Kubernetes itself would mount as the service account's credentials."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIFE_S}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
