"""What we render passes Argo's own linter, offline; skipped where its program is nowhere."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pipelines.golden import CPU_VALUES
from pipelines.parameters import parameters_of
from pipelines.render import render
from pipelines.settings import ChartValues

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
VARIANTS = {
    "default": ChartValues(),
    "cpu": CPU_VALUES,
    "everything": ChartValues(
        artifact_repository=True,
        avoid_last_node=True,
        env_secret="store",
        priority_class="high",
        queue_name="gpus",
        gpu_tolerations=("a", "b"),
    ),
}


@pytest.fixture(scope="module")
def argo() -> str:
    tools = os.environ.get("CLUSTER_CACHE", str(CACHE / "argo-test-cluster")) + "/bin"
    found = shutil.which("argo") or shutil.which("argo", path=tools)
    if found is None:
        pytest.skip("argo is neither on PATH nor among the test cluster's programs")
    return found


def linted(argo: str, *files: Path) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "KUBECONFIG": "/dev/null"}
    words = [argo, "lint", "--offline", "--no-color", *map(str, files)]
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", list(VARIANTS))
def test_template_and_workflow_pass_argos_own_lint(name: str, argo: str, tmp_path: Path) -> None:
    values = VARIANTS[name]
    template, workflow = tmp_path / "template.yaml", tmp_path / "workflow.yaml"
    template.write_text(render(values))
    workflow.write_text(render(values, parameters_of(["folds=5", "market=planted"])))
    done = linted(argo, template, workflow)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no linting errors" in done.stdout


def test_argos_lint_finds_a_planted_defect(argo: str, tmp_path: Path) -> None:
    """Else the test above says nothing."""
    broken = tmp_path / "template.yaml"
    text = render(ChartValues())
    assert text.count("template: evaluate") == 1
    broken.write_text(text.replace("template: evaluate", "template: judge"))
    assert linted(argo, broken).returncode != 0
