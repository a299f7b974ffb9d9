"""What a run of a WorkflowTemplate needs of the cluster, read from the template itself.

The installed template is what runs, whatever this code would render: the checks ask the installed one.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import yaml

from pipelines.cluster.api import Body
from pipelines.cluster.doctor.node import GPU, Toleration, quantity

# Where an object names another: field -> (resource, field of the name).
REFERENCES = {
    "secretKeyRef": ("secrets", "name"),
    "secretRef": ("secrets", "name"),
    "secret": ("secrets", "secretName"),
    "configMapKeyRef": ("configmaps", "name"),
    "configMapRef": ("configmaps", "name"),
    "configMap": ("configmaps", "name"),
}
PARAMETER = re.compile(r"\{\{\s*workflow\.parameters\.([-\w]+)\s*\}\}")


class Pod:
    """One stage's pod: the template that makes it, with the workflow's settings under it."""

    def __init__(self, template: Body, demand: "Demand"):
        self.stage: str = template["name"]
        self.body = template
        self._demand = demand
        self.container: Body = template.get("container") or {}

    @property
    def image(self) -> str:
        """Image with the parameters filled in."""
        return self._demand.filled(self.container.get("image") or "")

    @property
    def pull_policy(self) -> str:
        """As the template says; Kubernetes pulls `latest` always and other tags once."""
        latest = self.image.endswith(":latest") or ":" not in self.image.rpartition("/")[2]
        return self.container.get("imagePullPolicy") or ("Always" if latest else "IfNotPresent")

    @property
    def selector(self) -> dict[str, str]:
        """Node labels that the pod asks for, parameters filled in."""
        chosen = self.body.get("nodeSelector") or self._demand.spec.get("nodeSelector") or {}
        return {key: self._demand.filled(value) for key, value in chosen.items()}

    @property
    def node_terms(self) -> list[list[Body]]:
        """What a node's labels must meet, parameters filled in: all expressions of one term; empty: nothing.

        A template's own affinity replaces the workflow's.
        """
        chosen = self.body.get("affinity") or self._demand.spec.get("affinity") or {}
        required = (chosen.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        terms = [
            term.get("matchExpressions") or [] for term in (required or {}).get("nodeSelectorTerms") or []
        ]
        return [[self._filled(expression) for expression in term] for term in terms]

    def _filled(self, expression: Body) -> Body:
        values = [self._demand.filled(value) for value in expression.get("values") or []]
        return {**expression, "values": values}

    @property
    def tolerations(self) -> list[Toleration]:
        """A template's own tolerations replace the workflow's."""
        chosen = self.body.get("tolerations") or self._demand.spec.get("tolerations") or []
        return [Toleration.of(body) for body in chosen]

    def asks(self, resource: str) -> float:
        """Requested amount of cpu (cores), memory (bytes) or GPUs; 0 where it asks for none."""
        sizes = self.container.get("resources") or {}
        given = (sizes.get("requests") or {}).get(resource) or (sizes.get("limits") or {}).get(resource) or 0
        return quantity(given)

    @property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return int(self.asks(GPU))

    @property
    def labels(self) -> dict[str, str]:
        """The template's labels, and those that Argo gives to every pod of a workflow."""
        own = (self.body.get("metadata") or {}).get("labels") or {}
        return {
            "workflows.argoproj.io/workflow": f"{self._demand.name}-xxxxx",
            "workflows.argoproj.io/completed": "false",
        } | own

    @property
    def priority_class(self) -> str:
        """Its priority class, empty for the cluster's default."""
        return self.body.get("priorityClassName") or self._demand.spec.get("podPriorityClassName") or ""

    @property
    def has_artifacts(self) -> bool:
        """Whether it hands an artifact to the repository."""
        return bool((self.body.get("outputs") or {}).get("artifacts"))


class Demand:
    """Needs of one run: the template and the parameters it is submitted with."""

    def __init__(self, template: Body, parameters: Mapping[str, str]):
        self.body = template
        self.spec: Body = template.get("spec") or {}
        self.name: str = template["metadata"]["name"]
        self.given = dict(parameters)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Values of the template's parameters, the given ones over its defaults."""
        listed = (self.spec.get("arguments") or {}).get("parameters") or []
        return {item["name"]: str(item.get("value", "")) for item in listed} | self.given

    @cached_property
    def pods(self) -> list[Pod]:
        """One for each template that runs a container."""
        return [Pod(body, self) for body in self.spec.get("templates") or [] if body.get("container")]

    @property
    def folds(self) -> int:
        """Folds that run beside each other; 1 where the parameters choose one."""
        chosen = self.parameters.get("fold-idx", "-1")
        return _number(self.parameters.get("folds"), 1) if _number(chosen, -1) < 0 else 1

    @property
    def service_account(self) -> str:
        """Account of the pods."""
        return self.spec.get("serviceAccountName") or "default"

    @property
    def executor_account(self) -> str:
        """Account that reports results to Argo: the executor's own where one is set."""
        own = (self.spec.get("executor") or {}).get("serviceAccountName")
        return own or self.service_account

    @property
    def claims(self) -> dict[str, bool]:
        """Claim name -> whether it is only read."""
        found: dict[str, bool] = {}
        for volume in self.spec.get("volumes") or []:
            if source := volume.get("persistentVolumeClaim"):
                only_read = bool(source.get("readOnly"))
                found[source["claimName"]] = only_read and found.get(source["claimName"], True)
        return found

    @property
    def semaphores(self) -> set[tuple[str, str]]:
        """ConfigMap and key of every semaphore."""
        found = set()
        for sync in self._synchronizations():
            for semaphore in sync.get("semaphores") or []:
                if source := semaphore.get("configMapKeyRef"):
                    found.add((self.filled(source["name"]), self.filled(source["key"])))
        return found

    @property
    def references(self) -> set[tuple[str, str]]:
        """(`secrets` or `configmaps`, name) that containers or volumes need; optional ones left out."""
        found = set()
        for source, key in self._sources():
            kind, name = REFERENCES[key]
            body = source.get(key) or {}
            if body.get(name) and not body.get("optional"):
                found.add((kind, self.filled(body[name])))
        return found

    def _sources(self) -> Iterator[tuple[Body, str]]:
        volumes = [
            *(self.spec.get("volumes") or []),
            *(v for p in self.pods for v in p.body.get("volumes") or []),
        ]
        variables = [each.get("valueFrom") or {} for p in self.pods for each in p.container.get("env") or []]
        whole = [each for p in self.pods for each in p.container.get("envFrom") or []]
        for source in (*volumes, *variables, *whole):
            for key in REFERENCES:
                yield source, key

    @property
    def pull_secrets(self) -> list[str]:
        """Image pull secrets that the template itself names."""
        return [secret["name"] for secret in self.spec.get("imagePullSecrets") or []]

    @property
    def patch(self) -> Body:
        """The patch merged into every pod, parsed; empty where it is none or cannot be read."""
        try:
            patch = yaml.safe_load(self.spec.get("podSpecPatch") or "")
        except yaml.YAMLError:
            patch = None
        return patch if isinstance(patch, dict) else {}

    def filled(self, text: str) -> str:
        """The text with `{{workflow.parameters.x}}` replaced by their values."""
        return PARAMETER.sub(lambda found: self.parameters.get(found[1], found[0]), text)

    def _synchronizations(self) -> Iterator[Body]:
        for holder in (self.spec, *(self.spec.get("templates") or [])):
            if sync := holder.get("synchronization"):
                yield sync


def _number(text: Any, default: int) -> int:
    try:
        return int(text)
    except (TypeError, ValueError):
        return default
