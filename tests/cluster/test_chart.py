"""The chart on a real cluster: install, submit with Argo's own command, uninstall, the run is still there."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.chart.files import CHART
from pipelines.chart.values import value_name
from pipelines.render import render
from pipelines.settings import ChartValues
from tests.cluster.harness import USER_ID, VALUES, Cluster, Namespace, waited_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(700)]
NAME = "wf-chart"
CLAIM = {"storageClass": NAME, "size": "1Gi"}
RUN = ("market=planted", "preset=demo", "folds=1", "n-steps=20", "checkpoint-every=10", "n-backtests=64",
       "per-capacity=16384", "git-branch=dev", "run-id=charted")  # fmt: skip


class Release:
    """The chart's release `walkforward` in its namespace, by Helm's own command."""

    def __init__(self, cluster: Cluster, values: Path) -> None:
        self.cluster, self.values = cluster, values

    def helm(self, *words: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            ["helm", *words, "--namespace", NAME], env=self.cluster.env, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not check, done.stderr
        return done

    def install(self, *options: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        return self.helm(
            "install", "walkforward", str(CHART), "--values", str(self.values), *options, check=check
        )

    def names(self, kind: str) -> set[str]:
        return {body["metadata"]["name"] for body in self.cluster.get("-n", NAME, kind)["items"]}


@pytest.fixture(scope="module")
def namespace(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """An empty namespace under restricted Pod Security, and a volume that only its claims can take."""
    disk = tmp_path_factory.mktemp("chart")
    disk.parent.chmod(0o755)
    os.chown(disk, USER_ID, USER_ID)
    made = Namespace(cluster, NAME, disk)
    made.remove()
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": NAME, "labels": labels}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": NAME,
        "hostPath": {"path": str(disk)},
    }
    bodies = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": NAME}, "spec": spec},
    ]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(bodies))
    yield made
    made.remove()


@pytest.fixture(scope="module")
def release(namespace: Namespace, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Not installed yet: the first test does it."""
    file = tmp_path_factory.mktemp("values") / "values.json"
    values: dict[str, Any] = {value_name(name): value for name, value in VALUES.items()}
    file.write_text(json.dumps({**values, "cacheStorage": CLAIM, "parallelFolds": 2}))
    return Release(namespace.cluster, file)


def trained(namespace: Namespace, release: Release) -> None:
    """Submits the run with Argo's own command and terminates it once its fold is trained."""
    words = [word for pair in RUN for word in ("-p", pair)]
    done = subprocess.run(
        ["argo", "submit", "--from", "wftmpl/walkforward", "-n", NAME, "-o", "name", *words],
        env=release.cluster.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()

    def has_trained() -> bool:
        nodes = namespace.workflow(name).get("status", {}).get("nodes", {}).values()
        failed = [node for node in nodes if node["phase"] in {"Failed", "Error"}]
        assert not failed, [node.get("message") for node in failed]
        return any(node.get("templateName") == "train" and node["phase"] == "Succeeded" for node in nodes)

    waited_for(f"trained fold of {name}", 480, has_trained, pause_s=1)
    end = '{"spec": {"shutdown": "Terminate"}}'
    release.cluster.kubectl("-n", NAME, "patch", "workflow", name, "--type=merge", "-p", end)
    namespace.ended(name, 120)


def test_a_claim_for_one_node_is_refused_before_anything_is_made(release: Release) -> None:
    """The chart makes no claim here: it looks at the one that is there."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "one-node", "namespace": NAME},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "absent",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    release.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(claim))
    existing = ("--set", "cacheClaim=one-node", "--set", "cacheStorage.create=false")
    refused = release.install(*existing, check=False)
    assert refused.returncode != 0
    assert "claim one-node allows ReadWriteOnce: it hangs" in refused.stderr
    assert release.names("workflowtemplates") == set()
    release.install(*existing, "--set", "singleNode=true", "--dry-run=server")
    release.cluster.kubectl("-n", NAME, "delete", "pvc", "one-node")


def test_install_submit_uninstall_and_the_run_is_still_there(namespace: Namespace, release: Release) -> None:
    notes = release.install("--set", "schedule.cron=0 3 * * 6", "--set", "schedule.suspend=true").stdout
    assert "argo submit --from wftmpl/walkforward -n wf-chart" in notes
    stored = release.cluster.get("-n", NAME, "workflowtemplate", "walkforward")
    ours = yaml.safe_load(render(ChartValues.model_validate({**VALUES, "namespace": NAME})))
    assert stored["spec"] == ours["spec"]
    assert release.names("cronworkflows") == {"walkforward"}

    trained(namespace, release)
    checkpoint = namespace.runs / "charted" / "fold0" / "checkpoint-20.bin"
    content = checkpoint.read_bytes()

    release.helm("uninstall", "walkforward", "--wait")
    assert (
        release.names("workflowtemplates")
        == release.names("roles")
        == release.names("cronworkflows")
        == set()
    )
    assert release.names("pvc") == {"feature-cache"}
    claim = release.cluster.get("-n", NAME, "pvc", "feature-cache")
    assert claim["status"]["phase"] == "Bound"
    assert checkpoint.read_bytes() == content


def test_a_second_install_takes_over_the_claim_that_stayed(namespace: Namespace, release: Release) -> None:
    before = release.cluster.get("-n", NAME, "pvc", "feature-cache")["metadata"]["uid"]
    release.install()
    assert release.cluster.get("-n", NAME, "pvc", "feature-cache")["metadata"]["uid"] == before
    done = namespace.marker("charted", "train", 0)
    trained(namespace, release)
    assert namespace.marker("charted", "train", 0) == done
    assert len(namespace.attempts("charted", 0)) == 1, "it trained again"


def test_an_upgrade_changes_the_number_of_parallel_folds(release: Release) -> None:
    changes = ("--values", str(release.values), "--set", "parallelFolds=1")
    release.helm("upgrade", "walkforward", str(CHART), *changes)
    held = release.cluster.get("-n", NAME, "configmap", "walkforward-semaphores")
    assert held["data"] == {"gpu-pool": "1"}
    release.helm("uninstall", "walkforward", "--wait")
