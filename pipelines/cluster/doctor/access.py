"""Who may do what: the user's verbs, and the two of the pods' service account and no more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.cluster.api import Body, DeniedError
from pipelines.cluster.doctor.cluster import Cluster
from pipelines.cluster.doctor.result import Check, Result, error, ok, warning

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
ARGO = "argoproj.io"


@dataclass(frozen=True)
class Verb:
    """One permission: `get pods/log`."""

    verb: str
    resource: str
    group: str = ""
    needed_by: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.full}"

    @property
    def full(self) -> str:
        """Resource with its group, as kubectl and roles name it."""
        plain, slash, sub = self.resource.partition("/")
        return f"{plain}{'.' if self.group else ''}{self.group}{slash}{sub}"

    def attributes(self, namespace: str) -> Body:
        """As a review asks for it."""
        plain, _, sub = self.resource.partition("/")
        found = {"namespace": namespace, "verb": self.verb, "resource": plain, "group": self.group}
        return found | ({"subresource": sub} if sub else {})


NEEDED = (
    Verb("create", "workflows", ARGO, "submit, retry"),
    Verb("get", "workflows", ARGO, "status, logs, report, stop"),
    Verb("list", "workflows", ARGO, "status, and every command that takes a run id"),
    Verb("watch", "workflows", ARGO, "--watch, logs -f"),
    Verb("patch", "workflows", ARGO, "stop"),
    Verb("get", "workflowtemplates", ARGO, "submit"),
    Verb("get", "pods/log", "", "logs, status"),
)
# What kubectl and a person look at when a pod does not start; no command of ours fails without it.
USEFUL = (
    Verb("list", "pods", "", "kubectl get pods"),
    Verb("list", "events", "", "kubectl describe, why a pod is Pending"),
)
ACCOUNT_NEEDS = (Verb("create", "workflowtaskresults", ARGO), Verb("patch", "workflowtaskresults", ARGO))
# What somebody inside a pod would use first.
ACCOUNT_MUST_NOT = (
    Verb("get", "secrets"),
    Verb("create", "pods"),
    Verb("create", "pods/exec"),
    Verb("delete", "pods"),
    Verb("patch", "pods"),
    Verb("list", "configmaps"),
    Verb("create", "workflows", ARGO),
    Verb("delete", "persistentvolumeclaims"),
)


def user(cluster: Cluster) -> Iterator[Result]:
    """Each verb that a command needs, asked of the server itself."""
    asked = (*NEEDED, *USEFUL)
    bodies = [_review("SelfSubjectAccessReview", cluster.namespace, verb) for verb in asked]
    answers = cluster.reviews(f"{AUTHORIZATION}/selfsubjectaccessreviews", bodies)
    allowed = {verb for verb, answer in zip(asked, answers, strict=True) if _allowed(answer)}
    if allowed:
        yield ok(f"you may {told([verb for verb in asked if verb in allowed])}")
    for verb in asked:
        if verb in allowed:
            continue
        do = f"ask for a role in namespace {cluster.namespace} with {verb}"
        what = f"you may not {verb} (needed by {verb.needed_by})"
        yield error(what, do) if verb in NEEDED else warning(what, do)


def told(verbs: Sequence[Verb]) -> str:
    """`create, get workflows.argoproj.io; get pods/log`."""
    by_resource: dict[str, list[str]] = {}
    for verb in verbs:
        by_resource.setdefault(verb.full, []).append(verb.verb)
    return "; ".join(f"{', '.join(each)} {resource}" for resource, each in by_resource.items())


def account(cluster: Cluster) -> Iterator[Result]:
    """The pods' accounts are there, may report results to Argo, and may do nothing worth stealing."""
    demand = cluster.demand()
    names = sorted({demand.service_account, demand.executor_account})
    absent = [name for name in names if not cluster.exists(f"{cluster.own('serviceaccounts')}/{name}")]
    for name in absent:
        yield error(
            f"service account {name} is not in namespace {cluster.namespace}: no pod can be made",
            "install the chart, or name an account that is there (serviceAccount of the chart)",
        )
    for name in names:
        if name not in absent:
            needs = ACCOUNT_NEEDS if name == demand.executor_account else ()
            yield from _account(cluster, name, needs)


def _account(cluster: Cluster, name: str, needs: tuple[Verb, ...]) -> Iterator[Result]:
    may = _account_may(cluster, name, (*needs, *ACCOUNT_MUST_NOT))
    for verb in needs:
        if verb not in may:
            yield error(
                f"service account {name} may not {verb}: Argo never hears how a stage ended",
                f"bind a role with {verb} to it (the chart does)",
            )
    if excess := [str(verb) for verb in ACCOUNT_MUST_NOT if verb in may]:
        yield warning(
            f"service account {name} may also {', '.join(excess)}",
            "remove the role that allows it: "
            f"kubectl get rolebindings,clusterrolebindings -A -o wide | grep {name}",
        )
    if set(needs) <= may and not excess:
        nothing_more = f"and none of {len(ACCOUNT_MUST_NOT)} dangerous verbs"
        yield ok(f"service account {name} may {told(needs) or 'nothing'}, {nothing_more}")


def _account_may(cluster: Cluster, name: str, verbs: tuple[Verb, ...]) -> set[Verb]:
    namespace = cluster.namespace
    subject: Body = {
        "user": f"system:serviceaccount:{namespace}:{name}",
        "groups": [
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        ],
    }
    # The local form is what the built-in role `admin` of a namespace allows.
    path = f"{AUTHORIZATION}/namespaces/{namespace}/localsubjectaccessreviews"
    bodies = []
    for verb in verbs:
        body = _review("LocalSubjectAccessReview", namespace, verb)
        body["metadata"] = {"namespace": namespace}
        body["spec"] |= subject
        bodies.append(body)
    try:
        answers = cluster.reviews(path, bodies)
    except DeniedError as denied:
        ask = f"kubectl auth can-i --list -n {namespace} --as {subject['user']}"
        raise DeniedError(denied.what, do=f"have somebody who may ask: {ask}") from denied
    return {verb for verb, answer in zip(verbs, answers, strict=True) if _allowed(answer)}


def _review(kind: str, namespace: str, verb: Verb) -> Body:
    attributes = verb.attributes(namespace)
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": {"resourceAttributes": attributes}}


def _allowed(answer: Body) -> bool:
    status: dict[str, Any] = answer.get("status") or {}
    return bool(status.get("allowed")) and not status.get("denied")


CHECKS = [
    Check("access", "user-verbs", user),
    Check("access", "service-account", account),
]
