"""What pods may and may not: the restricted standard holds, and only Argo's container has credentials."""

import pytest

from tests.cluster.harness import Namespace, Twice

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
ACCOUNT = "system:serviceaccount:{}:walkforward"


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        ("create", "workflowtaskresults.argoproj.io", True),
        ("patch", "workflowtaskresults.argoproj.io", True),
        ("get", "workflowtaskresults.argoproj.io", False),
        ("delete", "workflowtaskresults.argoproj.io", False),
        ("create", "workflows.argoproj.io", False),
        ("get", "workflows.argoproj.io", False),
        ("get", "secrets", False),
        ("list", "pods", False),
        ("get", "pods", False),
        ("create", "pods", False),
        ("patch", "pods", False),
        ("get", "configmaps", False),
        ("update", "persistentvolumeclaims", False),
    ],
)
def test_the_service_account_may_report_results_and_nothing_else(
    namespace: Namespace, verb: str, resource: str, allowed: bool
) -> None:
    account = ACCOUNT.format(namespace.name)
    said = namespace.cluster.kubectl(
        "-n", namespace.name, "auth", "can-i", verb, resource, f"--as={account}", check=False
    )
    assert said.strip() == ("yes" if allowed else "no")


def test_pods_run_under_the_enforced_restricted_standard_without_a_token_or_a_writable_root(
    namespace: Namespace, twice: Twice
) -> None:
    labels = namespace.cluster.get("namespace", namespace.name)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pods = [
        pod
        for stage in ("prepare", "train", "evaluate", "gate", "finish")
        for pod in namespace.pods(twice.names[0], stage)
    ]
    assert len(pods) == 5, "a stage's pod was refused"
    for pod in pods:
        assert pod["spec"]["automountServiceAccountToken"] is False
        for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
            has_token = "/var/run/secrets/kubernetes.io/serviceaccount" in mounts
            assert has_token == (container["name"] in ("wait", "init")), container["name"]


def test_no_credentials_stand_in_the_workflow_or_its_logs(namespace: Namespace, twice: Twice) -> None:
    text = namespace.cluster.kubectl("-n", namespace.name, "get", "workflows", "-o", "yaml").lower()
    for name in twice.names:
        logs = namespace.command("logs", name, "--attempt", "all")
        assert "gate | " in logs.stdout.replace("/1 |", " |"), logs.stderr
        text += logs.stdout.lower()
    assert not [word for word in ("secret_access_key", "password", "bearer") if word in text]
