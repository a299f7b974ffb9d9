"""The cluster through an Argo server."""

import json
import re
from collections.abc import Iterator
from datetime import datetime

from pipelines.cluster.api import AbsentError, Body, UnreachableError
from pipelines.cluster.failures import GROUP, Call, answer_failure
from pipelines.cluster.kube import TEMPLATE_ABSENT, newest_first
from pipelines.cluster.transport import QUIET_S, Namespaced, QuietError, json_lines
from trainer.errors import InputError

# An Argo server keeps a quiet stream open for ever; whoever follows asks again after so long.
WATCH_S = 60.0
# Codes of gRPC, in which the server says what is wrong inside a stream, as HTTP's.
HTTP_OF_GRPC = {3: 400, 5: 404, 6: 409, 7: 403, 8: 429, 14: 503, 16: 401}
# Kind -> its path, and the field of the request that holds the object.
LINTED = {
    "Workflow": ("workflows", "workflow"),
    "WorkflowTemplate": ("workflow-templates", "template"),
    "ClusterWorkflowTemplate": ("cluster-workflow-templates", "template"),
    "CronWorkflow": ("cron-workflows", "cronWorkflow"),
}
# The server's own watch ended, or what it watched from is too old: neither says anything about the workflow.
ENDED = re.compile(r"EOF|too old|expired", re.IGNORECASE)


class EndedError(UnreachableError):
    """The server ended a stream that can be asked for again."""


class ServerApi(Namespaced):
    """`WorkflowApi` by requests to an Argo server's HTTP API."""

    def create_workflow(self, body: Body, *, dry_run: bool = False) -> Body:
        request: Body = {"namespace": self._namespace, "workflow": body}
        if dry_run:
            request["serverDryRun"] = True
        name = (body.get("metadata") or {}).get("name", "")
        return self._transport.ask(self._call("POST", "create", "workflows", name, path=()), request)

    def admit(self, body: Body) -> None:
        metadata, kind = body.get("metadata") or {}, str(body.get("kind"))
        namespace = str(metadata.get("namespace") or self._namespace)
        plural, key = LINTED[kind]
        scope = () if kind == "ClusterWorkflowTemplate" else (namespace,)
        call = Call(
            "POST",
            ("api", "v1", plural, *scope, "lint"),
            "create",
            f"{kind.lower()}s.{GROUP}",
            namespace,
            str(metadata.get("name") or metadata.get("generateName") or ""),
            absent="install the template that it refers to first",
        )
        self._transport.ask(call, {"namespace": namespace, key: body})

    def workflow(self, name: str) -> Body:
        return self._transport.ask(self._call("GET", "get", "workflows", name))

    def workflows(self, selector: str = "") -> list[Body]:
        query = {"listOptions.labelSelector": selector} if selector else {}
        listed = self._transport.ask(self._call("GET", "list", "workflows", "", query=query, path=()))
        return newest_first(listed.get("items") or [])

    def watch_workflow(self, name: str) -> Iterator[Body]:
        now = self.workflow(name)
        yield now
        query = {
            "listOptions.fieldSelector": f"metadata.name={name}",
            "listOptions.resourceVersion": str(now["metadata"].get("resourceVersion", "")),
        }
        path = ("api", "v1", "workflow-events", self._namespace)
        call = Call("GET", path, "watch", f"workflows.{GROUP}", self._namespace, query=query)
        try:
            for result in self._results(call, "text/event-stream", WATCH_S):
                if result.get("type") == "DELETED":
                    return
                yield result.get("object") or {}
        except (QuietError, EndedError):
            return

    def stop_workflow(self, name: str) -> None:
        body: Body = {"namespace": self._namespace, "name": name}
        self._transport.ask(self._call("PUT", "patch", "workflows", name, path=(name, "stop")), body)

    def template(self, name: str) -> Body:
        path = ("api", "v1", "workflow-templates", self._namespace, name)
        absent = TEMPLATE_ABSENT.format(namespace=self._namespace)
        call = Call("GET", path, "get", f"workflowtemplates.{GROUP}", self._namespace, name, absent)
        return self._transport.ask(call)

    def pod_log(
        self, workflow: str, pod: str, *, since_time: str | None = None, follow: bool = False
    ) -> Iterator[str]:
        """As the protocol says, but `follow` gives what is there now, and ends.

        A server that follows does not take a broken stream of the kubelet up again, says nothing about it,
        and keeps the request open until the whole workflow has ended. Whoever follows asks again anyway.
        """
        query = {"podName": pod, "logOptions.container": "main", "logOptions.timestamps": "true"}
        if since_time is not None:
            query |= _proto_time(since_time)
        path = ("api", "v1", "workflows", self._namespace, workflow, "log")
        absent = "its workflow was deleted; the log of each attempt is on the claim of the runs"
        call = Call("GET", path, "get", "pods/log", self._namespace, pod, absent, query)
        num_lines = 0
        for result in self._results(call, "text/event-stream", QUIET_S):
            num_lines += 1
            yield str(result.get("content", ""))
        # The server does not tell an absent pod from a silent one.
        if not num_lines and since_time is None:
            what, do = "no line of it is there", "its pod has not started, was deleted, or wrote nothing"
            raise AbsentError(what, where=f"log of pod {pod}", do=do)

    def _results(self, call: Call, accept: str, quiet_s: float) -> Iterator[Body]:
        try:
            yield from self._told(call, accept, quiet_s)
        except InputError as error:
            # Before the stream has begun, the same is an answer of its own.
            if type(error) is InputError and ENDED.search(error.what):
                raise EndedError(error.what, where=self.address, do="ask again") from error
            raise

    def _told(self, call: Call, accept: str, quiet_s: float) -> Iterator[Body]:
        for message in json_lines(self._transport.lines(call, accept=accept, quiet_s=quiet_s)):
            if error := message.get("error"):
                text = str(error.get("message", ""))
                if ENDED.search(text):
                    raise EndedError(text, where=self.address, do="ask again")
                status = HTTP_OF_GRPC.get(int(error.get("grpc_code") or error.get("code") or 2), 500)
                raise answer_failure(call, status, json.dumps(error), self._transport.origin, "")
            yield message.get("result") or {}

    def _call(
        self,
        method: str,
        verb: str,
        plural: str,
        name: str,
        query: dict[str, str] | None = None,
        path: tuple[str, ...] | None = None,
    ) -> Call:
        below = (name,) if path is None else path
        whole = ("api", "v1", plural, self._namespace, *below)
        return Call(method, whole, verb, f"{plural}.{GROUP}", self._namespace, name, query=query or {})


def _proto_time(text: str) -> dict[str, str]:
    """An RFC 3339 time as the query fields of the protocol buffer that the server parses."""
    try:
        seconds = int(datetime.fromisoformat(text).timestamp())
    except ValueError as error:
        raise InputError(f"{text!r} is not a time", where="since", do="write 2024-03-01T09:30:00Z") from error
    return {"logOptions.sinceTime.seconds": str(seconds)}
