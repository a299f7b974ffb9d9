"""Objects of a test namespace: what the chart makes, on a disk of the node."""

from pathlib import Path
from typing import Any


def objects(name: str, disk: Path) -> list[dict[str, Any]]:
    """What the chart makes, for a namespace that enforces the restricted Pod Security standard."""

    def core(kind: str, api: str = "v1", meta_name: str = "walkforward", **body: Any) -> dict[str, Any]:
        return {
            "apiVersion": api, "kind": kind, "metadata": {"name": meta_name, "namespace": name}, **body
        }  # fmt: skip

    rbac = "rbac.authorization.k8s.io"
    size = {"storage": "10Gi"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "storageClassName": name,
                "hostPath": {"path": str(disk)},
            },
        },
        core(
            "PersistentVolumeClaim",
            meta_name="feature-cache",
            spec={
                "accessModes": ["ReadWriteMany"],
                "storageClassName": name,
                "resources": {"requests": size},
            },
        ),
        core("ServiceAccount", automountServiceAccountToken=False),
        core(
            "Role",
            f"{rbac}/v1",
            rules=[
                {
                    "apiGroups": ["argoproj.io"],
                    "resources": ["workflowtaskresults"],
                    "verbs": ["create", "patch"],
                }
            ],
        ),
        core(
            "RoleBinding",
            f"{rbac}/v1",
            roleRef={"apiGroup": rbac, "kind": "Role", "name": "walkforward"},
            subjects=[{"kind": "ServiceAccount", "name": "walkforward"}],
        ),
        core("ConfigMap", meta_name="walkforward-semaphores", data={"gpu-pool": "2"}),
    ]
