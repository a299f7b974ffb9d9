"""What Helm makes of the chart: the template is ours for any values, and what is created around it."""

import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from pydantic import ValidationError

from pipelines.chart.files import CHART, rendered
from pipelines.chart.values import InstallValues, value_name
from pipelines.golden import CPU_VALUES
from pipelines.lint import lint_text
from pipelines.settings import ChartValues
from tests.charts.conftest import HelmError, Template
from tests.charts.samples import template_values


def kinds(documents: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for body in documents:
        found.setdefault(body["kind"], []).append(body)
    return found


def written(values: ChartValues) -> dict[str, Any]:
    """Values as a user writes them in values.yaml."""
    body = values.model_dump(mode="json", exclude={"namespace"})
    return {value_name(name): value for name, value in body.items()}


def workflow_template(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return kinds(documents)["WorkflowTemplate"][0]


@pytest.mark.parametrize("values", [ChartValues(), CPU_VALUES], ids=["default", "cpu"])
def test_the_installed_template_is_the_rendered_one(template: Template, values: ChartValues) -> None:
    made = workflow_template(template(written(values), namespace="argo"))
    assert made == rendered(values)


# Shrinking would take minutes: every try starts Helm.
@settings(max_examples=10, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(values=template_values())
def test_any_values_give_the_rendered_template(template: Template, values: ChartValues) -> None:
    made = workflow_template(template(written(values), namespace=values.namespace))
    assert made == rendered(values)


def test_the_chart_passes_helms_own_strict_lint(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_document_of_argo_passes_our_lint(template: Template) -> None:
    schedule = {"cron": "0 3 * * 6", "parameters": {"folds": 5, "git-branch": "v1.2"}}
    for values in ({"schedule": schedule}, written(CPU_VALUES) | {"schedule": schedule}):
        found = kinds(template(values))
        argo = [*found["WorkflowTemplate"], *found["CronWorkflow"]]
        assert [str(finding) for finding in lint_text(yaml.safe_dump_all(argo), "chart")] == []


def test_the_default_release_has_all_that_the_template_names(template: Template) -> None:
    found = kinds(template({}))
    spec = found["WorkflowTemplate"][0]["spec"]
    claims = {
        volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"] if "emptyDir" not in volume
    }
    assert claims == {claim["metadata"]["name"] for claim in found["PersistentVolumeClaim"]}
    assert spec["serviceAccountName"] == found["ServiceAccount"][0]["metadata"]["name"]
    train = next(each for each in spec["templates"] if each["name"] == "train")
    key = train["synchronization"]["semaphores"][0]["configMapKeyRef"]
    assert found["ConfigMap"][0]["metadata"]["name"] == key["name"]
    assert found["ConfigMap"][0]["data"] == {key["key"]: "4"}
    assert not {"CronWorkflow", "PriorityClass"} & found.keys()


def test_claims_are_kept_and_open_to_several_nodes(template: Template) -> None:
    for claim in kinds(template({}))["PersistentVolumeClaim"]:
        assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


@pytest.mark.parametrize(
    ("values", "claims"),
    [
        ({"dataClaim": None}, ["feature-cache"]),
        ({"dataStorage": {"create": False}}, ["feature-cache"]),
        ({"cacheStorage": {"create": False}, "dataClaim": None}, []),
    ],
)
def test_a_claim_that_exists_already_is_not_made(
    template: Template, values: dict[str, Any], claims: list[str]
) -> None:
    made = kinds(template(values)).get("PersistentVolumeClaim", [])
    assert [claim["metadata"]["name"] for claim in made] == claims


def test_the_service_account_has_two_verbs_and_no_token_of_its_own(template: Template) -> None:
    found = kinds(template({"imagePullSecrets": ["registry"]}))
    account, role, binding = (found[kind][0] for kind in ("ServiceAccount", "Role", "RoleBinding"))
    assert account["automountServiceAccountToken"] is False
    assert account["imagePullSecrets"] == [{"name": "registry"}]
    rule = {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}
    assert role["rules"] == [rule]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "walkforward", "namespace": "quant"}]


def test_pods_get_the_accounts_token_where_the_template_does_not_mount_one(template: Template) -> None:
    found = kinds(template({"patchExecutor": False}))
    assert found["ServiceAccount"][0]["automountServiceAccountToken"] is True


def test_an_own_service_account_gets_no_role(template: Template) -> None:
    assert (
        not {"ServiceAccount", "Role", "RoleBinding"}
        & kinds(template({"createServiceAccount": False})).keys()
    )


def test_traffic_is_closed_but_for_names_the_api_server_and_s3(template: Template) -> None:
    values = {
        "networkPolicy": {
            "apiServer": [{"cidr": "10.0.0.1/32", "port": 6443}],
            "s3": [{"cidr": "10.9.0.0/16"}],
        }
    }
    spec = kinds(template(values))["NetworkPolicy"][0]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == []
    dns, api, s3 = spec["egress"]
    assert dns == {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    assert api == {
        "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}],
        "ports": [{"protocol": "TCP", "port": 6443}],
    }
    assert s3 == {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 443}]}


def test_the_network_policy_selects_every_pod_and_leaves_out_machine_credentials(template: Template) -> None:
    found = kinds(template({}))
    spec = found["NetworkPolicy"][0]["spec"]
    assert spec["podSelector"] == {"matchExpressions": [{"key": "alpha-rl/stage", "operator": "Exists"}]}
    containers = [each for each in found["WorkflowTemplate"][0]["spec"]["templates"] if "container" in each]
    assert all("alpha-rl/stage" in each["metadata"]["labels"] for each in containers)
    blocks = [to["ipBlock"] for rule in spec["egress"] for to in rule.get("to", [])]
    assert blocks
    assert all(block["except"] == ["169.254.0.0/16"] for block in blocks)


def test_a_schedule_submits_the_template_with_its_parameters(template: Template) -> None:
    schedule = {
        "cron": "0 3 * * 6",
        "timezone": "Europe/Paris",
        "parameters": {"folds": 5, "n-steps": 2_000_000},
    }
    made = kinds(template({"schedule": schedule, "templateName": "weekly"}))["CronWorkflow"][0]
    assert made["metadata"]["name"] == "weekly"
    assert made["spec"]["schedules"] == ["0 3 * * 6"]
    assert made["spec"]["timezone"] == "Europe/Paris"
    assert made["spec"]["concurrencyPolicy"] == "Forbid"
    workflow = made["spec"]["workflowSpec"]
    assert workflow["workflowTemplateRef"] == {"name": "weekly"}
    assert workflow["arguments"]["parameters"] == [
        {"name": "folds", "value": "5"},
        {"name": "n-steps", "value": "2000000"},
    ]


def test_a_schedule_is_for_the_controller_of_its_instance(template: Template) -> None:
    values = {"schedule": {"cron": "0 3 * * 6"}, "instanceId": "blue"}
    label = "workflows.argoproj.io/controller-instanceid"
    assert kinds(template(values))["CronWorkflow"][0]["metadata"]["labels"][label] == "blue"
    without = kinds(template({"schedule": values["schedule"]}))["CronWorkflow"][0]
    assert label not in without["metadata"]["labels"]


def test_a_priority_class_is_made_on_request_and_does_not_evict(template: Template) -> None:
    values = {"priorityClass": "training", "createdPriorityClass": {"create": True, "value": 50}}
    made = kinds(template(values))["PriorityClass"][0]
    assert (made["metadata"]["name"], made["value"], made["preemptionPolicy"]) == ("training", 50, "Never")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cacheStorage": {"accessMode": "ReadWriteOnce"}}, "set singleNode=true"),
        ({"dataStorage": {"accessMode": "ReadWriteOnce"}}, "set singleNode=true"),
        ({"createdPriorityClass": {"create": True}}, "needs the name priorityClass"),
        ({"replicas": 2}, "'replicas' not allowed"),
        ({"cpuResources": {"cpus": "2"}}, "'cpus' not allowed"),
        ({"schedule": {"parameters": {"fold": 5}}}, "'fold' not allowed"),
        ({"templateName": "Walkforward"}, "does not match pattern"),
        ({"templateName": "w" * 53}, "maxLength"),
        ({"gpus": 8}, "/gpus"),
        ({"graceSeconds": "120"}, "want integer"),
        ({"imagePullPolicy": "Sometimes"}, "/imagePullPolicy"),
        ({"parallelFolds": 0}, "/parallelFolds"),
        ({"trainDeadlineSeconds": 0}, "/trainDeadlineSeconds"),
        ({"instanceId": "a b"}, "/instanceId"),
    ],
)
def test_values_that_cannot_work_are_refused_by_helm_as_by_us(
    template: Template, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(HelmError, match=message):
        template(values)
    with pytest.raises(ValidationError):
        InstallValues.model_validate(values, strict=True)


def test_read_write_once_is_allowed_on_a_single_node(template: Template) -> None:
    values = {"singleNode": True, "cacheStorage": {"accessMode": "ReadWriteOnce", "storageClass": "fast"}}
    claim = kinds(template(values))["PersistentVolumeClaim"][0]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["storageClassName"] == "fast"
