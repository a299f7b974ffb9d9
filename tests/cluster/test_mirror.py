"""Data from a bucket, results to one: pods are killed, a volume is lost, the store stalls, refuses, goes."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness import Cluster, Namespace, waited_for
from tests.cluster.store import CLOSED, RECORDINGS, RESULTS, SECRET, Store, emptied
from trainer.data.synthetic import write_market
from trainer.errors import ExitCode
from trainer.presets import demo

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
MIRROR = f"s3://{RESULTS}/es"
STEPS = 100
# Longer than a test: ended by what happens to it.
ENDLESS = 100_000
CONFIG = "evaluate: {bootstrap_resamples: 100, random_traders: 2, tile_decisions: 1000}\n"
RUN = (
    *("--preset", "demo", "--config", "/feature-cache/mirror.yaml", "--folds", "1"),
    *("--checkpoint-every", "20", "--mirror", MIRROR),
)
# A fold alone: no gate, which says nothing new here.
ALONE = (*RUN, "--fold-idx", "0")


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def ready(cluster: Cluster, name: str, disk: Path) -> Namespace:
    """A namespace whose template reads the store's keys from a Secret."""
    made = Namespace(cluster, name, disk)
    disk.parent.chmod(0o755)
    made.start()
    made.install(env_secret=SECRET)
    (disk / "mirror.yaml").write_text(CONFIG)
    return made


def pods_of(body: dict[str, Any], stage: str) -> list[dict[str, Any]]:
    """A stage's attempts in the order of their start, as the Workflow has them."""
    nodes = [node for node in body.get("status", {}).get("nodes", {}).values() if node["type"] == "Pod"]
    found = [node for node in nodes if node.get("templateName") == stage]
    return sorted(found, key=lambda node: str(node.get("startedAt")))


@dataclass
class Place:
    """A namespace with a store in it, and recordings in the store."""

    namespace: Namespace
    store: Store

    def submit(self, run_id: str, *words: str, steps: int = STEPS, data: str = RECORDINGS) -> str:
        words = (*words, "--n-steps", str(steps), "--mbp10-data-dir", f"s3://{data}/es", "--run-id", run_id)
        return self.namespace.submit(*words)

    def fold(self, run_id: str) -> Path:
        return self.namespace.runs / run_id / "fold0"

    def dropped(self, workflow: str) -> None:
        """Ends a workflow of which all is known, and its pods at once: others need the cores."""
        kubectl, words = self.namespace.cluster.kubectl, ("-n", self.namespace.name, "delete", "--wait=false")
        kubectl(*words, "workflow", workflow)
        label = f"workflows.argoproj.io/workflow={workflow}"
        kubectl(*words, "pods", "-l", label, "--grace-period=0", "--force")

    def train_logs(self, workflow: str) -> list[list[str]]:
        """Lines of the training pods in the order of their start."""
        pods = self.namespace.pods(workflow, "train")
        pods.sort(key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
        words = ("-n", self.namespace.name, "logs", "-c", "main")
        return [self.namespace.cluster.kubectl(*words, pod["metadata"]["name"]).splitlines() for pod in pods]

    def failed(self, workflow: str, stage: str) -> list[dict[str, Any]]:
        """A stage's failed attempts as the Workflow has them, in the order of their start."""
        return [
            node for node in pods_of(self.namespace.workflow(workflow), stage) if node["phase"] == "Failed"
        ]

    def has_failed(self, pod: str) -> bool:
        found = self.namespace.cluster.get("-n", self.namespace.name, "pod", pod)
        return bool(found["status"]["phase"] == "Failed")

    def mirrored_step(self, run_id: str) -> int:
        """Step of the newest checkpoint in the bucket; 0 for none."""
        names = self.store.names(f"es/{run_id}/fold0")
        steps = [name[len("checkpoint-") : -len(".bin")] for name in names if name.startswith("checkpoint-")]
        return max(map(int, steps), default=0)


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    namespace = ready(cluster, "wf-s3", tmp_path_factory.mktemp("s3") / "claim")
    made = Place(namespace, Store(namespace, "store-1"))
    try:
        made.store.start()
        made.store.give_keys(namespace)
        config = demo().replaced(synthetic={"rows_per_session": 8192, "sessions": 2})
        for path in write_market(config, tmp_path_factory.mktemp("recordings")):
            made.store.client.upload_file(str(path), RECORDINGS, f"es/{path.name}")
        yield made
    finally:
        made.store.end()
        namespace.remove()


@pytest.fixture(scope="module")
def elsewhere(cluster: Cluster, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Another cluster, as far as the bucket can see: nothing is shared but the store and its keys."""
    namespace = ready(cluster, "wf-s3-elsewhere", tmp_path_factory.mktemp("elsewhere") / "claim")
    try:
        place.store.give_keys(namespace)
        yield Place(namespace, place.store)
    finally:
        namespace.remove()


@pytest.fixture(scope="module")
def begun(place: Place, elsewhere: Place) -> dict[str, str]:
    """Workflows that begin together, as starting pods is most of the time; by what happens to them."""
    names = {"whole": place.submit("whole", *RUN)}
    names["denied"] = place.submit("denied", *ALONE, data=CLOSED)
    waited_for("run in the bucket", 120, lambda: "run.json" in place.store.names("es/whole"))
    names["lost"] = place.submit("lost", *ALONE)
    names["other"] = elsewhere.submit("whole", *ALONE, "--seed", "5")
    return names


@pytest.fixture(scope="module")
def whole(place: Place, begun: dict[str, str]) -> dict[str, Any]:
    """A run that nobody disturbs, ended."""
    return place.namespace.ended(begun["whole"], 300)


def test_after_a_kill_while_it_uploads_a_lost_volume_is_restored_from_the_bucket(
    place: Place, begun: dict[str, str]
) -> None:
    namespace, store = place.namespace, place.store
    waited_for("checkpoint in the bucket", 120, lambda: place.mirrored_step("lost"), pause_s=0.1)
    store.freeze()
    try:
        # What is under way does not get there; training does not wait for it.
        began = namespace.newest_checkpoint("lost", 0)
        pod = namespace.training_pod(begun["lost"], "lost", 0, step=began + 1)
        namespace.cluster.tool("kill-pod", namespace.name, pod)
        waited_for("end of the pod", 60, lambda: place.has_failed(pod), pause_s=0.1)
        emptied(place.fold("lost"))
    finally:
        store.thaw()
    assert place.mirrored_step("lost") > 0, "the newest checkpoint in the bucket was removed"
    waited_for("end of training", 240, lambda: namespace.has_trained("lost", 0))
    first, second = [start["resumed_from_step"] for start in namespace.starts("lost", 0)]
    assert first == 0, "the history came back too"
    assert 0 < second <= began
    waited_for("end of sending", 60, lambda: "train.DONE.json" in store.names("es/lost/fold0"))
    uploads = store.client.list_multipart_uploads(Bucket=RESULTS, Prefix="es/lost/")
    assert "Uploads" not in uploads, "nobody would abort it any more"
    place.dropped(begun["lost"])


def test_the_restored_run_ends_with_the_bytes_of_the_whole_one(place: Place, whole: dict[str, Any]) -> None:
    assert whole["status"]["finishedAt"]
    markers = [place.namespace.marker(run_id, "train", 0) for run_id in ("whole", "lost")]
    assert markers[0] == markers[1]
    last = place.store.objects("es/lost")[f"fold0/{markers[1]['checkpoint']}"]
    assert digest(last) == markers[0]["checkpoint_sha256"]


def test_a_store_that_refuses_the_data_is_the_line_a_person_sees(place: Place, begun: dict[str, str]) -> None:
    body = place.namespace.ended(begun["denied"], 120)
    assert body["status"]["phase"] == "Failed"
    (prepare,) = pods_of(body, "prepare")
    assert prepare["outputs"]["exitCode"] == str(int(ExitCode.BAD_INPUT))
    said = (
        f"s3://{CLOSED}/es: access denied (HTTP 403); allow these credentials s3:ListBucket on the "
        "bucket and s3:GetObject on its objects"
    )
    assert prepare["message"] == f"main: Error (exit code 2): {said}"
    assert said in place.namespace.command("status", begun["denied"]).stdout


def test_a_run_id_of_another_configuration_is_refused_elsewhere(
    place: Place, elsewhere: Place, begun: dict[str, str], whole: dict[str, Any]
) -> None:
    assert whole["status"]["finishedAt"]
    body = elsewhere.namespace.ended(begun["other"], 120)
    (prepare,) = pods_of(body, "prepare")
    assert prepare["outputs"]["exitCode"] == str(int(ExitCode.MISMATCH))
    assert "/whole/run.json: config digest is " in prepare["message"]
    assert prepare["message"].endswith("; use another --run-id")
    run = json.loads(place.store.objects("es/whole")["run.json"])
    assert run["config"]["learn"]["seed"] == 0


def test_results_are_in_the_bucket_as_they_are_on_the_claim(place: Place, whole: dict[str, Any]) -> None:
    assert pods_of(whole, "gate")[0]["outputs"]["exitCode"] in ("0", "3", "4"), whole["status"]
    here = place.namespace.runs / "whole"
    there = {name: digest(body) for name, body in place.store.objects("es/whole").items()}
    files = {path.relative_to(here).as_posix(): path for path in here.rglob("*") if path.is_file()}
    # Not sent: locks, and what the exit handler notes, which has no keys. Older checkpoints may be there.
    expected = {name for name in files if Path(name).name not in (".lock", "ended.json")}
    left_out = {name for name in expected if "/checkpoint-" in name and name not in there}
    assert there == {name: digest(files[name].read_bytes()) for name in expected - left_out}
    marker = place.namespace.marker("whole", "train", 0)
    assert there[f"fold0/{marker['checkpoint']}"] == marker["checkpoint_sha256"]
    assert {"fold0/train.jsonl", "fold0/metrics.json", "report.html", "summary.json"} <= there.keys()


def test_the_data_came_from_the_bucket_verified(place: Place, whole: dict[str, Any]) -> None:
    assert whole["status"]["finishedAt"]
    records = list((place.namespace.disk / "alpha-rl-caches" / "downloads").glob("*/*.s3.json"))
    assert len(records) == 2
    assert all(json.loads(path.read_text())["verified_by"] for path in records)


def test_no_key_is_in_an_object_a_log_or_a_file(place: Place, whole: dict[str, Any]) -> None:
    namespace = place.namespace
    assert whole["status"]["finishedAt"]
    kinds = "workflowtemplates,workflows,workflowtaskresults,pods,events,configmaps"
    objects = namespace.cluster.kubectl("-n", namespace.name, "get", kinds, "-o", "yaml")
    assert f"name: {SECRET}" in objects, "the pods name no Secret"
    bodies = {kinds: objects.encode()}
    for pod in namespace.cluster.get("-n", namespace.name, "pods", "-l", "alpha-rl/stage")["items"]:
        name = pod["metadata"]["name"]
        words = ("-n", namespace.name, "logs", name, "--all-containers", "--ignore-errors")
        bodies[f"logs of {name}"] = namespace.cluster.kubectl(*words, check=False).encode()
    assert len(bodies) > 5
    bodies |= {str(path): path.read_bytes() for path in namespace.disk.rglob("*") if path.is_file()}
    bodies |= place.store.objects("es")
    for key in place.store.keys.values():
        assert [what for what, body in bodies.items() if key.encode() in body] == []


def test_a_later_start_elsewhere_goes_on_from_the_bucket_and_ends_the_earlier_one(
    place: Place, elsewhere: Place
) -> None:
    first = place.submit("moved", *ALONE, steps=ENDLESS)
    waited_for("checkpoint in the bucket", 120, lambda: place.mirrored_step("moved"), pause_s=0.2)
    second = elsewhere.submit("moved", *ALONE, steps=ENDLESS)
    waited_for("end of the first", 180, lambda: place.failed(first, "train"), pause_s=0.5)
    (train,) = place.failed(first, "train")
    assert train["outputs"]["exitCode"] == str(int(ExitCode.MISMATCH))
    before, taken_by = elsewhere.namespace.starts("moved", 0)
    assert before == place.namespace.starts("moved", 0)[0], "the history came along"
    assert f" {MIRROR}/moved/fold0: a later start sends this fold's files (process " in train["message"]
    assert f" of {taken_by['host']} since " in train["message"]
    assert "stop one of the two, or use another --run-id" in train["message"]
    assert taken_by["resumed_from_step"] > 0
    step = taken_by["resumed_from_step"]
    waited_for("its own checkpoint in the bucket", 60, lambda: place.mirrored_step("moved") > step)
    elsewhere.dropped(second)


def test_without_the_store_training_goes_on_and_a_new_store_gets_everything(
    place: Place, whole: dict[str, Any]
) -> None:
    assert whole["status"]["finishedAt"]
    namespace = place.namespace
    workflow = place.submit("outage", *ALONE)
    waited_for("checkpoint in the bucket", 120, lambda: place.mirrored_step("outage"), pause_s=0.1)
    place.store.end()
    place.store = Store(namespace, "store-2")
    place.store.start()
    place.store.give_keys(namespace)
    fold = "es/outage/fold0"
    waited_for("end of sending", 300, lambda: "train.DONE.json" in place.store.names(fold))
    said = place.failed(workflow, "train")[0]
    assert said["outputs"]["exitCode"] == str(int(ExitCode.INTERRUPTED))
    assert "no connection to http://" in said["message"]
    assert "the files here are whole; run the same command to send what is missing" in said["message"]
    first, *_, last = place.train_logs(workflow)  # one between begins before the new store does
    assert len([line for line in first if "the mirror is behind, the stage goes on: " in line]) == 1
    assert f"already trained: {STEPS} steps (checkpoint-{STEPS}.bin)" in last
    markers = [namespace.marker(run_id, "train", 0) for run_id in ("whole", "outage")]
    assert markers[0] == markers[1]
    there = {name: digest(body) for name, body in place.store.objects(fold).items()}
    assert there == {name: digest((place.fold("outage") / name).read_bytes()) for name in there}
    assert {markers[1]["checkpoint"], "train.jsonl", "attempts.jsonl", "logs/attempt-1.log"} <= there.keys()
    place.dropped(workflow)
