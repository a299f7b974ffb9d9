"""A namespace in memory: templates and workflows that commands read, create and stop."""

import copy
from collections.abc import Iterator
from typing import Any

import yaml

from pipelines.cluster.api import AbsentError, DeniedError, labels_of
from pipelines.golden import GOLDEN_DIR
from trainer.errors import InputError

TEMPLATE = yaml.safe_load((GOLDEN_DIR / "walkforward.yaml").read_text())


class MemoryApi:
    """created: bodies as sent. denied: verbs that are refused. refused: kind -> why it is not admitted."""

    namespace, address = "trading", "https://api:6443"

    def __init__(
        self, *workflows: dict[str, Any], templates: tuple[dict[str, Any], ...] = (TEMPLATE,)
    ) -> None:
        self.stored = {body["metadata"]["name"]: body for body in workflows}
        self.templates = {body["metadata"]["name"]: body for body in templates}
        self.created: list[dict[str, Any]] = []
        self.dry_runs: list[dict[str, Any]] = []
        self.stopped: list[str] = []
        self.denied: set[str] = set()
        self.refused: dict[str, str] = {}

    def create_workflow(self, body: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        self._may("create")
        (self.dry_runs if dry_run else self.created).append(copy.deepcopy(body))
        made = copy.deepcopy(body)
        metadata = made["metadata"]
        metadata.setdefault("name", f"{metadata.get('generateName')}new{len(self.created)}")
        metadata.setdefault("namespace", self.namespace)
        metadata["creationTimestamp"] = f"2026-12-01T00:00:{len(self.created):02d}Z"
        if not dry_run:
            self.stored[metadata["name"]] = made
        return made

    def admit(self, body: dict[str, Any]) -> None:
        self._may("create")
        self.dry_runs.append(copy.deepcopy(body))
        if reason := self.refused.get(body["kind"]):
            raise InputError(reason, where="create", do="correct it and try again")

    def workflow(self, name: str) -> dict[str, Any]:
        self._may("get")
        if name not in self.stored:
            raise AbsentError(f"no workflow {name}", where="cluster", do="check the name")
        return self.stored[name]

    def workflows(self, selector: str = "") -> list[dict[str, Any]]:
        self._may("list")
        wanted = dict(pair.split("=") for pair in selector.split(",") if pair)
        found = [body for body in self.stored.values() if wanted.items() <= labels_of(body).items()]
        return sorted(found, key=lambda body: str(body["metadata"]["creationTimestamp"]), reverse=True)

    def watch_workflow(self, name: str) -> Iterator[dict[str, Any]]:
        yield self.workflow(name)

    def stop_workflow(self, name: str) -> None:
        self._may("patch")
        self.stopped.append(name)

    def template(self, name: str) -> dict[str, Any]:
        if name not in self.templates:
            raise AbsentError(f"no WorkflowTemplate {name}", where="cluster", do="install it")
        return self.templates[name]

    def pod_log(
        self, workflow: str, pod: str, *, since_time: str | None = None, follow: bool = False
    ) -> Iterator[str]:
        raise AbsentError("no log", where="cluster", do="none")

    def _may(self, verb: str) -> None:
        if verb in self.denied:
            raise DeniedError(f"not allowed to {verb} workflows", where="permission", do="ask")


def submitted(
    name: str,
    phase: str = "Running",
    *,
    run_id: str | None = None,
    created: str = "2026-11-30T03:00:00Z",
    template: str | None = "walkforward",
    **parameters: str,
) -> dict[str, Any]:
    """A workflow of our template; run_id None: submitted without, by another command and without label."""
    given = {key.replace("_", "-"): value for key, value in parameters.items()}
    labels = {"app.kubernetes.io/name": "alpha-rl", "workflows.argoproj.io/phase": phase, "team": "desk"}
    if run_id is not None:
        labels["alpha-rl/run-id"] = given["run-id"] = run_id
    spec: dict[str, Any] = {"arguments": {"parameters": [{"name": k, "value": v} for k, v in given.items()]}}
    if template is not None:
        spec["workflowTemplateRef"] = {"name": template}
    return {
        "metadata": {"name": name, "namespace": "trading", "labels": labels, "creationTimestamp": created},
        "spec": spec,
        "status": {
            "phase": phase,
            "storedWorkflowTemplateSpec": {"arguments": TEMPLATE["spec"]["arguments"]},
        },
    }
