"""The real Helm, from PATH or the test cluster's programs; tests that need it are skipped without."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.chart.files import CHART
from pipelines.lint import LOADER

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
Template = Callable[..., list[dict[str, Any]]]


class HelmError(Exception):
    """What Helm wrote on stderr."""


@pytest.fixture(scope="session")
def helm() -> str:
    found = shutil.which("helm") or shutil.which(
        "helm", path=os.environ.get("CLUSTER_CACHE", str(CACHE / "argo-test-cluster")) + "/bin"
    )
    if found is None:
        pytest.skip("helm is neither on PATH nor among the test cluster's programs")
    return found


@pytest.fixture(scope="session")
def template(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """`helm template` with values given as a tree: the documents; HelmError with what it refused."""
    file = tmp_path_factory.mktemp("helm") / "values.json"

    def documents(values: dict[str, Any], namespace: str = "quant") -> list[dict[str, Any]]:
        file.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
        # A Helm built from source takes itself to be older than the chart asks for.
        command = [helm, "template", "trial", str(CHART), "--namespace", namespace, "--values", str(file)]
        done = subprocess.run(
            [*command, "--kube-version", "1.34.0"], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise HelmError(done.stderr)
        return [body for body in yaml.load_all(done.stdout, Loader=LOADER) if body]

    return documents
