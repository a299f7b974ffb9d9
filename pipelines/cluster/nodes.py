"""Nodes of an Argo workflow: unpacked, with the names of their pods, and what they wait for.

Argo 4.0 and 4.1 name pods by the rule here; `runs.py` makes stages of the nodes.
"""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pipelines.cluster.api import Body
from trainer.errors import InputError

Node = Mapping[str, Any]
# Kubernetes names have 253 characters at most; Argo keeps 10 for the number and one for the dash.
PREFIX_LENGTH = 253 - 10 - 1
LOCK = re.compile(r"Waiting for (?P<lock>\S+/(?P<kind>Mutex|ConfigMap|Database)/(?P<name>\S+)) lock")
# What Argo says of a container that failed, and behind it the container's last words.
CONTAINER_END = re.compile(r"(?P<head>[\w-]+: \w+ \(exit code \d+\))(?:: (?P<words>.*))?", re.DOTALL)
# Lines that Argo's executor adds to the container's output (and so to its last words).
EXECUTOR_LINE = re.compile(
    r"^time=\S+ level=\w+ msg=.* argo=true\b|^\{.*\"argo\":\s*true\b|^Error: exit status \d+$"
)
LOCK_STATUS = re.compile(r"Lock status: (?P<free>-?\d+)/(?P<limit>\d+)")


def pod_name(workflow: str, node: str, template: str) -> str:
    """Name of the pod of a node: workflow, template and the 32-bit FNV-1a hash of the node's name."""
    if workflow == node:
        return workflow
    number = 0x811C9DC5
    for byte in node.encode():
        number = ((number ^ byte) * 0x01000193) & 0xFFFFFFFF
    prefix = f"{workflow}-{template}" if template else workflow
    return f"{prefix[:PREFIX_LENGTH]}-{number}"


def nodes_of(body: Body) -> dict[str, Node]:
    """Nodes by id, unpacked when the controller had to compress them.

    Raises:
        InputError: they are in a database that only an Argo server reads, or are damaged.
    """
    status, name = body.get("status") or {}, (body.get("metadata") or {}).get("name", "workflow")
    if packed := status.get("compressedNodes"):
        try:
            found = json.loads(_inflated(base64.b64decode(packed)))
        except (binascii.Error, zlib.error, ValueError) as error:
            do = "ask an Argo server instead (ARGO_SERVER)"
            raise InputError("its compressed node status is damaged", where=name, do=do) from error
        return dict(found)
    if status.get("offloadNodeStatusVersion") and not status.get("nodes"):
        do = "ask an Argo server instead (ARGO_SERVER), which can read it"
        raise InputError("its node status is kept in Argo's database", where=name, do=do)
    return dict(status.get("nodes") or {})


def _inflated(packed: bytes) -> bytes:
    """Of gzip data, which may have several members: Argo may compress in parallel."""
    text = b""
    while packed:
        member = zlib.decompressobj(wbits=31)
        text += member.decompress(packed) + member.flush()
        if not member.eof:
            raise ValueError("cut off")
        packed = member.unused_data
    return text


def lock_text(message: str, waiting: list[Node]) -> str:
    """A wait for a lock in words: `waits for semaphore gpu-pool (2 of 2 taken)`; others as they are.

    waiting: the mutexes that the workflow waits for, with their holders (status.synchronization).
    """
    lock, status = LOCK.search(message), LOCK_STATUS.search(message)
    if lock is None:
        return message
    kind = "semaphore" if lock["kind"] == "ConfigMap" else lock["kind"].lower()
    text = f"waits for {kind} {lock['name'].rpartition('/')[2]}"
    if kind == "mutex":
        holders = [str(item.get("holder", "")) for item in waiting if item.get("mutex") == lock["lock"]]
        # `namespace/workflow/node` or `workflow/node`; a holder without a slash is a node of this workflow.
        names = [part for holder in holders for part in holder.split("/")[-2:-1]]
        return text + (f", held by {names[0]}" if names else "")
    if status is not None:
        taken = int(status["limit"]) - int(status["free"])
        text += f" ({taken} of {status['limit']} taken)"
    return text


def parameters(spec: Node) -> dict[str, str]:
    """Arguments of a workflow's (or its template's) spec."""
    return values((spec.get("arguments") or {}).get("parameters"))


def inputs(node: Node) -> dict[str, str]:
    """Input parameters of a node."""
    return values((node.get("inputs") or {}).get("parameters"))


def values(listed: Any) -> dict[str, str]:
    """Values by name of Argo's list of parameters."""
    return {str(item["name"]): str(item["value"]) for item in listed or [] if "value" in item}


def one_line(text: Any) -> str:
    """The text without line breaks and repeated blanks; empty for None."""
    return " ".join(str(text or "").split())


def reason(message: Any) -> str:
    """A node's message as one line: of a container's last words the last line that is its own.

    Without a message of the container itself they are the end of its log: of a traceback, the exception; of
    a killed trainer, the step that it had reached.
    """
    text = str(message or "")
    found = CONTAINER_END.fullmatch(text.strip())
    if found is None:
        return one_line(text)
    lines = [one_line(line) for line in (found["words"] or "").splitlines()]
    own = [line for line in lines if line and not EXECUTOR_LINE.search(line)]
    return found["head"] + (f": {own[-1]}" if own else "")


def moment(text: Any) -> datetime | None:
    """A time of Kubernetes (`2026-11-30T03:21:06Z`); None where there is none."""
    try:
        return datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
