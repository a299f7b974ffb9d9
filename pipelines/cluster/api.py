"""What the commands need of a cluster; served by the Kubernetes API or by an Argo server.

Bodies are plain JSON objects as Argo defines them. Errors meant for a person are InputError: an absent
object, a denied verb, a server that cannot be reached. UnreachableError among them may pass: who follows
tries again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from trainer.errors import ExitCode, InputError

Body = dict[str, Any]
MANAGED_LABEL = "app.kubernetes.io/name=alpha-rl"
RUN_ID_LABEL = "alpha-rl/run-id"
STAGE_LABEL = "alpha-rl/stage"
WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
# What a label's value may be, unless it is empty.
LABEL_VALUE = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
# A controller with an instanceID takes only workflows with this label.
INSTANCE_LABEL = "workflows.argoproj.io/controller-instanceid"
# Argo's own commands set one of them: its UI lists a template's workflows and estimates their time by it.
TEMPLATE_LABEL = "workflows.argoproj.io/workflow-template"
CLUSTER_TEMPLATE_LABEL = "workflows.argoproj.io/cluster-workflow-template"


class UnreachableError(InputError):
    """The server cannot be reached or is not ready: exit code 75, the same command may succeed later."""

    exit_code = ExitCode.INTERRUPTED


class AbsentError(InputError):
    """There is no object of that name, or no such kind of object."""


class TakenError(InputError):
    """There is an object of that name already."""


class DeniedError(InputError):
    """The server does not know the caller, or does not allow it this verb."""


class WorkflowApi(Protocol):
    """One namespace of a cluster."""

    @property
    def namespace(self) -> str:
        """The namespace that every call is about."""

    @property
    def address(self) -> str:
        """Where the server is, for messages; no credentials in it."""

    def create_workflow(self, body: Body, *, dry_run: bool = False) -> Body:
        """The workflow as the server made it; with dry_run admitted and defaulted, but not stored."""

    def admit(self, body: Body) -> None:
        """Ask whether the server would take this Argo object, new or in place of another; nothing is stored.

        In its own namespace where it names one. Raises InputError with the server's reason.
        """

    def workflow(self, name: str) -> Body:
        """One workflow with its status; AbsentError where there is none of that name."""

    def workflows(self, selector: str = "") -> list[Body]:
        """Workflows with these labels, newest first."""

    def watch_workflow(self, name: str) -> Iterator[Body]:
        """The workflow now and after each change, until it is deleted or the connection ends.

        Ending says nothing about the workflow: the caller looks at what it got and asks again.
        """

    def stop_workflow(self, name: str) -> None:
        """No new pods, running ones get SIGTERM and their grace; the exit handler runs."""

    def template(self, name: str) -> Body:
        """A WorkflowTemplate; AbsentError where there is none of that name."""

    def pod_log(
        self, workflow: str, pod: str, *, since_time: str | None = None, follow: bool = False
    ) -> Iterator[str]:
        """Lines of a pod's main container, each behind its RFC 3339 time and a blank, without newline.

        workflow: the pod's; an Argo server finds pods only by it. since_time: only lines at or after it.
        With follow, what comes after the last newline is dropped: it may be half a line. Raises InputError
        when the pod is gone or has not started; UnreachableError when the connection breaks.
        """


def labels_of(body: Mapping[str, Any]) -> Mapping[str, str]:
    """Labels of any object, an empty mapping where it has none."""
    found: Mapping[str, str] = (body.get("metadata") or {}).get("labels") or {}
    return found
