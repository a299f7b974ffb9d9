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
RUN_ID = "charted"
RUN = ("market=planted", "preset=demo", "folds=1", "n-steps=400", "checkpoint-every=20", "n-backtests=64",
       "per-capacity=16384", "git-branch=dev", f"run-id={RUN_ID}")  # fmt: skip


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
    made.remove(wait=True)
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


def newest(namespace: Namespace) -> str:
    """Name of the newest workflow; Argo's own command sets no label of ours for the run."""
    found = namespace.cluster.get("-n", NAME, "workflows")["items"]
    return str(max(found, key=lambda body: body["metadata"]["creationTimestamp"])["metadata"]["name"])


def submitted(namespace: Namespace) -> str:
    """Submits the run with Argo's own command; the workflow's name."""
    words = [word for pair in RUN for word in ("-p", pair)]
    done = subprocess.run(
        ["argo", "submit", "--from", "wftmpl/walkforward", "-n", NAME, "-o", "name", *words],
        env=namespace.cluster.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def terminated(namespace: Namespace, name: str) -> None:
    """Ends a workflow without judging; returns when it has ended."""
    end = '{"spec": {"shutdown": "Terminate"}}'
    namespace.cluster.kubectl("-n", NAME, "patch", "workflow", name, "--type=merge", "-p", end)
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


def test_install_and_submit_with_argos_own_command(namespace: Namespace, release: Release) -> None:
    notes = release.install("--set", "schedule.cron=0 3 * * 6", "--set", "schedule.suspend=true").stdout
    assert "argo submit --from wftmpl/walkforward -n wf-chart" in notes
    stored = release.cluster.get("-n", NAME, "workflowtemplate", "walkforward")
    ours = yaml.safe_load(render(ChartValues.model_validate({**VALUES, "namespace": NAME})))
    assert stored["spec"] == ours["spec"]
    assert release.names("cronworkflows") == {"walkforward"}
    namespace.training_pod(submitted(namespace), RUN_ID, 0, step=20, seconds=240)


def test_an_upgrade_changes_the_release_and_not_the_run_that_trains(
    namespace: Namespace, release: Release
) -> None:
    name = newest(namespace)
    pod = namespace.training_pod(name, RUN_ID, 0, step=20)
    release.helm(
        "upgrade", "walkforward", str(CHART), "--values", str(release.values),
        "--set", "parallelFolds=1", "--set", "keptDays=3",
    )  # fmt: skip
    assert release.cluster.get("-n", NAME, "configmap", "walkforward-semaphores")["data"] == {"gpu-pool": "1"}
    spec = release.cluster.get("-n", NAME, "workflowtemplate", "walkforward")["spec"]
    assert spec["ttlStrategy"] == {"secondsAfterCompletion": 3 * 86_400}
    newest_step = namespace.newest_checkpoint(RUN_ID, 0)
    assert namespace.training_pod(name, RUN_ID, 0, step=newest_step + 20) == pod
    assert len(namespace.starts(RUN_ID, 0)) == 1


def test_an_uninstall_while_it_trains_keeps_the_claim_and_the_run_says_what_it_misses(
    namespace: Namespace, release: Release
) -> None:
    name = newest(namespace)
    namespace.training_pod(name, RUN_ID, 0, step=20)
    release.helm("uninstall", "walkforward", "--wait")
    gone = ("workflowtemplates", "roles", "cronworkflows")
    assert [release.names(kind) for kind in gone] == [set(), set(), set()]
    assert release.names("pvc") == {"feature-cache"}
    assert release.cluster.get("-n", NAME, "pvc", "feature-cache")["status"]["phase"] == "Bound"
    waited_for("end of training", 200, lambda: namespace.has_trained(RUN_ID, 0))
    missing = 'serviceaccount "walkforward" not found'
    waited_for("reason in status", 90, lambda: missing in namespace.command("status", name).stdout, pause_s=1)


def test_a_second_install_takes_over_the_claim_and_the_run_submitted_again_finds_what_was_trained(
    namespace: Namespace, release: Release
) -> None:
    before = release.cluster.get("-n", NAME, "pvc", "feature-cache")["metadata"]["uid"]
    marker = namespace.marker(RUN_ID, "train", 0)
    release.install()
    assert release.cluster.get("-n", NAME, "pvc", "feature-cache")["metadata"]["uid"] == before
    terminated(namespace, newest(namespace))
    name = submitted(namespace)
    waited_for("evaluation", 180, lambda: namespace.pods(name, "evaluate"), pause_s=1)
    assert namespace.marker(RUN_ID, "train", 0) == marker
    assert len(namespace.attempts(RUN_ID, 0)) == 1, "it trained again"
    terminated(namespace, name)
    release.helm("uninstall", "walkforward", "--wait")
