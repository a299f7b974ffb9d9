"""What went wrong with a call to a cluster, as one line for a person.

No line carries a credential: it is built from the address, the server's own message and the name of the place
that the credentials came from, never from headers.
"""

import base64
import binascii
import json
import re
import ssl
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import urllib3.exceptions as http

from pipelines.cluster.api import AbsentError, Body, DeniedError, TakenError, UnreachableError
from trainer.errors import InputError

GROUP = "argoproj.io"
# "User "x" cannot create resource "workflows" in API group ...": a missing permission, not an admission rule.
DENIED = re.compile(r'cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]+)"')


@dataclass(frozen=True)
class Call:
    """One request, and what it is about in the cluster's own terms.

    verb and resource as in a role (`get`, `workflows.argoproj.io`, `pods/log`); name: of the object, empty
    for a list; absent: what to do where there is none of that name.
    """

    method: str
    path: tuple[str, ...]
    verb: str
    resource: str
    namespace: str
    name: str = ""
    absent: str = "check the name and the namespace"
    query: dict[str, str] = field(default_factory=dict)

    @property
    def url_path(self) -> str:
        """The path with each part quoted, so that a name can never reach another object."""
        return "/" + "/".join(quote(part, safe="") for part in self.path)

    @property
    def subject(self) -> str:
        """`workflow x`, `pod log of y`, `workflows`: what a person calls it."""
        plain = self.resource.removesuffix(f".{GROUP}")
        one = {"workflows": "workflow", "workflowtemplates": "WorkflowTemplate", "pods/log": "log of pod"}
        return f"{one.get(plain, plain)} {self.name}" if self.name else plain


@dataclass(frozen=True)
class Origin:
    """Where a connection leads and where its credentials came from; safe to print."""

    address: str
    credentials: str
    argo_server: bool = False


def connection_failure(error: Exception, origin: Origin) -> InputError:
    """The line for a request that got no answer; UnreachableError where waiting may help."""
    cause = error
    while isinstance(cause, http.MaxRetryError) and cause.reason is not None:
        cause = cause.reason
    if isinstance(cause, http.SSLError | ssl.SSLError):
        return _tls_failure(cause, origin)
    if isinstance(cause, http.ProxyError):
        return UnreachableError(
            "the proxy cannot connect", where=origin.address, do="check HTTPS_PROXY, NO_PROXY and proxy-url"
        )
    do = "check the address and that the server is up, or try again"
    return UnreachableError(f"cannot connect: {_reason(cause)}", where=origin.address, do=do)


def _reason(error: Exception) -> str:
    if isinstance(error, http.NameResolutionError):
        return "the host name is unknown"
    text = str(error).lower()
    for known in ("connection refused", "no route to host", "network is unreachable", "connection reset"):
        if known in text:
            return known
    if isinstance(error, http.ConnectTimeoutError | http.ReadTimeoutError | TimeoutError):
        return "no answer in time"
    if isinstance(error, http.ProtocolError | http.IncompleteRead):
        return "the connection broke"
    return type(error).__name__


def _tls_failure(error: Exception, origin: Origin) -> InputError:
    text = str(error)
    if "WRONG_VERSION_NUMBER" in text or "record layer failure" in text:
        do = "use --insecure or ARGO_SECURE=false" if origin.argo_server else f"correct {origin.credentials}"
        return InputError("the server does not speak TLS", where=origin.address, do=do)
    verify = re.search(r"certificate verify failed: ([^(\]]+)", text)
    if verify:
        do = (
            "trust its authority (SSL_CERT_FILE), or skip the check with -k"
            if origin.argo_server
            else f"correct certificate-authority of {origin.credentials}"
        )
        return InputError(
            f"its certificate is not trusted: {verify.group(1).strip()}", where=origin.address, do=do
        )
    if "alert" in text.lower():
        do = f"check the client certificate of {origin.credentials}; it may have expired"
        return InputError("the server refuses the TLS handshake", where=origin.address, do=do)
    return UnreachableError(
        "the TLS handshake broke off", where=origin.address, do="try again; the server may be starting"
    )


def answer_failure(call: Call, status: int, text: str, origin: Origin, token: str) -> InputError:
    """The line for an answer that is no success. text: the body; token: only its expiry is read."""
    body = _json(text)
    message = " ".join(str(body.get("message") or text[:300] or "no message").split())
    if status == 401:
        return _unauthorized(origin, token)
    if status == 403:
        return _denied(call, message)
    if status == 404:
        return _absent(call, message, body, origin)
    if status == 409:
        return TakenError(f"{call.subject} exists already", where=call.namespace, do="choose another name")
    if status in (429, 502, 503, 504) or (status >= 500 and call.method == "GET"):
        return UnreachableError(
            f"not ready ({status}): {message}", where=origin.address, do="try again in a moment"
        )
    if "HTTP request to an HTTPS server" in text:
        return InputError("the server speaks TLS", where=origin.address, do="leave --insecure out")
    if status < 400:
        do = "give the address of the API itself, not of a log-in page"
        return InputError(f"answers with a redirect ({status})", where=origin.address, do=do)
    return InputError(message, where=f"{call.verb} {call.subject}".strip(), do="correct it and try again")


def _json(text: str) -> Body:
    """The body's object; of an Argo server that was asked for a stream, the error inside its event."""
    try:
        body = json.loads(text.strip().removeprefix("data:"))
    except ValueError:
        return {}
    found = body.get("error", body) if isinstance(body, dict) else {}
    return found if isinstance(found, dict) else body


def _unauthorized(origin: Origin, token: str) -> InputError:
    left = _seconds_left(token)
    what = "the server does not accept the credentials"
    if left is not None and left < 0:
        what = f"the token expired {_ago(-left)} ago"
    do = "set ARGO_TOKEN" if not origin.credentials else f"renew the credentials of {origin.credentials}"
    return DeniedError(what, where=origin.address, do=do)


def _seconds_left(token: str) -> float | None:
    """Seconds until a JSON web token expires; None for a token that does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"]) - time.time()
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None


def _ago(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _denied(call: Call, message: str) -> InputError:
    found = DENIED.search(message)
    if found is None and "forbidden" not in message.lower() and "permission" not in message.lower():
        return InputError(message, where=f"{call.verb} {call.subject}", do="ask who runs the cluster")
    if found is None and re.search(r"quota|violates|webhook", message):
        return InputError(message, where=f"{call.verb} {call.subject}", do="ask who runs the cluster")
    return DeniedError(
        f"not allowed to {call.verb} {call.resource} in namespace {call.namespace}",
        where="permission",
        do=f"ask for a role with it; kubectl auth can-i {call.verb} {call.resource} -n {call.namespace}",
    )


def _absent(call: Call, message: str, body: Body, origin: Origin) -> InputError:
    details = body.get("details") or {}
    if details.get("kind") == "namespaces" or re.search(r'namespaces "[^"]*" not found', message):
        return AbsentError(
            f"no namespace {call.namespace}", where=origin.address, do="give another with --namespace"
        )
    # An object that is missing is named; an unknown path or kind is not.
    if details.get("name") or ("not found" in message and "page not found" not in message):
        missing = call.subject if not details.get("name") else _named(details, call)
        return AbsentError(f"no {missing} in namespace {call.namespace}", where="cluster", do=call.absent)
    if origin.argo_server:
        do = "check --argo-server and ARGO_BASE_HREF"
        return AbsentError("no Argo server answers there (404)", where=origin.address, do=do)
    return AbsentError(
        f"the cluster knows no {call.resource}", where=origin.address, do="install Argo Workflows first"
    )


def _named(details: Body, call: Call) -> str:
    kind, name = str(details.get("kind", "")), str(details["name"])
    return call.subject if name == call.name or not kind else f"{kind.removesuffix('s')} {name}"
