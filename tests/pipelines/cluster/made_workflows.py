"""Workflow bodies as Argo's controller writes them, made by hand: any state, without a cluster.

`test_recorded.py` holds the same reading against workflows that a controller wrote.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

BEGAN = datetime(2026, 11, 30, 3, 0, 0, tzinfo=UTC)
NAME = "walkforward-x7k2p"
RUN_ID = "main-0123456789ab"
RUN_DIR = f"/feature-cache/alpha-rl-runs/{RUN_ID}"


def stamp(seconds: float) -> str:
    """A time so many seconds after the workflow began, as Kubernetes writes it."""
    return f"{BEGAN + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def pod(
    phase: str, *, begin: float = 0, end: float | None = None, code: int | None = None, **more: Any
) -> dict[str, Any]:
    """What an attempt's node says. begin, end: seconds after the workflow's beginning."""
    node: dict[str, Any] = {"phase": phase, "startedAt": stamp(begin), **more}
    if end is not None:
        node["finishedAt"] = stamp(end)
    if code is not None:
        node["outputs"] = {"exitCode": str(code)}
    return node


class MadeWorkflow:
    """Builds one workflow node by node."""

    def __init__(self, folds: int = 2, fold_idx: int = -1, gpus: int = 1) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.folds, self.fold_idx, self.gpus = folds, fold_idx, gpus
        self.synchronization: dict[str, Any] = {}
        self._add({"name": NAME, "type": "DAG", "templateName": "walkforward", "phase": "Running"})

    def stage(
        self, stage: str, phase: str, *pods: dict[str, Any], fold: int | None = None, **more: Any
    ) -> "MadeWorkflow":
        """A stage with retries and its attempts."""
        name = f"{NAME}.{stage}" if fold is None else f"{self._fold_name(fold)}.{stage}"
        own = {"templateName": stage, "boundaryID": self._boundary(fold), "inputs": inputs(fold)}
        retry = {"name": name, "type": "Retry", "phase": phase, **own, **more}
        children = [
            self._add({**own, "name": f"{name}({i})", "type": "Pod", "nodeFlag": {"retried": True}, **item})
            for i, item in enumerate(pods)
        ]
        if pods and phase not in ("Running", "Pending"):
            retry = {"outputs": pods[-1].get("outputs"), "finishedAt": pods[-1].get("finishedAt"), **retry}
        self._add({**retry, "children": children})
        return self

    def done(self, stage: str, fold: int | None = None, **more: Any) -> "MadeWorkflow":
        """A stage that succeeded at once."""
        return self.stage(stage, "Succeeded", pod("Succeeded", begin=10, end=20, code=0, **more), fold=fold)

    def dag(self, fold: int, phase: str = "Running", message: str = "") -> "MadeWorkflow":
        """A fold's DAG; before its stages."""
        self._add(
            {
                "name": self._fold_name(fold),
                "type": "DAG",
                "templateName": "fold",
                "phase": phase,
                "message": message,
                "boundaryID": self._id(NAME),
                "inputs": inputs(fold),
            }
        )
        return self

    def left_out(
        self, name: str, template: str, phase: str, message: str, fold: int | None = None
    ) -> "MadeWorkflow":
        """A task that never ran."""
        path = f"{NAME}.{name}" if fold is None else f"{self._fold_name(fold)}.{name}"
        self._add(
            {
                "name": path,
                "type": "Skipped",
                "templateName": template,
                "phase": phase,
                "message": message,
                "boundaryID": self._boundary(fold),
            }
        )
        return self

    def body(self, phase: str = "Running", message: str = "", shutdown: str = "") -> dict[str, Any]:
        """The Workflow."""
        ended = phase in ("Succeeded", "Failed", "Error")
        status = {
            "phase": phase,
            "message": message,
            "startedAt": stamp(0),
            "nodes": self.nodes,
            "storedWorkflowTemplateSpec": self._template(),
            "synchronization": self.synchronization,
        }
        return {
            "metadata": {
                "name": NAME,
                "namespace": "argo",
                "creationTimestamp": stamp(0),
                "labels": {"app.kubernetes.io/name": "alpha-rl"},
                "annotations": {"workflows.argoproj.io/pod-name-format": "v2"},
            },
            "spec": {
                "arguments": {"parameters": [{"name": "folds", "value": str(self.folds)}]},
                **({"shutdown": shutdown} if shutdown else {}),
            },
            "status": {**status, **({"finishedAt": stamp(600)} if ended else {})},
        }

    def _template(self) -> dict[str, Any]:
        limits = {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        directory = "/feature-cache/alpha-rl-runs/{{inputs.parameters.run-id}}"
        train = {"args": ["train", "--run-dir", directory], "resources": {"limits": limits}}
        parameters = [
            {"name": "folds", "value": "3"},
            {"name": "fold-idx", "value": str(self.fold_idx)},
            {"name": "git-branch", "value": "main"},
            {"name": "run-id", "value": ""},
        ]
        return {
            "arguments": {"parameters": parameters},
            "templates": [{"name": "train", "container": train}],
        }

    def _add(self, node: dict[str, Any]) -> str:
        key = self._id(node["name"])
        self.nodes[key] = {"id": key, "displayName": node["name"].removeprefix(f"{NAME}."), **node}
        return key

    def _fold_name(self, fold: int) -> str:
        return f"{NAME}.fold({fold}:{fold})"

    def _boundary(self, fold: int | None) -> str:
        return self._id(NAME if fold is None else self._fold_name(fold))

    def _id(self, name: str) -> str:
        return f"id-{name}"


def inputs(fold: int | None) -> dict[str, Any]:
    """Input parameters of a stage or a fold's DAG."""
    own = [{"name": "run-id", "value": RUN_ID}]
    return {"parameters": own if fold is None else [*own, {"name": "fold-idx", "value": str(fold)}]}


def finished(gate_code: int = 0, summary: str = "") -> dict[str, Any]:
    """A whole workflow of two folds."""
    made = MadeWorkflow().done("prepare")
    for fold in (0, 1):
        made.dag(fold, "Succeeded").done("train", fold).done("evaluate", fold)
    phase = "Failed" if gate_code else "Succeeded"
    outputs: dict[str, Any] = {"exitCode": str(gate_code)}
    if summary:
        outputs["parameters"] = [{"name": "summary", "value": summary}]
    made.stage("gate", phase, pod(phase, begin=30, end=31, code=gate_code), outputs=outputs)
    return made.body(phase)
