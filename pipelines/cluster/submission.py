"""What a submit sends: parameters checked against the template, the run id, the Workflow's body.

Only what was given is sent: the template on the cluster may have other defaults than this version.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pipelines.cluster.api import (
    CLUSTER_TEMPLATE_LABEL,
    INSTANCE_LABEL,
    LABEL_VALUE,
    MANAGED_LABEL,
    RUN_ID_LABEL,
    TEMPLATE_LABEL,
    Body,
)
from pipelines.cluster.find import given_parameters
from pipelines.identity import code_key
from pipelines.parameters import WHERE, RunParameters, checked, parameter_name
from pipelines.settings import NAME_PATTERN, matches
from trainer.errors import InputError

RUN_ID = "run-id"
# What a run's results do not depend on: the same run, another fold, another pool, copied elsewhere.
NOT_IN_KEY = ("run-id", "git-branch", "fold-idx", "gpu-pool", "mirror")
KEY_LENGTH = 12
COMMIT = r"[0-9a-f]{7,64}"
ARGO_LABELS = "workflows.argoproj.io/"
LABEL_KEY = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"


@dataclass(frozen=True)
class Submission:
    """What was asked for, checked without a cluster.

    sent: parameters by name, of this version; other: parameters that this version does not know, which the
    template may. name: of the Workflow, empty for one that the server makes. of_cluster: the template is a
    ClusterWorkflowTemplate.
    """

    template: str
    sent: Mapping[str, str]
    other: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    of_cluster: bool = False

    @cached_property
    def run_id(self) -> str:
        """The run's id: given, or a stable key of what was given and of the code here."""
        return self.sent.get(RUN_ID) or stable_run_id({**self.sent, **self.other}, code_key())


def stable_run_id(values: Mapping[str, str], code: str) -> str:
    """`<git-branch>-<12 hex digits>`: equal parameters give an equal id, so that a second submit resumes.

    code: of who submits. A tag that is a commit names its code by itself; any other is pushed again with new
    code, which the markers of the old must not answer for.
    """
    keyed = sorted((name, value) for name, value in values.items() if name not in NOT_IN_KEY)
    branch = values.get("git-branch") or str(RunParameters.model_fields["git_branch"].default)
    moves = [] if matches(COMMIT, branch) else [code]
    digest = hashlib.sha256(json.dumps([*keyed, *moves]).encode()).hexdigest()[:KEY_LENGTH]
    # 63 characters are a label's.
    return f"{branch[: 63 - KEY_LENGTH - 1]}-{digest}"


def check_names(name: str, labels: str) -> dict[str, str]:
    """Labels of `a=b,c=d`; InputError where they, or the Workflow's name, are not what Kubernetes takes."""
    # Argo writes the name into a label.
    if name and not (matches(NAME_PATTERN, name) and len(name) <= 63):
        do = "use up to 63 lower-case letters, digits and dashes"
        raise InputError(f"{name!r} cannot name a workflow", where="--name", do=do)
    found = {}
    for part in filter(None, labels.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not matches(LABEL_KEY, key) or (value and not matches(LABEL_VALUE, value)):
            raise InputError(f"{part!r} is no label", where="--labels", do="write name=value,name=value")
        found[key] = value
    return found


def check_against(template: Body, submission: Submission) -> dict[str, str]:
    """All parameters of the run: the template's defaults under what is sent.

    Raises InputError for a parameter that the template does not have, a value outside its choices, one that
    it needs, or values that do not fit together.
    """
    items = {str(item["name"]): item for item in _declared(template)}
    where = f"WorkflowTemplate {submission.template}"
    given = {**submission.sent, **submission.other}
    if unknown := [name for name in given if name not in items]:
        do = f"it takes {', '.join(items) or 'none'}; walkforward render | kubectl apply updates an older one"
        raise InputError(f"no parameter {', '.join(unknown)}", where=where, do=do)
    for name, item in items.items():
        choices = [str(choice) for choice in item.get("enum") or []]
        if name in given and choices and given[name] not in choices:
            raise InputError(f"{name}: {given[name]!r}", where=where, do=f"use one of {', '.join(choices)}")
        if name not in given and not {"value", "default", "valueFrom"} & item.keys():
            raise InputError(f"{name} has no default", where=where, do=f"give -p {name}=VALUE")
    values = {**{name: str(item.get("value", "")) for name, item in items.items()}, **given}
    _check_together(values, where)
    return values


def _declared(template: Body) -> list[Body]:
    return ((template.get("spec") or {}).get("arguments") or {}).get("parameters") or []


def _check_together(values: Mapping[str, str], where: str) -> None:
    fields = {parameter_name(name): name for name in RunParameters.model_fields}
    known = {fields[name]: text for name, text in values.items() if name in fields}
    checked(known, f"{WHERE} with the defaults of {where}")


def workflow_body(submission: Submission, namespace: str, *, with_run_id: bool = True) -> Body:
    """A Workflow of the template's reference, arguments and labels: all that strict referencing allows.

    namespace: left out where empty. with_run_id: send it (a template that is not ours may not have it).
    """
    sent = {**submission.sent, **submission.other}
    key, _, value = MANAGED_LABEL.partition("=")
    labels = {key: value, **submission.labels}
    if matches(LABEL_VALUE, submission.template):
        labels[CLUSTER_TEMPLATE_LABEL if submission.of_cluster else TEMPLATE_LABEL] = submission.template
    if with_run_id:
        sent = {**sent, RUN_ID: submission.run_id}
        if matches(LABEL_VALUE, submission.run_id):
            labels[RUN_ID_LABEL] = submission.run_id
    metadata: Body = (
        {"name": submission.name} if submission.name else {"generateName": f"{submission.template}-"}
    )
    if namespace:
        metadata["namespace"] = namespace
    scope = {"clusterScope": True} if submission.of_cluster else {}
    spec: Body = {"workflowTemplateRef": {"name": submission.template, **scope}}
    if sent:
        spec["arguments"] = {"parameters": [{"name": name, "value": value} for name, value in sent.items()]}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {**metadata, "labels": labels},
        "spec": spec,
    }


def again(body: Body, run_id: str) -> Body:
    """A new Workflow like a submitted one: its template, parameters and our labels, under the same run id."""
    labels = (body["metadata"].get("labels") or {}).items()
    # Argo's own labels tell of the old workflow, but for the controller that takes it.
    kept = {key: value for key, value in labels if key == INSTANCE_LABEL or not key.startswith(ARGO_LABELS)}
    reference = body["spec"]["workflowTemplateRef"]
    submission = Submission(
        template=str(reference["name"]),
        sent={**given_parameters(body), RUN_ID: run_id},
        labels=kept,
        of_cluster=bool(reference.get("clusterScope")),
    )
    return workflow_body(submission, str(body["metadata"].get("namespace", "")))
