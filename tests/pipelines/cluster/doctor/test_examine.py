"""All checks together: a healthy cluster, each for itself, bounded in time, nothing written."""

import threading
import time

import pytest

from pipelines.cluster.api import UnreachableError
from pipelines.cluster.doctor import examine as examine_module
from pipelines.cluster.doctor.examine import CHECKS, Finding, examine_cluster
from pipelines.cluster.doctor.reader import ANSWER_S, HiddenError
from pipelines.cluster.doctor.result import Level
from tests.pipelines.cluster.doctor.fakes import TEMPLATE, FakeReader, cluster_of, healthy


def findings(reader: FakeReader, seconds: float = 5.0, raising: bool = True) -> list[Finding]:
    return list(examine_cluster(cluster_of(reader), seconds, raising=raising))


def test_a_healthy_cluster_has_only_ok() -> None:
    found = findings(healthy())
    assert [each for each in found if each.result.level is not Level.OK] == []
    silent = {"artifact-repository", "gpu-nodes-kept", "pull-secret", "priority-class", "kueue-queue"}
    silent |= {"architecture", "quota", "references"}
    assert {each.check for each in found} == {check.name for check in CHECKS} - silent


def test_groups_come_one_after_the_other() -> None:
    groups = [each.group for each in findings(healthy())]
    assert groups == sorted(groups, key=groups.index)


def test_every_object_is_read_once() -> None:
    reader = healthy()
    findings(reader)
    assert len(reader.calls) == len(set(reader.calls)) > 10


def test_denied_reads_are_warnings_that_name_the_read_and_disturb_no_other_check() -> None:
    reader = healthy()
    reader.denied = {"nodes", "persistentvolumeclaims"}
    found = findings(reader)
    assert not [each for each in found if each.result.level is Level.ERROR]
    warned = {each.check: each.result for each in found if each.result.level is Level.WARNING}
    assert set(warned) == {"claims", "pools", "gpu-nodes-kept", "image", "architecture"}
    assert warned["claims"].what == "claims: cannot look: not allowed to get persistentvolumeclaims"
    assert all(result.do for result in warned.values())


def test_everything_denied_leaves_no_error_and_no_traceback() -> None:
    class Closed(FakeReader):
        def get(self, path, params=None, *, metadata_only=False):  # type: ignore[no-untyped-def]
            self.denied = {path}
            return super().get(path, params, metadata_only=metadata_only)

    reader = Closed()
    reader.denied = {f"/apis/authorization.k8s.io/v1/{kind}" for kind in ("selfsubjectaccessreviews",)}
    assert {each.result.level for each in findings(reader)} <= {Level.OK, Level.WARNING, Level.ERROR}
    assert not [each for each in findings(reader) if "itself broke" in each.result.what]


def test_a_check_that_hangs_is_told_and_the_others_are_whole() -> None:
    forever = threading.Event()

    class Slow(FakeReader):
        def get(self, path, params=None, *, metadata_only=False):  # type: ignore[no-untyped-def]
            if path.endswith("/networkpolicies"):
                forever.wait(30)
            return super().get(path, params, metadata_only=metadata_only)

    reader = Slow()
    reader.__dict__.update(healthy().__dict__)
    started = time.monotonic()
    found = findings(reader, seconds=1.0)
    forever.set()
    assert time.monotonic() - started < 3.0
    late = [each for each in found if each.result.level is not Level.OK]
    assert [(each.check, each.result.what) for each in late] == [
        ("network-policy", "network-policy: no answer in time")
    ]


def test_a_connection_that_breaks_in_between_is_a_warning_of_that_check() -> None:
    reader = healthy()
    reader.failures[TEMPLATE.replace("templates/walkforward", "s")] = UnreachableError("the connection broke")
    (late,) = [each for each in findings(reader) if each.result.level is not Level.OK]
    assert (late.check, late.result.level) == ("controller", Level.WARNING)
    assert "the connection broke" in late.result.what


def test_an_object_of_an_unforeseen_shape_breaks_its_check_alone_unless_debugging() -> None:
    reader = healthy()
    reader.objects["/api/v1/nodes/cpu-1"]["status"]["allocatable"]["memory"] = "much"
    broken = [each for each in findings(reader, raising=False) if each.result.level is not Level.OK]
    assert {each.check for each in broken} == {"pools", "image", "architecture"}
    assert all("'much' is not a quantity" in each.result.what for each in broken)
    with pytest.raises(ValueError, match="much"):
        findings(reader, raising=True)


def test_what_an_argo_server_hides_is_one_line() -> None:
    class Hiding(FakeReader):
        def get(self, path, params=None, *, metadata_only=False):  # type: ignore[no-untyped-def]
            if "/workflow" not in path or "/configmaps/" in path:
                raise HiddenError("hidden")
            return super().get(path, params, metadata_only=metadata_only)

        def review(self, path, body):  # type: ignore[no-untyped-def]
            raise HiddenError("hidden")

    reader = Hiding()
    reader.__dict__.update(healthy().__dict__)
    found = findings(reader)
    (line,) = [each.result for each in found if each.group == "not seen"]
    assert "claims" in line.what
    assert "user-verbs" in line.what
    assert "cannot look" not in " ".join(each.result.what for each in found)
    assert [each.result.level for each in found if each.check == "current"] == [Level.OK]


def test_the_waits_are_those_promised() -> None:
    assert (examine_module.CONNECT_S, examine_module.CHECKS_S, ANSWER_S) == (6.0, 8.0, 5.0)
