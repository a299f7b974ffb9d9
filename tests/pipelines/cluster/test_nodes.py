"""Nodes of a workflow: pod names, packed status, locks in words."""

import base64
import gzip
import json
from typing import Any

import pytest

from pipelines.cluster.nodes import PREFIX_LENGTH, lock_text, moment, nodes_of, pod_name, reason
from trainer.errors import InputError

NODES = {"a": {"id": "a", "name": "w", "phase": "Running"}}


def test_a_pod_is_named_by_workflow_template_and_hash_of_the_nodes_name() -> None:
    # Known values of FNV-1a, 32 bits: "a" is 0xe40c292c, "foobar" 0xbf9cf968.
    assert pod_name("w", "a", "train") == f"w-train-{0xE40C292C}"
    assert pod_name("w", "foobar", "") == f"w-{0xBF9CF968}"
    assert pod_name("w", "w", "train") == "w"


def test_a_long_pod_name_is_cut_before_the_hash() -> None:
    long = pod_name("w" * 200, "a", "t" * 100)
    assert long == f"{'w' * 200}-{'t' * (PREFIX_LENGTH - 201)}-{0xE40C292C}"
    assert len(long) <= 253


def body(status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "w"}, "status": status}


def test_nodes_are_read_plain_packed_and_packed_in_several_members() -> None:
    text = json.dumps(NODES).encode()
    packed = base64.b64encode(gzip.compress(text)).decode()
    members = base64.b64encode(gzip.compress(text[:10]) + gzip.compress(text[10:])).decode()
    assert nodes_of(body({"nodes": NODES})) == NODES
    assert nodes_of(body({"compressedNodes": packed})) == NODES
    assert nodes_of(body({"compressedNodes": members})) == NODES
    assert nodes_of({"metadata": {"name": "w"}}) == {}


@pytest.mark.parametrize(
    "packed",
    [
        "!",
        "AAAA",
        base64.b64encode(gzip.compress(b"{}" * 99)[:-9]).decode(),
        base64.b64encode(gzip.compress(b"no json")).decode(),
    ],
    # Not by value: what gzip writes holds the time.
    ids=["no base64", "no gzip", "cut", "no JSON"],
)
def test_damaged_packed_nodes_are_one_line(packed: str) -> None:
    with pytest.raises(InputError, match="w: its compressed node status is damaged; ask an Argo server"):
        nodes_of(body({"compressedNodes": packed}))


def test_nodes_in_argos_database_are_one_line_unless_the_server_put_them_in() -> None:
    with pytest.raises(InputError, match="kept in Argo's database; ask an Argo server instead"):
        nodes_of(body({"offloadNodeStatusVersion": "fnv:1"}))
    assert nodes_of(body({"offloadNodeStatusVersion": "fnv:1", "nodes": NODES})) == NODES


def test_a_lock_is_told_with_its_holder_or_count() -> None:
    mutex = "Waiting for argo/Mutex/walkforward-r-fold0 lock. Lock status: 0/1"
    waiting = [
        {"mutex": "argo/Mutex/other", "holder": "argo/no/no-1"},
        {"mutex": "argo/Mutex/walkforward-r-fold0", "holder": "argo/walkforward-abc/walkforward-abc-123"},
    ]
    assert lock_text(mutex, waiting) == "waits for mutex walkforward-r-fold0, held by walkforward-abc"
    assert lock_text(mutex, []) == "waits for mutex walkforward-r-fold0"
    semaphore = "Waiting for argo/ConfigMap/walkforward-semaphores/gpu-pool lock. Lock status: 0/2"
    assert lock_text(semaphore, []) == "waits for semaphore gpu-pool (2 of 2 taken)"
    assert lock_text("Backoff for 10 seconds", []) == "Backoff for 10 seconds"


def test_times_are_read_and_absent_ones_are_none() -> None:
    read = moment("2026-11-30T03:21:06Z")
    assert read is not None
    assert read.timestamp() == 1_796_008_866
    assert moment(None) is None
    assert moment("soon") is None


EXECUTOR = 'time=2026-11-30T04:17:18.298Z level=INFO msg="sub-process exited" argo=true error="exit status 1"'


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (None, ""),
        ("pod deleted", "pod deleted"),
        ("Unschedulable: 0/1 nodes\n are available", "Unschedulable: 0/1 nodes are available"),
        ("main: OOMKilled (exit code 137)", "main: OOMKilled (exit code 137)"),
        (
            "main: Error (exit code 2): bad.dbn: not a recording",
            "main: Error (exit code 2): bad.dbn: not a recording",
        ),
        (f"main: Error (exit code 137): {EXECUTOR}\n", "main: Error (exit code 137)"),
        (
            f"main: Error (exit code 1): Trace\n  File x\nValueError: no\n{EXECUTOR}\nError: exit status 1\n",
            "main: Error (exit code 1): ValueError: no",
        ),
        (
            'main: Error (exit code 137): step 5/9 wr=0.5\n{"time":"x","argo":true,"msg":"y"}\n',
            "main: Error (exit code 137): step 5/9 wr=0.5",
        ),
    ],
)
def test_a_reason_is_one_line_of_the_containers_own(message: str | None, line: str) -> None:
    assert reason(message) == line
