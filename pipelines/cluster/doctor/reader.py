"""Raw reads of one cluster's objects, beyond what the other commands need.

A read fails as those of `WorkflowApi` do: AbsentError, DeniedError, UnreachableError.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pipelines.cluster.api import Body, DeniedError
from pipelines.cluster.failures import Call
from trainer.errors import InputError

if TYPE_CHECKING:
    from pipelines.cluster.transport import Transport

ARGO = "/apis/argoproj.io/v1alpha1/namespaces/"
# Only name, labels and annotations: the content of a Secret never leaves the server.
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
# Shorter than for other commands: a check that waits says less than one that gives up.
ANSWER_S = 5.0


class HiddenError(InputError):
    """An Argo server shows workflows and templates, and nothing else of the cluster."""


class Reader(Protocol):
    """One connection. Every call is bounded in time and tried once."""

    def get(self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False) -> Body:
        """The JSON object at a path of the Kubernetes API, such as `/api/v1/nodes`."""

    def review(self, path: str, body: Body) -> Body:
        """The server's answer to a question about access; nothing is stored."""

    def date(self) -> str:
        """The `Date` header of an answer made now; empty where the server sends none."""


class ApiReader:
    """Through the Kubernetes API."""

    def __init__(self, transport: "Transport", namespace: str) -> None:
        self._transport, self._namespace = transport, namespace

    def get(self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False) -> Body:
        verb, resource, name = what_is_read(path)
        call = Call("GET", _parts(path), verb, resource, self._namespace, name, query=dict(params or {}))
        accept = METADATA.format("List" if verb == "list" else "") if metadata_only else "application/json"
        return self._asked(call, None, accept)

    def review(self, path: str, body: Body) -> Body:
        call = Call("POST", _parts(path), "create", _parts(path)[-1], self._namespace)
        return self._asked(call, body, "application/json")

    def date(self) -> str:
        return self._transport.date(("version",))

    def _asked(self, call: Call, body: Body | None, accept: str) -> Body:
        try:
            return self._transport.ask(call, body, accept=accept, answer_s=ANSWER_S)
        except DeniedError as denied:
            if denied.where != "permission":
                raise  # credentials that the server does not know: its own line says so
            raise DeniedError(f"not allowed to {call.verb} {call.resource}") from denied


class ArgoServerReader:
    """Through an Argo server: workflows and templates, by their paths in the Kubernetes API."""

    def __init__(self, transport: "Transport", namespace: str) -> None:
        self._transport, self._namespace = transport, namespace

    def get(self, path: str, params: Mapping[str, str] | None = None, *, metadata_only: bool = False) -> Body:
        verb, resource, name = what_is_read(path)
        kind = {"workflows.argoproj.io": "workflows", "workflowtemplates.argoproj.io": "workflow-templates"}
        if not path.startswith(ARGO) or resource not in kind:
            raise HiddenError("not visible through an Argo server")
        parts = ("api", "v1", kind[resource], self._namespace, *([name] if name else []))
        query = {f"listOptions.{key}": value for key, value in (params or {}).items()}
        call = Call("GET", parts, verb, resource, self._namespace, name, query=query)
        return self._transport.ask(call, answer_s=ANSWER_S)

    def server(self, page: str) -> Body:
        """`version`, or `info` with the one namespace that it is limited to."""
        call = Call("GET", ("api", "v1", page), "get", page, self._namespace)
        return self._transport.ask(call, answer_s=ANSWER_S)

    def review(self, path: str, body: Body) -> Body:
        raise HiddenError("not visible through an Argo server")

    def date(self) -> str:
        return self._transport.date(("api", "v1", "version"))


def what_is_read(path: str) -> tuple[str, str, str]:
    """(verb, resource as a role names it, name or nothing) of a path of the API."""
    parts = _parts(path)
    group = parts[1] if parts[0] == "apis" and len(parts) > 3 else ""
    rest = parts[3:] if parts[0] == "apis" else parts[2:]
    if rest[:1] == ("namespaces",) and len(rest) > 2:
        rest = rest[2:]
    if parts[0] not in ("api", "apis") or not rest:
        return "get", path, ""
    resource = f"{rest[0]}.{group}" if group else rest[0]
    return ("get", resource, rest[1]) if len(rest) > 1 else ("list", resource, "")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))
