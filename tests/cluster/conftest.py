"""The cluster of the `cluster` tests: used where it is up, started and ended again where it is not."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.cluster.harness import (
    LONG,
    QUICK,
    SITE_PACKAGES,
    STATE,
    TOOL,
    Cluster,
    Namespace,
    Twice,
    waited_for,
)
from tests.conftest import REPOSITORY

IMAGE_ARCHIVE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "alpha-rl" / "test-image.tar"
# Set where the tests are one check of many, as in CI: a cluster that does not start skips them.
MAY_BE_ABSENT = "ALPHA_RL_CLUSTER_MAY_BE_ABSENT"
# Argo's controller looks at a workflow again after ten seconds, unless it is told otherwise: six times a run.
CONTROLLER = {"DEFAULT_REQUEUE_TIME": "1s"}
# The pods' bridge takes the lowest address of its ports, so that it changes as pods come and go: until the
# others have asked for the new one (half a minute), they do not reach the API server.
NETWORK, BRIDGE_ADDRESS = "/run/netns/argo-test-cluster", "0a:58:0a:58:00:01"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster whose node has the image of this code; skipped where the tool or its rights are absent."""
    if not TOOL.exists():
        pytest.skip(f"the cluster tool is absent ({TOOL}); set ALPHA_RL_CLUSTER to it")
    if os.geteuid() != 0 or shutil.which("nsenter") is None:
        pytest.skip("a test cluster needs root and nsenter")
    was_up = (STATE / "kubeconfig").exists()
    env = {**os.environ, **CONTROLLER, "NODE_MOUNTS": f"{SITE_PACKAGES}:/site-packages"}
    said = f"export KUBECONFIG={STATE}/kubeconfig PATH={_programs()}:$PATH" if was_up else _start(env)
    found = Cluster({**env, **_exports(said)})
    try:
        if was_up:
            found.tool("restart", "workflow-controller")  # with our settings
        subprocess.run(
            ["nsenter", f"--net={NETWORK}", "ip", "link", "set", "dev", "cni0", "address", BRIDGE_ADDRESS],
            check=True,
        )
        _load_image(found)
        yield found
    finally:
        if not was_up:
            found.tool("down")


def _start(env: dict[str, str]) -> str:
    """Starts the cluster; what its tool prints. Skips the tests where it may be absent and does not start."""
    done = subprocess.run(
        [str(TOOL), "up"], env=env, capture_output=True, text=True, timeout=1800, check=False
    )
    if done.returncode:
        subprocess.run([str(TOOL), "down"], env=env, capture_output=True, timeout=300, check=False)
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        if not os.environ.get(MAY_BE_ABSENT):
            pytest.fail(f"the cluster does not start:\n{done.stderr}", pytrace=False)
        pytest.skip(f"the cluster does not start: {last}")
    return done.stdout


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


@pytest.fixture(scope="session")
def undisturbed(namespace: Namespace) -> Callable[[], str]:
    """Digest of the final checkpoint of a run that nothing disturbs.

    It begins with the first test that asks for it and trains beside what that test does; whoever needs the
    digest, or wants to disturb the whole node, calls for it.
    """
    namespace.submit(*LONG, "--run-id", "undisturbed")

    @cache
    def digest() -> str:
        waited_for("end of training", 400, lambda: namespace.has_trained("undisturbed", 0))
        assert len(namespace.attempts("undisturbed", 0)) == 1
        return str(namespace.marker("undisturbed", "train", 0)["checkpoint_sha256"])

    return digest


@pytest.fixture(scope="session")
def twice(
    namespace: Namespace, argo_server: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Twice:
    """Two workflows of one run, submitted at once, the second through an Argo server; both have ended."""
    words = ("submit", "--git-branch", "dev", *QUICK, "--run-id", "twice")
    first = namespace.submit(*words[3:])
    with namespace.running(
        tmp_path_factory.mktemp("twice") / "second", *words, "--watch", **argo_server
    ) as second:
        second.process.wait(400)
    namespace.ended(first, 400)
    return Twice(namespace.named("twice"), second)


@pytest.fixture(scope="session")
def argo_server(cluster: Cluster) -> dict[str, str]:
    """Environment of commands that ask an Argo server, which is started unless it is up."""
    if not (STATE / "pid" / "argo-server").exists():
        cluster.tool("server")
    return {"ARGO_SERVER": "127.0.0.1:2746", "ARGO_SECURE": "false"}
