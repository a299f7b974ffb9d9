"""From the body of an Argo Workflow to the stages of its plan (`stages.py`).

Facts of Argo 4.0 and 4.1: a stage with retries is a node of type Retry whose attempts are children named
`<name>(0)`, `<name>(1)`; a task that never ran is of type Skipped; a fold is a DAG node with the input
`fold-idx`; a node that waits for a lock says so in its message.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.cluster.api import Body
from pipelines.cluster.find import run_id_of
from pipelines.cluster.nodes import (
    Node,
    inputs,
    lock_text,
    moment,
    nodes_of,
    one_line,
    parameters,
    pod_name,
    reason,
    values,
)
from pipelines.cluster.stages import ENDED, Attempt, StageRun, WorkflowRun
from pipelines.plan import EVALUATE, FINISH, FOLD_STAGES, GATE, PREPARE, STAGES, TRAIN

POD_NAME_FORMAT = "workflows.argoproj.io/pod-name-format"
GPU = "nvidia.com/gpu"
ATTEMPT = re.compile(r"\((\d+)\)")
RUN_ORDER = {stage.name: order for order, stage in enumerate((*STAGES, FINISH))}


def workflow_run(body: Body) -> WorkflowRun:
    """The workflow's stages, attempts and parameters. Raises InputError as `nodes_of`."""
    return _Reader(body, nodes_of(body)).run()


@dataclass
class _Reader:
    body: Body
    nodes: dict[str, Node]

    def __post_init__(self) -> None:
        self.metadata: Node = self.body.get("metadata") or {}
        self.status: Node = self.body.get("status") or {}
        self.spec: Node = self.body.get("spec") or {}
        self.stored: Node = self.status.get("storedWorkflowTemplateSpec") or {}
        self.name = str(self.metadata.get("name", ""))
        self.over = self.status.get("phase") in ENDED
        self.parameters = {**parameters(self.stored), **parameters(self.spec)}
        self.folds = self._wanted_folds()

    def run(self) -> WorkflowRun:
        found = {(stage.fold, stage.stage): stage for stage in map(self._stage, self._stage_nodes())}
        for stage in self._expected():
            found.setdefault((stage.fold, stage.stage), stage)
        run_id = self._run_id()
        return WorkflowRun(
            name=self.name,
            namespace=str(self.metadata.get("namespace", "")),
            run_id=run_id,
            phase=str(self.status.get("phase") or "Pending"),
            message=one_line(self.status.get("message")),
            created=moment(self.metadata.get("creationTimestamp")),
            started=moment(self.status.get("startedAt")),
            finished=moment(self.status.get("finishedAt")),
            stages=tuple(sorted(found.values(), key=_order)),
            folds=self.folds,
            parameters=self.parameters,
            gpus=self._gpus(),
            run_dir=self._run_dir(run_id),
            stopped=(self.spec.get("shutdown") or "") != "",
        )

    def _stage_nodes(self) -> Iterator[Node]:
        retries = [node for node in self.nodes.values() if node.get("type") == "Retry"]
        attempts = {child for node in retries for child in self._attempt_ids(node)}
        for key, node in self.nodes.items():
            left_out = node.get("type") == "Skipped" and node.get("templateName") in RUN_ORDER
            if left_out or (node.get("type") in ("Retry", "Pod") and key not in attempts):
                yield node

    def _attempt_ids(self, node: Node) -> list[str]:
        """Children that are attempts, in order; tasks that depend on the stage may be children too."""
        found = []
        for child in node.get("children") or []:
            rest = str(self.nodes.get(child, {}).get("name", "")).removeprefix(str(node["name"]))
            if number := ATTEMPT.fullmatch(rest):
                found.append((int(number[1]), str(child)))
        return [child for _, child in sorted(found)]

    def _stage(self, node: Node) -> StageRun:
        name, fold = str(node.get("templateName") or node.get("displayName", "")), self._fold(node)
        pods = [self.nodes[key] for key in self._attempt_ids(node)] if node["type"] == "Retry" else [node]
        attempts = tuple(self._attempt(pod, name, i + 1) for i, pod in enumerate(pods))
        phase = str(node.get("phase") or "Pending")
        return StageRun(
            label=_label(name, fold),
            stage=name,
            fold=fold,
            phase=phase,
            message=one_line(node.get("message")),
            attempts=() if node["type"] == "Skipped" else attempts,
            finished=moment(node.get("finishedAt")),
            waits_for="" if phase in ENDED else self._waits_for(node, attempts),
            outputs=_outputs([*pods[-1:], node]),
        )

    def _attempt(self, node: Node, template: str, number: int) -> Attempt:
        named_by_id = (self.metadata.get("annotations") or {}).get(POD_NAME_FORMAT) == "v1"
        code = str((node.get("outputs") or {}).get("exitCode") or "")
        return Attempt(
            number=number,
            pod=str(node["id"]) if named_by_id else pod_name(self.name, str(node["name"]), template),
            phase=str(node.get("phase") or "Pending"),
            started=moment(node.get("startedAt")),
            finished=moment(node.get("finishedAt")),
            exit_code=int(code) if code.isdecimal() else None,
            message=reason(node.get("message")),
            progress=_progress(node.get("progress")),
            resource_s={key: float(value) for key, value in (node.get("resourcesDuration") or {}).items()},
            node=str(node.get("hostNodeName", "")),
        )

    def _waits_for(self, node: Node, attempts: tuple[Attempt, ...]) -> str:
        last = attempts[-1] if attempts else None
        if last is not None and last.phase == "Running":
            return ""
        own = last.message if last is not None and last.phase == "Pending" else ""
        return self._lock_text(own or one_line(node.get("message")))

    def _lock_text(self, message: str) -> str:
        mutexes = (self.status.get("synchronization") or {}).get("mutex") or {}
        return lock_text(message, mutexes.get("waiting") or [])

    def _fold(self, node: Node | None) -> int | None:
        """From the inputs of the node, or of the DAG that it is a task of."""
        while node is not None:
            index = inputs(node).get("fold-idx", "")
            if index.isdecimal():
                return int(index)
            node = self.nodes.get(str(node.get("boundaryID", "")))
        return None

    def _wanted_folds(self) -> tuple[int, ...]:
        folds, index = self.parameters.get("folds", ""), self.parameters.get("fold-idx", "-1")
        if not folds.isdecimal():
            return ()
        return (int(index),) if index.isdecimal() else tuple(range(int(folds)))

    def _expected(self) -> Iterator[StageRun]:
        """Stages of the plan that have no node, or none yet."""
        if not self.folds:
            return
        waiting = one_line(self.status.get("message")) if not self.over else ""
        yield self._missing(PREPARE.name, None, {"phase": "Pending", "message": waiting})
        fan_out = next((n for n in self.nodes.values() if n.get("name") == f"{self.name}.fold"), {})
        dags = {self._fold(n): n for n in self.nodes.values() if n.get("type") == "DAG"}
        for fold in self.folds:
            for stage in FOLD_STAGES:
                yield self._missing(stage.name, fold, dags.get(fold, fan_out))
        if len(self.folds) > 1 or self.parameters.get("fold-idx", "-1") == "-1":
            yield self._missing(GATE.name, None, {})

    def _missing(self, name: str, fold: int | None, parent: Node) -> StageRun:
        """A stage without a node; parent: what it would be part of, empty where there is nothing either."""
        phase, message = str(parent.get("phase") or "Pending"), one_line(parent.get("message"))
        if phase in ("Skipped", "Omitted") or (phase == "Pending" and not self.over):
            pass  # so is the stage
        elif phase in ENDED or self.over:
            phase = "Omitted"
        else:
            phase, message = "Pending", ""
        # What its fold waits for is said once, at the first stage.
        waits_for = self._lock_text(message) if phase == "Pending" and name != EVALUATE.name else ""
        return StageRun(_label(name, fold), name, fold, phase, message, waits_for=waits_for)

    def _run_id(self) -> str:
        given = (inputs(node).get("run-id") for node in self.nodes.values())
        return next(filter(None, given), "") or run_id_of(self.body)

    def _train_container(self) -> Node:
        for template in (self.stored or self.spec).get("templates") or []:
            if template.get("name") == TRAIN.name:
                return template.get("container") or {}
        return {}

    def _gpus(self) -> int:
        limits = (self._train_container().get("resources") or {}).get("limits") or {}
        count = str(limits.get(GPU, "0"))
        return int(count) if count.isdecimal() else 0

    def _run_dir(self, run_id: str) -> str:
        args = [str(arg) for arg in self._train_container().get("args") or []]
        template = args[args.index("--run-dir") + 1] if "--run-dir" in args[:-1] else ""
        return template.replace("{{inputs.parameters.run-id}}", run_id) if run_id else ""


def _outputs(nodes: Iterable[Node]) -> dict[str, str]:
    """Output parameters that any of the nodes has: what a pod reports late its retry node may never get."""
    found: dict[str, str] = {}
    for node in nodes:
        told = values((node.get("outputs") or {}).get("parameters"))
        found |= {name: text for name, text in told.items() if text}
    return found


def _order(stage: StageRun) -> tuple[int, int, int, str]:
    order = RUN_ORDER.get(stage.stage, len(RUN_ORDER))
    if stage.fold is not None:
        return RUN_ORDER[FOLD_STAGES[0].name], stage.fold, order, stage.label
    return order, 0, 0, stage.label


def _label(stage: str, fold: int | None) -> str:
    return stage if fold is None else f"fold{fold} {stage}"


def _progress(text: Any) -> tuple[int, int] | None:
    done, _, total = str(text or "").partition("/")
    return (int(done), int(total)) if done.isdecimal() and total.isdecimal() else None
