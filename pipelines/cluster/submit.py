"""`walkforward submit`, `retry` and `stop`: what they ask of the cluster and say to a person."""

import json
from dataclasses import dataclass
from typing import TextIO

from pipelines.cluster.api import WORKFLOW_LABEL, Body, DeniedError, WorkflowApi
from pipelines.cluster.creating import create_once, patiently
from pipelines.cluster.estimate import estimate
from pipelines.cluster.find import (
    find_workflow,
    find_workflows,
    has_ended,
    phase_of,
    run_id_of,
    runs_workflows,
)
from pipelines.cluster.runs import workflow_run
from pipelines.cluster.submission import RUN_ID, Submission, again, check_against, workflow_body
from pipelines.cluster.verdict import verdict_of
from pipelines.parameters import refuse_unknown
from pipelines.plan import GATE
from trainer.errors import BusyError, ExitCode, InputError


@dataclass(frozen=True)
class Shown:
    """Where the result goes and in which form: `name`, `yaml`, `json`, or None for what a person reads.

    flags: of the connection, for the commands that a person types next.
    """

    stdout: TextIO
    stderr: TextIO
    output: str | None = None
    flags: str = ""

    def result(self, body: Body) -> bool:
        """Write the object in its form; False where a person reads and the caller says more."""
        if self.output is None:
            return False
        self.stdout.write(as_text(body, self.output))
        return True

    def note(self, text: str) -> None:
        """A line beside the result."""
        self.stderr.write(f"walkforward: {text}\n")


def as_text(body: Body, output: str) -> str:
    """The object as `name`, `yaml` or `json`, without the server's notes on who set which field."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    body = {**body, "metadata": metadata}
    if output == "name":
        return f"{metadata.get('name') or metadata['generateName']}\n"
    if output == "json":
        return json.dumps(body, indent=2) + "\n"
    import yaml

    return yaml.safe_dump(body, sort_keys=False, width=1_000)


def dry_run(submission: Submission, namespace: str, shown: Shown) -> int:
    """Print the Workflow that would be sent; nothing is asked of a cluster."""
    refuse_unknown(
        submission.other, "a template on the cluster may have it: leave --dry-run out, or correct the name"
    )
    body = workflow_body(submission, namespace)
    return _shown(Shown(shown.stdout, shown.stderr, shown.output or "yaml"), body)


def _shown(shown: Shown, body: Body) -> int:
    shown.result(body)
    return int(ExitCode.DONE)


def submit(api: WorkflowApi, submission: Submission, shown: Shown, *, server_dry_run: bool = False) -> str:
    """Send it and say what follows; returns the workflow's name.

    A server that goes away after its first answer is waited for, and the workflow is made once. Raises
    InputError for parameters that the template does not take, or what the server refuses.
    """
    template = api.template(submission.template)
    values = check_against(template, submission)
    takes_run_id = RUN_ID in values
    body = workflow_body(submission, api.namespace, with_run_id=takes_run_id)
    if server_dry_run:
        _shown(
            Shown(shown.stdout, shown.stderr, shown.output or "yaml"), api.create_workflow(body, dry_run=True)
        )
        return ""
    run_id = submission.run_id if takes_run_id else ""
    earlier = patiently(lambda: _earlier(api, run_id, shown), shown.note) if run_id else []
    created = create_once(api, body, shown.note)
    name = str(created["metadata"]["name"])
    if not shown.result(created):
        run = f"run {submission.run_id}" if takes_run_id else f"template {submission.template}"
        shown.stdout.write(f"{name} submitted to namespace {api.namespace}: {run}\n")
        shown.stdout.write(f"estimate  {_estimate(api, submission.template, values, bool(earlier))}\n")
        shown.stdout.write(following(name, api.namespace, shown.flags))
    return name


def _earlier(api: WorkflowApi, run_id: str, shown: Shown) -> list[Body]:
    """Workflows of the same run, and a note about the newest."""
    try:
        earlier = runs_workflows(api, run_id)
    except DeniedError as error:
        shown.note(f"cannot see whether run {run_id} is running already: {error.what}")
        return []
    live = [body["metadata"]["name"] for body in earlier if not has_ended(body)]
    if live:
        shown.note(
            f"warning: run {run_id} is running as {', '.join(live)}; the new workflow waits for its locks, "
            "then finds what it has finished"
        )
    elif earlier:
        shown.note(_goes_on(run_id, earlier[0]))
    return earlier


def _goes_on(run_id: str, last: Body) -> str:
    """What a submit of an ended run finds: a whole one answers at once, easily taken for a new run."""
    name, plain = last["metadata"]["name"], f"({phase_of(last)})"
    try:
        run = workflow_run(last)
    except InputError:  # its nodes cannot be read here
        return f"run {run_id} goes on from {name} {plain}"
    gate = run.stage(GATE.name)
    if gate is None or not gate.gave_verdict or run.num_folds_done < len(run.folds):
        return f"run {run_id} goes on from {name} {plain}"
    verdict = verdict_of(run)
    word = verdict.word if verdict is not None else run.phase
    return (
        f"run {run_id} is whole, {name} judged it: {word}; it answers at once, another --run-id begins anew"
    )


def _estimate(api: WorkflowApi, template: str, values: dict[str, str], resumes: bool) -> str:
    try:
        found = estimate(api, template, values)
    except InputError as error:
        return f"none: {error.what}"
    if found is None:
        return "none: no finished run like this one in this namespace to go by"
    return f"{found}" + ("; less what is finished already" if resumes else "")


def following(name: str, namespace: str, flags: str = "") -> str:
    """The commands to follow, read and stop a workflow, one a line."""
    here = f"{name} -n {namespace}{flags}"
    lines = {
        "status": f"walkforward status {here}",
        "logs": f"walkforward logs -f {here}",
        "report": f"walkforward report {here}",
        "stop": f"walkforward stop {here}",
    }
    if not flags:  # theirs are not all the same
        select = f"-l {WORKFLOW_LABEL}={name}"
        lines["kubectl"] = f"kubectl logs -n {namespace} -f --prefix -c main --max-log-requests 50 {select}"
        lines["argo"] = f"argo get -n {namespace} {name}"
    return "".join(f"{word:<9} {line}\n" for word, line in lines.items())


def retry(api: WorkflowApi, text: str, shown: Shown) -> str:
    """Submit a run again with its parameters and id; returns the new workflow's name.

    Finished stages return at once and training goes on from its newest checkpoint. Raises BusyError while a
    workflow of the run is running.
    """
    old = find_workflow(api, text)
    if "workflowTemplateRef" not in old["spec"]:
        name = old["metadata"]["name"]
        do = "submit it the way it was submitted first"
        raise InputError("was not made from a WorkflowTemplate", where=str(name), do=do)
    run_id = run_id_of(old)
    if not run_id:
        raise InputError(
            "has no run id yet", where=str(old["metadata"]["name"]), do="wait until it has started"
        )
    live = [body["metadata"]["name"] for body in (old, *runs_workflows(api, run_id)) if not has_ended(body)]
    if live:
        do = f"follow it (walkforward logs -f {live[0]}) or stop it first"
        raise BusyError(f"run {run_id} is running", where=str(live[0]), do=do)
    reference = old["spec"]["workflowTemplateRef"]
    if not reference.get("clusterScope"):
        api.template(str(reference["name"]))  # absent: its line says how to install it
    created = create_once(api, again(old, run_id), shown.note)
    name = str(created["metadata"]["name"])
    if not shown.result(created):
        shown.stdout.write(f"{name} submitted to namespace {api.namespace}: run {run_id} goes on\n")
        shown.stdout.write(following(name, api.namespace, shown.flags))
    return name


def stop(api: WorkflowApi, text: str, stdout: TextIO) -> int:
    """Ask a workflow (or all live ones of a run) to end: running stages save first."""
    found = find_workflows(api, text)
    live = [body for body in found if not has_ended(body)]
    for body in live:
        name = str(body["metadata"]["name"])
        api.stop_workflow(name)
        stdout.write(f"{name} is stopping: running stages save and end; walkforward retry {name} goes on\n")
    if not live:
        stdout.write(f"{found[0]['metadata']['name']} has ended already: {phase_of(found[0])}\n")
    return int(ExitCode.DONE)


def watched(api: WorkflowApi, name: str, shown: Shown) -> int:
    """Follow until the end; the exit code is the workflow's verdict."""
    from pipelines.cluster.watching import follow

    # A script that reads the object from stdout gets nothing else there.
    verdict_to = shown.stdout if shown.output is None else shown.stderr
    return follow(api, name, verdict_to, shown.stderr, flags=shown.flags, answered=True)
