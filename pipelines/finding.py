"""One fault of a linted file, and a view of the workflow that the rules share."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Finding:
    """`file: path.in.yaml: rule: what; do` on one line."""

    path: Path
    rule: str
    what: str
    do: str
    file: str = ""

    def __str__(self) -> str:
        where = dotted(self.path) or "document"
        return " ".join(f"{self.file}: {where}: {self.rule}: {self.what}; {self.do}".split())


def dotted(path: Path) -> str:
    """`spec.templates[0].container` of `("spec", "templates", 0, "container")`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


@dataclass(frozen=True)
class Template:
    """One template: its YAML, its place, and the task (or step) invocations inside it."""

    name: str
    body: dict[str, Any]
    path: Path

    def tasks(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """DAG tasks and steps with their places."""
        for i, task in enumerate((self.body.get("dag") or {}).get("tasks") or []):
            yield (*self.path, "dag", "tasks", i), task
        for i, group in enumerate(self.body.get("steps") or []):
            for j, step in enumerate(group):
                yield (*self.path, "steps", i, j), step

    def containers(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The main container and the others of the pod, with their places."""
        for key in ("container", "script"):
            if self.body.get(key):
                yield (*self.path, key), self.body[key]
        for key in ("initContainers", "sidecars"):
            for i, container in enumerate(self.body.get(key) or []):
                yield (*self.path, key, i), container

    def inputs(self, kind: str) -> dict[str, dict[str, Any]]:
        """Declared inputs by name; kind is `parameters` or `artifacts`."""
        return {item["name"]: item for item in (self.body.get("inputs") or {}).get(kind) or []}


@dataclass(frozen=True)
class Document:
    """A workflow-like document that passed the schema: spec, its place, templates by name."""

    kind: str
    body: dict[str, Any]
    spec: dict[str, Any]
    spec_path: Path
    templates: dict[str, Template] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """Workflow parameters by name."""
        return {item["name"]: item for item in (self.spec.get("arguments") or {}).get("parameters") or []}


def document_of(body: dict[str, Any]) -> Document:
    """The view of a document; a CronWorkflow's workflow is one level deeper."""
    cron = body["kind"] == "CronWorkflow"
    spec = body["spec"]["workflowSpec"] if cron else body["spec"]
    path: Path = ("spec", "workflowSpec") if cron else ("spec",)
    templates = {}
    for i, template in enumerate(spec.get("templates") or []):
        name = template.get("name", "")
        templates[name] = Template(name, template, (*path, "templates", i))
    return Document(body["kind"], body, spec, path, templates)
