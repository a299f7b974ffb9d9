"""`walkforward lint --server`: what passes here is put to the cluster, and what it says is a finding."""

from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.golden import GOLDEN_DIR
from pipelines.lint import lint_files
from tests.pipelines.cluster.loopback import Answer, serving
from tests.pipelines.cluster.memory_api import MemoryApi
from trainer.errors import InputError


def test_the_fresh_template_is_put_to_the_cluster_for_its_namespace() -> None:
    api = MemoryApi()
    assert lint_files([], api) == []
    (asked,) = api.dry_runs
    assert (asked["kind"], asked["metadata"]["namespace"]) == ("WorkflowTemplate", "trading")


def test_every_document_is_put_to_it_and_each_refusal_is_a_finding(tmp_path: Path) -> None:
    both = tmp_path / "both.yaml"
    texts = [(GOLDEN_DIR / name).read_text() for name in ("walkforward.yaml", "workflow.yaml")]
    both.write_text("---\n".join(texts))
    api = MemoryApi()
    api.refused["Workflow"] = "metadata.labels: Invalid value"
    (finding,) = lint_files([both], api)
    assert str(finding) == (
        f"{both}: document: server: metadata.labels: Invalid value; correct it as the server asks"
    )
    assert [body["kind"] for body in api.dry_runs] == ["WorkflowTemplate", "Workflow"]


def test_what_has_a_finding_here_is_not_put_to_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: Pod\n")
    api = MemoryApi()
    assert len(lint_files([broken], api)) == 1
    assert api.dry_runs == []


def test_a_server_that_may_not_be_asked_is_an_error_and_no_finding() -> None:
    api = MemoryApi()
    api.denied.add("create")
    with pytest.raises(InputError):
        lint_files([], api)


def test_the_command_says_what_the_server_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = str(GOLDEN_DIR / "workflow.yaml")
    with serving(Answer({"message": "admission webhook denied it"}, 422)) as server:
        monkeypatch.setenv("ARGO_SERVER", server.url.removeprefix("http://"))
        monkeypatch.setenv("ARGO_TOKEN", "Bearer abc")
        assert main(["lint", golden]) == 0
        assert server.requests == []
        assert main(["lint", golden, "--server", "--insecure", "-n", "trading"]) == 2
    out = capsys.readouterr().out
    assert out == (
        f"{golden}: document: server: admission webhook denied it; correct it as the server asks\n"
    )


def test_a_cluster_that_cannot_be_reached_is_75(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARGO_SERVER", "127.0.0.1:9")
    assert main(["lint", str(GOLDEN_DIR / "workflow.yaml"), "--server", "-n", "trading"]) == 75
    assert "cannot connect" in capsys.readouterr().err
