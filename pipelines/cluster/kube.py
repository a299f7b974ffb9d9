"""The cluster through the Kubernetes API."""

import json
from collections.abc import Iterator
from typing import Any

from pipelines.cluster.api import INSTANCE_LABEL, Body
from pipelines.cluster.failures import GROUP, Call, answer_failure
from pipelines.cluster.transport import JSON, Namespaced, QuietError, Transport, json_lines

VERSION = "v1alpha1"
# The API server ends a watch after so long; whoever follows asks again and sees what was missed.
WATCH_S = 60
MARGIN_S = 15
TEMPLATE_ABSENT = (
    "check --template and --namespace, or install it: walkforward render -n {namespace} | kubectl apply -f -"
)


class KubeApi(Namespaced):
    """`WorkflowApi` by requests to the Kubernetes API server.

    instance_id: lists hold only the workflows of the controller with this instanceID; empty: all.
    """

    def __init__(self, transport: Transport, namespace: str, instance_id: str = "") -> None:
        super().__init__(transport, namespace)
        self._instance_id = instance_id

    def create_workflow(self, body: Body, *, dry_run: bool = False) -> Body:
        query = {"fieldManager": "walkforward"} | ({"dryRun": "All"} if dry_run else {})
        name = (body.get("metadata") or {}).get("name", "")
        call = self._call("POST", "create", "workflows", name, query, self._path("workflows"))
        return self._transport.ask(call, body)

    def admit(self, body: Body) -> None:
        metadata, kind = body.get("metadata") or {}, str(body.get("kind"))
        name, namespace = str(metadata.get("name") or ""), metadata.get("namespace") or self._namespace
        plural = f"{kind.lower()}s"
        scope = () if kind == "ClusterWorkflowTemplate" else ("namespaces", str(namespace))
        path = ("apis", GROUP, VERSION, *scope, plural, *((name,) if name else ()))
        # Strict: a field that the server does not know is refused, not dropped.
        query = {"dryRun": "All", "fieldManager": "walkforward", "fieldValidation": "Strict"}
        # Apply: there may be one of that name.
        method, verb = ("PATCH", "patch") if name else ("POST", "create")
        query |= {"force": "true"} if name else {}
        call = Call(method, path, verb, f"{plural}.{GROUP}", str(namespace), name, query=query)
        self._transport.ask(call, body, "application/apply-patch+yaml" if name else JSON)

    def workflow(self, name: str) -> Body:
        return self._transport.ask(self._call("GET", "get", "workflows", name))

    def workflows(self, selector: str = "") -> list[Body]:
        own = f"{INSTANCE_LABEL}={self._instance_id}" if self._instance_id else ""
        selectors = ",".join(filter(None, (selector, own)))
        return newest_first(self._list({"labelSelector": selectors} if selectors else {}).get("items") or [])

    def watch_workflow(self, name: str) -> Iterator[Body]:
        only = {"fieldSelector": f"metadata.name={name}"}
        listed = self._list(only)
        if not listed.get("items"):
            self.workflow(name)  # raises: there is none of that name
        yield from listed.get("items") or []
        query = only | {
            "watch": "true",
            "resourceVersion": str((listed.get("metadata") or {}).get("resourceVersion", "")),
            "timeoutSeconds": str(WATCH_S),
        }
        call = self._call("GET", "watch", "workflows", "", query, self._path("workflows"))
        lines = self._transport.lines(call, accept="application/json", quiet_s=WATCH_S + MARGIN_S)
        try:
            for event in json_lines(lines):
                if event.get("type") == "ERROR":
                    self._end_or_raise(call, event.get("object") or {})
                    return
                if event.get("type") == "DELETED":
                    return
                yield event.get("object") or {}
        except QuietError:
            return

    def _end_or_raise(self, call: Call, status: Body) -> None:
        """An expired resource version ends the watch; any other error is one."""
        code = int(status.get("code") or 500)
        if code != 410:
            raise answer_failure(call, code, json.dumps(status), self._transport.origin, "")

    def stop_workflow(self, name: str) -> None:
        call = self._call("PATCH", "patch", "workflows", name)
        self._transport.ask(call, {"spec": {"shutdown": "Stop"}}, "application/merge-patch+json")

    def template(self, name: str) -> Body:
        absent = TEMPLATE_ABSENT.format(namespace=self._namespace)
        return self._transport.ask(self._call("GET", "get", "workflowtemplates", name, absent=absent))

    def pod_log(
        self, workflow: str, pod: str, *, since_time: str | None = None, follow: bool = False
    ) -> Iterator[str]:
        query = {"container": "main", "timestamps": "true"}
        if since_time is not None:
            query["sinceTime"] = since_time
        if follow:
            query["follow"] = "true"
        path = ("api", "v1", "namespaces", self._namespace, "pods", pod, "log")
        absent = "its pod was deleted; the log of each attempt is on the claim of the runs"
        call = Call("GET", path, "get", "pods/log", self._namespace, pod, absent, query)
        return self._transport.lines(call, accept="*/*", cut_tail=follow)

    def _list(self, query: dict[str, str]) -> Body:
        return self._transport.ask(self._call("GET", "list", "workflows", "", query, self._path("workflows")))

    def _path(self, plural: str, *name: str) -> tuple[str, ...]:
        return ("apis", GROUP, VERSION, "namespaces", self._namespace, plural, *name)

    def _call(
        self,
        method: str,
        verb: str,
        plural: str,
        name: str,
        query: dict[str, str] | None = None,
        path: tuple[str, ...] = (),
        **more: Any,
    ) -> Call:
        path = path or self._path(plural, name)
        return Call(method, path, verb, f"{plural}.{GROUP}", self._namespace, name, query=query or {}, **more)


def newest_first(workflows: list[Body]) -> list[Body]:
    """By creation time; the API server lists by name."""
    return sorted(workflows, key=lambda body: str(body["metadata"].get("creationTimestamp")), reverse=True)
