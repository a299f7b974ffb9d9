"""A workflow by its name or by the id of its run."""

from pipelines.cluster.api import (
    LABEL_VALUE,
    MANAGED_LABEL,
    RUN_ID_LABEL,
    AbsentError,
    Body,
    WorkflowApi,
    labels_of,
)
from pipelines.settings import matches

ENDED = ("Succeeded", "Failed", "Error")
WORKFLOW_NAME = r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?"
LATEST = "@latest"


def find_workflow(api: WorkflowApi, text: str) -> Body:
    """The workflow of that name, or the newest of the run with that id; `@latest` is the newest of all.

    Raises AbsentError where there is none.
    """
    return find_workflows(api, text)[0]


def find_workflows(api: WorkflowApi, text: str) -> list[Body]:
    """The workflow of that name alone, or all workflows of the run with that id, newest first.

    Raises AbsentError where there is none.
    """
    if text == LATEST:
        found = api.workflows(MANAGED_LABEL)[:1]
    else:
        found = _named(api, text) or runs_workflows(api, text)
    if not found:
        what = "no run was submitted" if text == LATEST else f"no workflow and no run {text}"
        do = f"walkforward status -n {api.namespace} lists them"
        raise AbsentError(f"{what} in namespace {api.namespace}", where="cluster", do=do)
    return found


def runs_workflows(api: WorkflowApi, run_id: str) -> list[Body]:
    """All workflows of a run, newest first: by their label, else by what they were submitted with."""
    # An id that is no label is found by the workflow's parameters.
    if matches(LABEL_VALUE, run_id) and (found := api.workflows(f"{RUN_ID_LABEL}={run_id}")):
        return found
    # Submitted by another command than ours: without the label, perhaps without the parameter.
    return [body for body in api.workflows(MANAGED_LABEL) if run_id_of(body) == run_id]


def _named(api: WorkflowApi, name: str) -> list[Body]:
    if not matches(WORKFLOW_NAME, name):
        return []
    try:
        return [api.workflow(name)]
    except AbsentError:
        return []


def has_ended(body: Body) -> bool:
    """Whether nothing of the workflow will run any more."""
    return phase_of(body) in ENDED


def phase_of(body: Body) -> str:
    """Argo's phase; a workflow that the controller has not seen yet is Pending."""
    return str((body.get("status") or {}).get("phase") or "Pending")


def given_parameters(body: Body) -> dict[str, str]:
    """Parameters that the workflow was submitted with, by name."""
    found = ((body.get("spec") or {}).get("arguments") or {}).get("parameters") or []
    return {str(item["name"]): str(item.get("value", "")) for item in found}


def all_parameters(body: Body) -> dict[str, str]:
    """Those, over the defaults of the template as Argo stored it with the workflow."""
    stored = (body.get("status") or {}).get("storedWorkflowTemplateSpec") or {}
    return {**given_parameters({"spec": stored}), **given_parameters(body)}


def run_id_of(body: Body) -> str:
    """The run's id: as submitted, else what the template makes of git-branch and the workflow's name."""
    values = all_parameters(body)
    name = str(body["metadata"].get("name", ""))
    made = f"{values['git-branch']}-{name}" if values.get("git-branch") else ""
    return values.get("run-id") or labels_of(body).get(RUN_ID_LABEL, "") or made
