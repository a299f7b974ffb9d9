"""The cluster of the `cluster` tests: used where it is up, started and ended again where it is not."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.harness import SITE_PACKAGES, STATE, TOOL, Cluster, Namespace
from tests.conftest import REPOSITORY

IMAGE_ARCHIVE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "alpha-rl" / "test-image.tar"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster whose node has the image of this code; skipped where the tool or its rights are absent."""
    if not TOOL.exists():
        pytest.skip(f"the cluster tool is absent ({TOOL}); set ALPHA_RL_CLUSTER to it")
    if os.geteuid() != 0 or shutil.which("nsenter") is None:
        pytest.skip("a test cluster needs root and nsenter")
    was_up = (STATE / "kubeconfig").exists()
    env = {**os.environ, "NODE_MOUNTS": f"{SITE_PACKAGES}:/site-packages"}
    if was_up:
        said = f"export KUBECONFIG={STATE}/kubeconfig PATH={_programs()}:$PATH"
    else:
        said = subprocess.run(
            [str(TOOL), "up"], env=env, stdout=subprocess.PIPE, text=True, timeout=1800, check=True
        ).stdout
    found = Cluster({**env, **_exports(said)})
    try:
        _load_image(found)
        yield found
    finally:
        if not was_up:
            found.tool("down")


def _programs() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "argo-test-cluster"
    return Path(os.environ.get("CLUSTER_CACHE", cache)) / "bin"


def _exports(said: str) -> dict[str, str]:
    """Variables of `export A=x PATH=y:$PATH` lines."""
    pairs = [word.partition("=") for word in shlex.split(said) if "=" in word]
    return {name: value.replace("$PATH", os.environ["PATH"]) for name, _, value in pairs}


def _load_image(cluster: Cluster) -> None:
    IMAGE_ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [str(REPOSITORY / "images" / "test-image"), str(IMAGE_ARCHIVE)],
        cwd=REPOSITORY,
        timeout=900,
        check=True,
    )
    cluster.tool("load", str(IMAGE_ARCHIVE))


@pytest.fixture(scope="session")
def namespace(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """A namespace under restricted Pod Security with the template; its files stay for a look afterwards."""
    made = Namespace(cluster, "wf-test", tmp_path_factory.mktemp("claim"))
    made.disk.parent.chmod(0o755)
    made.start()
    yield made
    made.remove()
