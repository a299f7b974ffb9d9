"""Our rules of a workflow that resumes and judges (design page PIPELINE.md); each yields findings."""

import re
from collections.abc import Iterator
from typing import Any

from pipelines.depends import parse_depends
from pipelines.finding import Document, Finding, Path, Template
from pipelines.settings import NAME_PATTERN, matches

GPU = "nvidia.com/gpu"
VALUE_NAME = r"[-a-zA-Z0-9_]+"


def check_names(document: Document) -> Iterator[Finding]:
    """Names fit RFC 1123 and 63 characters; a template's 52, because Argo appends to them."""
    metadata = document.body.get("metadata") or {}
    limit = 63 if document.kind == "Workflow" else 52
    name = metadata.get("name") or (metadata.get("generateName") or "").rstrip("-")
    yield from _name(("metadata", "name"), name, limit)
    seen: set[str] = set()
    for i, body in enumerate(document.spec.get("templates") or []):
        path = (*document.spec_path, "templates", i, "name")
        yield from _name(path, body.get("name") or "", 63)
        if body.get("name") in seen:
            yield Finding(path, "name", f"a second template {body['name']}", "rename one of them")
        seen.add(body.get("name", ""))
    for template in document.templates.values():
        for path, task in template.tasks():
            yield from _name((*path, "name"), task.get("name") or "", 63)
        yield from _values(template)


def _values(template: Template) -> Iterator[Finding]:
    """Names of what goes in and out: Argo takes no dot there, and says so only when the workflow runs."""
    for side in ("inputs", "outputs"):
        for kind in ("parameters", "artifacts"):
            for i, item in enumerate((template.body.get(side) or {}).get(kind) or []):
                if not matches(VALUE_NAME, item.get("name") or ""):
                    what = f"{item.get('name')!r} cannot name one of the {side}"
                    path = (*template.path, side, kind, i, "name")
                    yield Finding(path, "name", what, "use letters, digits, dash and underscore")


def _name(path: Path, name: str, limit: int) -> Iterator[Finding]:
    if not matches(NAME_PATTERN, name):
        yield Finding(
            path, "name", f"{name!r} is no RFC 1123 name", "use lower-case letters, digits and dashes"
        )
    if len(name) > limit:
        yield Finding(path, "name", f"{len(name)} characters, {limit} fit", "shorten it")


def check_templates(document: Document) -> Iterator[Finding]:
    """The entrypoint and every task name a template that exists and get all its inputs."""
    entry = document.spec.get("entrypoint")
    if not document.spec.get("workflowTemplateRef") and entry not in document.templates:
        yield Finding(
            (*document.spec_path, "entrypoint"), "template", f"no template {entry}", "name an existing one"
        )
    for template in document.templates.values():
        for path, task in template.tasks():
            if task.get("templateRef") or task.get("inline"):
                continue
            target = document.templates.get(task.get("template") or "")
            if target is None:
                what = f"no template {task.get('template')}"
                yield Finding((*path, "template"), "template", what, "name an existing one")
            else:
                yield from _arguments(path, task, target)


def _arguments(path: Path, task: dict[str, Any], target: Template) -> Iterator[Finding]:
    given = {item["name"]: item for item in (task.get("arguments") or {}).get("parameters") or []}
    wanted = target.inputs("parameters")
    for name, declared in wanted.items():
        if name not in given and all(declared.get(key) is None for key in ("value", "default", "valueFrom")):
            what = f"template {target.name} needs parameter {name}"
            yield Finding((*path, "arguments"), "argument", what, "pass it or give it a default")
    for name in sorted(set(given) - set(wanted)):
        what = f"template {target.name} has no parameter {name}"
        yield Finding((*path, "arguments"), "argument", what, "remove it or declare it")


def check_depends(document: Document) -> Iterator[Finding]:
    """`depends` parses, names tasks of its DAG, makes no cycle; the gate is the main DAG's only leaf."""
    for template in document.templates.values():
        needs: dict[str, set[str]] = {}
        for path, task in template.tasks():
            needs[task.get("name", "")] = set()
            try:
                found = [name for name, _ in parse_depends(task["depends"])] if task.get("depends") else []
            except ValueError as error:
                yield Finding((*path, "depends"), "depends", str(error), "correct the expression")
                continue
            needs[task.get("name", "")] = {*found, *(task.get("dependencies") or [])}
        for path, task in template.tasks():
            for name in sorted(needs[task.get("name", "")] - set(needs)):
                yield Finding(
                    (*path, "depends"), "depends", f"no task {name} in this DAG", "name an existing one"
                )
        if template.body.get("dag"):
            yield from _graph(document, template, needs)


def _graph(document: Document, template: Template, needs: dict[str, set[str]]) -> Iterator[Finding]:
    path = (*template.path, "dag", "tasks")
    left = {name: set(others) & set(needs) for name, others in needs.items()}
    while ready := {name for name, others in left.items() if not others}:
        left = {name: others - ready for name, others in left.items() if name not in ready}
    if left:
        yield Finding(
            path, "depends", f"tasks wait for each other: {', '.join(sorted(left))}", "break the cycle"
        )
    leaves = sorted(set(needs) - set().union(*needs.values()))
    if template.name == document.spec.get("entrypoint") and leaves != ["gate"] and not left:
        what = f"leaves are {', '.join(leaves)}: a DAG's phase is its leaves', so the verdict can be lost"
        yield Finding(path, "gate", what, "make gate depend on them")


def check_parameters(document: Document) -> Iterator[Finding]:
    """Every workflow parameter has a value, one of its choices, so that a plain `argo submit` works."""
    for i, item in enumerate((document.spec.get("arguments") or {}).get("parameters") or []):
        path = (*document.spec_path, "arguments", "parameters", i)
        value, choices = item.get("value"), item.get("enum")
        if value is None and item.get("valueFrom") is None:
            yield Finding(path, "parameter", f"{item['name']} has no value", "give it a default")
        elif choices and value not in choices:
            yield Finding(
                path, "parameter", f"{item['name']}: {value!r} is none of {choices}", "use one of them"
            )


def check_retries(document: Document) -> Iterator[Finding]:
    """Retries are limited, never cut by maxDuration, compare exit codes as numbers, and go without hooks."""
    for template in document.templates.values():
        retry = template.body.get("retryStrategy")
        if not retry:
            continue
        path = (*template.path, "retryStrategy")
        if (retry.get("backoff") or {}).get("maxDuration") is not None:
            what = "maxDuration counts from the first attempt and ends a long run that is preempted late"
            yield Finding((*path, "backoff", "maxDuration"), "retry", what, "use cap and limit")
        if retry.get("limit") is None:
            yield Finding(path, "retry", "no limit", "give a limit")
        expression = str(retry.get("expression") or "")
        if re.search(r"(?<!asInt\()lastRetry\.exitCode", expression):
            what = "lastRetry.exitCode is a string"
            yield Finding((*path, "expression"), "retry", what, "write asInt(lastRetry.exitCode)")
    yield from _hooks(document)


def _hooks(document: Document) -> Iterator[Finding]:
    retried = {name for name, template in document.templates.items() if template.body.get("retryStrategy")}
    places: list[tuple[Path, dict[str, Any]]] = [(document.spec_path, document.spec)] if retried else []
    for template in document.templates.values():
        places += [(path, task) for path, task in template.tasks() if task.get("template") in retried]
    for path, holder in places:
        if holder.get("hooks"):
            yield Finding(
                (*path, "hooks"), "retry", "lifecycle hooks fail together with retries", "use onExit"
            )


def check_volumes(document: Document) -> Iterator[Finding]:
    """Every mounted volume exists, and memory-backed ones say so."""
    shared = {item["name"] for item in document.spec.get("volumes") or []}
    claims = document.spec.get("volumeClaimTemplates") or []
    claimed = {(item.get("metadata") or {}).get("name") for item in claims}
    for template in document.templates.values():
        own = {item["name"]: item for item in template.body.get("volumes") or []}
        for path, container in template.containers():
            for i, mount in enumerate(container.get("volumeMounts") or []):
                place = (*path, "volumeMounts", i)
                if mount["name"] not in shared | claimed | set(own):
                    yield Finding(place, "volume", f"no volume {mount['name']}", "declare it")
                source = own.get(mount["name"], {}).get("emptyDir")
                if (
                    mount["mountPath"] == "/dev/shm"
                    and source is not None
                    and source.get("medium") != "Memory"
                ):
                    yield Finding(place, "volume", "/dev/shm is on disk", "set medium: Memory")
    if claimed:
        path = (*document.spec_path, "volumeClaimTemplates")
        yield Finding(
            path,
            "volume",
            "these claims vanish with the workflow, checkpoints too",
            "mount an existing claim",
        )


def check_security(document: Document) -> Iterator[Finding]:
    """Restricted Pod Security: pods are non-root with seccomp; containers drop all and write to no root."""
    pod = document.spec.get("securityContext") or {}
    path = (*document.spec_path, "securityContext")
    if document.templates and not (pod.get("runAsNonRoot") and pod.get("seccompProfile")):
        yield Finding(
            path, "security", "pods may run as root or without seccomp", "set runAsNonRoot, seccompProfile"
        )
    if pod.get("runAsUser") == 0:
        yield Finding((*path, "runAsUser"), "security", "user 0 is root", "use a numeric non-root user")
    for template in document.templates.values():
        for place, container in template.containers():
            yield from _restricted((*place, "securityContext"), container.get("securityContext") or {})


def _restricted(path: Path, context: dict[str, Any]) -> Iterator[Finding]:
    wanted = {
        "allowPrivilegeEscalation: false": context.get("allowPrivilegeEscalation") is False,
        "readOnlyRootFilesystem: true": context.get("readOnlyRootFilesystem") is True,
        "capabilities.drop: [ALL]": "ALL" in ((context.get("capabilities") or {}).get("drop") or []),
        "no privileged": not context.get("privileged"),
    }
    for rule, holds in wanted.items():
        if not holds:
            yield Finding(path, "security", f"{rule} is missing", "restrict the container")


def check_gpus(document: Document) -> Iterator[Finding]:
    """GPUs are requested by train alone, as many as allowed."""
    for template in document.templates.values():
        for path, container in template.containers():
            resources = container.get("resources") or {}
            asked = (resources.get("requests") or {}).get(GPU)
            allowed = (resources.get("limits") or {}).get(GPU)
            if (asked or allowed) and template.name != "train":
                what = f"{template.name} holds a GPU that it does not use"
                yield Finding((*path, "resources"), "gpu", what, "request GPUs in train only")
            if asked != allowed:
                yield Finding((*path, "resources"), "gpu", "request and limit differ", "make them equal")


RULES = (
    check_names,
    check_templates,
    check_depends,
    check_parameters,
    check_retries,
    check_volumes,
    check_security,
    check_gpus,
)
