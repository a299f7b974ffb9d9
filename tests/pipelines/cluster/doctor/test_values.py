"""Chart values read back from a rendered template."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.cluster.doctor.examine import rendered
from pipelines.cluster.doctor.template import current
from pipelines.cluster.doctor.values import FINDERS, values_of
from pipelines.render import chart_values
from pipelines.settings import ChartValues, PodResources
from tests.conftest import REPOSITORY
from tests.pipelines.cluster.doctor.fakes import cluster_of, golden, healthy

NAMES = st.from_regex(r"\A[a-z]([-a-z0-9]{0,8}[a-z0-9])?\Z")
SIZES = st.sampled_from(["1Gi", "512Mi", "3Gi"])
RESOURCES = st.builds(PodResources, cpu=st.sampled_from(["1", "500m"]), memory=SIZES)
VALUES = st.builds(
    ChartValues,
    namespace=NAMES,
    template_name=NAMES,
    image=st.sampled_from(["alpha-rl", "registry.example:5000/team/alpha-rl"]),
    image_pull_policy=st.sampled_from(["Always", "Never"]),
    service_account=NAMES,
    cache_claim=NAMES,
    cache_mount=st.just("/cache"),
    data_claim=NAMES,
    data_mount=st.just("/raw"),
    semaphore_config_map=NAMES,
    semaphore_key=NAMES,
    env_secret=st.sampled_from([None, "store"]),
    gpus=st.just(1),
    gpu_pool_label=st.sampled_from(["pool", ""]),
    keep_gpu_pool_free=st.booleans(),
    gpu_tolerations=st.lists(NAMES, max_size=2, unique=True).map(tuple),
    lost_node_toleration_s=st.integers(0, 300),
    avoid_last_node=st.booleans(),
    priority_class=st.sampled_from(["", "high"]),
    queue_name=st.sampled_from(["", "research"]),
    user_id=st.integers(1, 70_000),
    grace_s=st.integers(1, 300),
    patch_executor=st.booleans(),
    artifact_repository=st.booleans(),
    shm_size=SIZES,
    tmp_size=SIZES,
    cpu_resources=RESOURCES,
    small_resources=RESOURCES,
    gpu_resources=RESOURCES,
    kept_days=st.integers(1, 60),
    pod_gc_delay=st.sampled_from(["5m", "1h"]),
    train_deadline_s=st.integers(60, 100_000),
    prometheus=st.booleans(),
    # Without a pool nothing shows whether it would be kept free.
).filter(lambda values: values.gpu_pool_label or values.keep_gpu_pool_free)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values=VALUES)
def test_every_value_is_found_again(values: ChartValues) -> None:
    assert values_of(rendered(values)) == values


def test_the_defaults_are_found_again() -> None:
    assert values_of(golden()) == ChartValues()


def test_there_is_a_finder_for_every_value() -> None:
    assert set(FINDERS) == set(ChartValues.model_fields)


@pytest.mark.parametrize("values", [ChartValues(gpus=0, data_claim=None, gpu_pool_label="")], ids=["cpu"])
def test_values_that_leave_no_trace_are_the_defaults(values: ChartValues) -> None:
    found = values_of(rendered(values))
    assert rendered(found)["spec"] == rendered(values)["spec"]


def test_another_template_of_that_name_gives_its_name_and_defaults() -> None:
    body = {"metadata": {"name": "mine", "namespace": "x"}, "spec": {"templates": []}}
    assert values_of(body) == ChartValues(template_name="mine", namespace="x")


def test_a_value_that_no_chart_could_have_set_keeps_its_default() -> None:
    body = copy.deepcopy(golden())
    body["spec"]["securityContext"]["runAsUser"] = 0
    body["spec"]["podSpecPatch"] = "{not json"
    found = values_of(body)
    assert (found.user_id, found.grace_s) == (ChartValues().user_id, ChartValues().grace_s)
    assert found.cache_claim == "feature-cache"


def test_the_charts_own_values_file_can_be_compared_with() -> None:
    values = chart_values(REPOSITORY / "charts" / "walkforward" / "values.yaml")
    cluster = cluster_of(healthy(), values=values)
    assert [result.level.value for result in current(cluster)] == ["ok"]
