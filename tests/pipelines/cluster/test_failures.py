"""Every way in which a server says no is one line: what is wrong, where, what to do; never a credential."""

import json
from typing import Any

import pytest

from pipelines.cluster.api import AbsentError, DeniedError, TakenError, UnreachableError
from pipelines.cluster.failures import Call, Origin, answer_failure
from trainer.errors import InputError

KUBE = Origin("https://api:6443", "/home/me/.kube/config (context dev)")
ARGO = Origin("https://argo:2746", "ARGO_TOKEN", argo_server=True)
GET = Call("GET", ("apis", "x"), "get", "workflows.argoproj.io", "trading", "wf-1")
CREATE = Call("POST", ("apis", "x"), "create", "workflows.argoproj.io", "trading")
TEMPLATE = Call(
    "GET", ("x",), "get", "workflowtemplates.argoproj.io", "trading", "walkforward", "install it: render"
)
LOG = Call("GET", ("x",), "get", "pods/log", "trading", "wf-1-train-9")


def status(message: str, **details: str) -> dict[str, Any]:
    return {"kind": "Status", "message": message, "details": details}


FORBIDDEN = (
    'workflows.argoproj.io is forbidden: User "eve" cannot create resource "workflows" in API group '
    '"argoproj.io" in the namespace "trading"'
)

CASES: list[tuple[Call, int, Any, Origin, type[InputError], str]] = [
    (GET, 401, status("Unauthorized"), KUBE, DeniedError,
     "https://api:6443: the server does not accept the credentials; renew the credentials of "
     "/home/me/.kube/config (context dev)"),
    (GET, 401, {"code": 16, "message": "token not valid"}, Origin("https://argo:2746", "", True), DeniedError,
     "https://argo:2746: the server does not accept the credentials; set ARGO_TOKEN"),
    (CREATE, 403, status(FORBIDDEN), KUBE, DeniedError,
     "permission: not allowed to create workflows.argoproj.io in namespace trading; ask for a role with it; "
     "kubectl auth can-i create workflows.argoproj.io -n trading"),
    (CREATE, 403, {"code": 7, "message": FORBIDDEN}, ARGO, DeniedError,
     "permission: not allowed to create workflows.argoproj.io in namespace trading; ask for a role with it; "
     "kubectl auth can-i create workflows.argoproj.io -n trading"),
    (CREATE, 403, status('workflows "x" is forbidden: exceeded quota: q'), KUBE, InputError,
     'create workflows: workflows "x" is forbidden: exceeded quota: q; ask who runs the cluster'),
    (CREATE, 403, status("admission webhook policy denied the request: no"), KUBE, InputError,
     "create workflows: admission webhook policy denied the request: no; ask who runs the cluster"),
    (GET, 404, status('workflows.argoproj.io "wf-1" not found', name="wf-1", kind="workflows"), KUBE,
     AbsentError, "cluster: no workflow wf-1 in namespace trading; check the name and the namespace"),
    (TEMPLATE, 404, status('x "walkforward" not found', name="walkforward", kind="workflowtemplates"), KUBE,
     AbsentError, "cluster: no WorkflowTemplate walkforward in namespace trading; install it: render"),
    (TEMPLATE, 404, {"code": 5, "message": 'workflowtemplates.argoproj.io "walkforward" not found'}, ARGO,
     AbsentError, "cluster: no WorkflowTemplate walkforward in namespace trading; install it: render"),
    (LOG, 404, status('pods "wf-1-train-9" not found', name="wf-1-train-9", kind="pods"), KUBE, AbsentError,
     "cluster: no log of pod wf-1-train-9 in namespace trading; check the name and the namespace"),
    (CREATE, 404, status('namespaces "trading" not found', name="trading", kind="namespaces"), KUBE,
     AbsentError, "https://api:6443: no namespace trading; give another with --namespace"),
    (GET, 404, "404 page not found\n", KUBE, AbsentError,
     "https://api:6443: the cluster knows no workflows.argoproj.io; install Argo Workflows first"),
    (GET, 404, "404 page not found\n", ARGO, AbsentError,
     "https://argo:2746: no Argo server answers there (404); check --argo-server and ARGO_BASE_HREF"),
    (CREATE, 409, status("already exists"), KUBE, TakenError,
     "trading: workflows exists already; choose another name"),
    (CREATE, 422, status('Workflow "x" is invalid: spec.entrypoint: Required value'), KUBE, InputError,
     'create workflows: Workflow "x" is invalid: spec.entrypoint: Required value; correct it and try again'),
    (CREATE, 400, {"code": 3, "message": "templates.train: unresolved"}, ARGO, InputError,
     "create workflows: templates.train: unresolved; correct it and try again"),
    (CREATE, 500, {"code": 2, "message": "template walkforward not valid"}, ARGO, InputError,
     "create workflows: template walkforward not valid; correct it and try again"),
    (GET, 500, status("etcdserver: leader changed"), KUBE, UnreachableError,
     "https://api:6443: not ready (500): etcdserver: leader changed; try again in a moment"),
    (CREATE, 503, "upstream connect error", KUBE, UnreachableError,
     "https://api:6443: not ready (503): upstream connect error; try again in a moment"),
    (CREATE, 429, "", KUBE, UnreachableError,
     "https://api:6443: not ready (429): no message; try again in a moment"),
    (GET, 302, "", ARGO, InputError,
     "https://argo:2746: answers with a redirect (302); give the address of the API itself, "
     "not of a log-in page"),
    (GET, 400, "Client sent an HTTP request to an HTTPS server.\n", ARGO, InputError,
     "https://argo:2746: the server speaks TLS; leave --insecure out"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "code", "body", "origin", "kind", "line"), CASES)
def test_an_answer_that_is_no_success_is_one_line(
    call: Call, code: int, body: Any, origin: Origin, kind: type[InputError], line: str
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    error = answer_failure(call, code, text, origin, "abc")
    assert type(error) is kind
    assert str(error) == line


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c", "e30.e30.x", "e30.bm8.x", "..", "é.é.é"])
def test_a_token_that_tells_no_expiry_is_just_not_accepted(token: str) -> None:
    assert "does not accept" in str(answer_failure(GET, 401, "", KUBE, token))


def test_a_name_cannot_reach_another_object() -> None:
    call = Call("GET", ("api", "v1", "pods", "../secrets/x?y"), "get", "pods", "n")
    assert call.url_path == "/api/v1/pods/..%2Fsecrets%2Fx%3Fy"
