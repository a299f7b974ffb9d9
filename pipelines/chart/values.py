"""Values of the Helm chart: those of the workflow template, and what the chart creates around it.

The chart spells them in camel case, as charts do, with seconds written out: `grace_s` is `graceSeconds`.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, field_validator, model_validator
from pydantic.alias_generators import to_camel

from pipelines.cluster.api import LABEL_VALUE
from pipelines.parameters import RunParameters, parameter_name, parameters_of
from pipelines.settings import ChartValues, Name, Values
from trainer.errors import InputError

Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(k|[KMGTPE]i?)?$")]
Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F.:]+/[0-9]{1,3}$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
# Anywhere but the link-local addresses, where clouds answer a machine's credentials.
ANYWHERE = "0.0.0.0/0"


def value_name(field: str) -> str:
    """Name in values.yaml: `gpu_pool_label` -> `gpuPoolLabel`, `grace_s` -> `graceSeconds`."""
    return to_camel(re.sub(r"_s$", "_seconds", field))


class Section(Values):
    """Base of what the chart alone knows; accepts Python's names too."""

    model_config = ConfigDict(alias_generator=value_name, validate_by_name=True, validate_by_alias=True)


class Storage(Section):
    """A claim that the chart makes; Helm keeps it when the release is uninstalled."""

    create: bool = Field(default=True, description="false: the claim exists already and is used as it is")
    size: Quantity = Field(default="200Gi", description="storage requested")
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = Field(
        default="ReadWriteMany",
        description="folds run on several nodes at once; ReadWriteOnce needs singleNode",
    )
    storage_class: str = Field(default="", description="storage class; empty: the cluster's default")


class Schedule(Section):
    """A CronWorkflow over the same template."""

    cron: str = Field(default="", description="five cron fields, such as '0 3 * * 6'; empty: no schedule")
    timezone: str = Field(default="Etc/UTC", description="time zone of the cron fields")
    concurrency_policy: Literal["Forbid", "Allow", "Replace"] = Field(
        default="Forbid", description="what happens while the last scheduled run is still going"
    )
    suspend: bool = Field(default=False, description="true: nothing starts until it is false again")
    starting_deadline_s: int = Field(
        default=3600, ge=0, description="seconds late that a missed start is still made up for"
    )
    kept_runs: int = Field(default=3, ge=0, description="workflows kept of each outcome")
    parameters: dict[str, str | int] = Field(
        default={}, description="workflow parameters that differ from the template's, such as {folds: 5}"
    )

    @field_validator("parameters")
    @classmethod
    def _known(cls, given: dict[str, str | int]) -> dict[str, str | int]:
        try:
            parameters_of([f"{name}={value}" for name, value in given.items()])
        except InputError as error:
            raise ValueError(str(error)) from error
        return given


class Endpoint(Section):
    """Where pods may connect to."""

    cidr: Cidr = Field(description="address range")
    port: Port = Field(default=443, description="TCP port")


class NetworkPolicy(Section):
    """Nothing reaches the pods; they reach names, the API server and the listed endpoints."""

    create: bool = Field(default=True, description="false: leave traffic to the cluster's own policies")
    api_server: tuple[Endpoint, ...] = Field(
        default=(Endpoint(cidr=ANYWHERE), Endpoint(cidr=ANYWHERE, port=6443)),
        description="the Kubernetes API, where Argo's containers report results; narrow it to its addresses",
    )
    s3: tuple[Endpoint, ...] = Field(default=(), description="object stores, when data or mirrors use S3")


class PriorityClass(Section):
    """A cluster-wide object; the name is the value priorityClass."""

    create: bool = Field(default=False, description="true: make the class that priorityClass names")
    value: int = Field(default=1000, le=1_000_000_000, description="higher goes first; 0 is the usual")
    preempts: bool = Field(default=False, description="true: evicts pods of lower priority to get a GPU")


class InstallValues(ChartValues):
    """Everything that `helm install` takes; a superset of what `walkforward render` needs."""

    model_config = Section.model_config

    cache_storage: Storage = Field(default=Storage(), description="named by cacheClaim")
    data_storage: Storage = Field(
        default=Storage(size="500Gi"), description="named by dataClaim, unless that is null"
    )
    single_node: bool = Field(
        default=False, description="all pods run on one node: only then does ReadWriteOnce not hang"
    )
    parallel_folds: int = Field(
        default=4, ge=1, description="training pods at once, over all runs: the GPUs of the pool"
    )
    create_service_account: bool = Field(
        default=True, description="make serviceAccount, its role and its binding"
    )
    instance_id: Annotated[str, StringConstraints(pattern=f"^({LABEL_VALUE})?$")] = Field(
        default="", description="instanceID of the controller, so that it takes the schedule; empty: none"
    )
    image_pull_secrets: tuple[Name, ...] = Field(
        default=(), description="secrets of a private registry, on the created service account"
    )
    schedule: Schedule = Field(default=Schedule(), description="no one needs to submit such runs")
    network_policy: NetworkPolicy = Field(default=NetworkPolicy(), description="for all pods of the pipeline")
    created_priority_class: PriorityClass = Field(default=PriorityClass(), description="of training pods")

    @model_validator(mode="after")
    def _agree(self) -> "InstallValues":
        for storage, used in ((self.cache_storage, True), (self.data_storage, bool(self.data_claim))):
            if used and storage.access_mode == "ReadWriteOnce" and not self.single_node:
                raise ValueError("ReadWriteOnce hangs when folds run on several nodes; set singleNode")
        if self.created_priority_class.create and not self.priority_class:
            raise ValueError("createdPriorityClass.create needs the name priorityClass")
        return self


def schema() -> dict[str, Any]:
    """JSON schema of values.yaml: unknown names refused, Helm's own `global` let through."""
    made = InstallValues.model_json_schema(by_alias=True)
    properties = made["properties"]
    del properties["namespace"]  # Helm's own option --namespace
    properties["global"] = {"type": "object", "description": "set by Helm when this is a subchart"}
    made["$defs"]["Schedule"]["properties"]["parameters"] |= {
        "additionalProperties": False,
        "properties": {
            parameter_name(name): {"type": ["string", "integer"], "description": field.description}
            for name, field in RunParameters.model_fields.items()
        },
    }
    _without_titles(made)
    return made


def _without_titles(node: Any) -> None:
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for item in node.values():
            _without_titles(item)
    elif isinstance(node, list):
        for item in node:
            _without_titles(item)
