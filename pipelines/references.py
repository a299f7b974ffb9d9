"""Every `{{...}}` of a workflow resolves: to an input, a parameter, an item, a task, a retry variable."""

import re
from collections.abc import Iterator
from typing import Any

from pipelines.finding import Document, Finding, Path, Template

TAG = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
# An identifier chain of an expression: `workflow.parameters['n-steps']`, `asInt`, `lastRetry.exitCode`.
CHAIN = re.compile(r"""[A-Za-z_]\w*(?:\.\w+|\[\s*'[^']*'\s*\]|\[\s*"[^"]*"\s*\])*""")
INDEX = re.compile(r"""\[\s*['"]([^'"]*)['"]\s*\]""")

WORKFLOW_FIELDS = {
    "name", "namespace", "mainEntrypoint", "serviceAccountName", "uid", "parameters", "priority", "duration",
    "creationTimestamp", "scheduledTime", "annotations", "labels", "outputs", "parameters.json",
}  # fmt: skip
EXIT_FIELDS = {"status", "failures"}
METRIC_FIELDS = {"status", "duration", "exitCode", "resourcesDuration"}
RETRY_FIELDS = {"exitCode", "status", "duration", "message"}
TASK_FIELDS = {
    "status", "outputs", "id", "ip", "startedAt", "finishedAt", "exitCode", "name", "hostNodeName",
    "duration",
}  # fmt: skip
FUNCTIONS = {
    "asInt", "asFloat", "string", "jsonpath", "sprig", "toJson", "filter", "map", "len", "int", "float",
    "trim", "in", "not", "and", "or", "true", "false", "nil", "contains", "matches", "startsWith", "endsWith",
    "let",
}  # fmt: skip


def check_references(document: Document) -> Iterator[Finding]:
    """Findings of all strings of the spec outside and inside the templates."""
    for template in document.templates.values():
        scope = Scope(document, template)
        for path, text in strings(template.body, template.path):
            yield from scope.check(path, text)
    outside = {key: value for key, value in document.spec.items() if key != "templates"}
    scope = Scope(document, None)
    for path, text in strings(outside, document.spec_path):
        yield from scope.check(path, text)


def strings(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """All strings under a YAML value with their places."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings(item, (*path, str(key)))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from strings(item, (*path, i))


class Scope:
    """What a string of one template (None: of the spec itself) may refer to."""

    def __init__(self, document: Document, template: Template | None) -> None:
        self.document, self.template = document, template
        self.tasks = {task.get("name") for _, task in template.tasks()} if template else set()

    def check(self, path: Path, text: str) -> Iterator[Finding]:
        """Findings of the tags of one string; a retry expression is one whole expression without braces."""
        if path[-2:] == ("retryStrategy", "expression"):
            yield from self._expression(path, text)
        for match in TAG.finditer(text):
            body = match[1].strip()
            if body.startswith("="):
                yield from self._expression(path, body[1:])
            else:
                yield from self._name(path, body.split("."), body)
        if "{{" in TAG.sub("", text):  # a lone }} is JSON
            yield Finding(path, "reference", "{{ without }}", "close the tag")

    def _expression(self, path: Path, text: str) -> Iterator[Finding]:
        kept = STRING.sub(lambda match: match[0] if _is_index(text, match.start()) else "''", text)
        bare = re.sub(r"''", "", TAG.sub("", kept))
        for match in CHAIN.finditer(bare):
            parts = INDEX.sub(lambda index: "\0" + index[1], match[0]).replace(".", "\0").split("\0")
            if parts[0] not in FUNCTIONS:
                yield from self._name(path, parts, match[0])

    def _name(self, path: Path, parts: list[str], shown: str) -> Iterator[Finding]:
        fault = self._fault(path, parts)
        if fault:
            yield Finding(path, "reference", f"{{{{{shown}}}}}: {fault}", "correct the name or declare it")

    def _fault(self, path: Path, parts: list[str]) -> str:
        root, rest = parts[0], parts[1:]
        if root == "workflow":
            return self._workflow(path, rest)
        if root == "inputs":
            return self._input(rest)
        if root in ("tasks", "steps"):
            return self._task(rest)
        if root == "item":
            return "" if self._has_items(path) else "nothing here expands into items"
        if root in ("retries", "lastRetry"):
            return self._retry(root, rest)
        if root in METRIC_FIELDS and "metrics" in path:
            return ""
        if root in ("pod", "node") and rest == ["name"]:
            return ""
        if root == "outputs" and self.template is not None:
            return ""
        return "unknown name"

    def _workflow(self, path: Path, rest: list[str]) -> str:
        if rest[:1] == ["parameters"] and len(rest) > 1:
            name = ".".join(rest[1:])
            return "" if name in self.document.parameters else f"no workflow parameter {name}"
        exits = "metrics" in path or (
            self.template and self.template.name == self.document.spec.get("onExit")
        )
        allowed = WORKFLOW_FIELDS | (EXIT_FIELDS if exits else set())
        return "" if rest and rest[0] in allowed else f"workflow has no {'.'.join(rest)} here"

    def _input(self, rest: list[str]) -> str:
        if self.template is None or len(rest) < 2 or rest[0] not in ("parameters", "artifacts"):
            return "no such input here"
        declared = self.template.inputs(rest[0])
        return "" if rest[1] in declared else f"template {self.template.name} has no input {rest[1]}"

    def _task(self, rest: list[str]) -> str:
        if not rest or rest[0] not in self.tasks:
            return f"no task {'.'.join(rest[:1])} in this template"
        return "" if len(rest) > 1 and rest[1] in TASK_FIELDS else "a task has no such field"

    def _retry(self, root: str, rest: list[str]) -> str:
        if self.template is None or not self.template.body.get("retryStrategy"):
            return "the template has no retryStrategy"
        known = root == "retries" or (rest and rest[0] in RETRY_FIELDS)
        return "" if known else "a retry has no such field"

    def _has_items(self, path: Path) -> bool:
        if self.template is None:
            return False
        for place, task in self.template.tasks():
            if path[: len(place)] == place:
                return any(task.get(key) for key in ("withItems", "withParam", "withSequence"))
        return False


def _is_index(text: str, start: int) -> bool:
    """Whether a quoted string is an index (`parameters['n-steps']`) rather than a value."""
    return (
        text[:start].rstrip().endswith("[") and re.search(r"[\w\]]\s*\[$", text[:start].rstrip()) is not None
    )
