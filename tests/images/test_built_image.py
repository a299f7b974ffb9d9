"""The image, built for real with buildah on a small Debian base, and run as a pod would."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.slow
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def called(*command: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test image's archive; a minute where the base must be made first."""
    if os.geteuid() or not (shutil.which("buildah") and shutil.which("debootstrap")):
        pytest.skip("building needs root, buildah and debootstrap")
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the base has Python 3.11, whose packages it mounts")
    file = tmp_path_factory.mktemp("image") / "image.tar"
    done = called(str(ROOT / "images" / "test-image"), str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "localhost/alpha-rl:dev\n"
    return file


@pytest.fixture(scope="module")
def run(archive: Path) -> Iterator[Run]:
    """Runs a command in a container that mounts this environment's packages."""
    import numpy

    container = called("buildah", "from", "localhost/alpha-rl:dev").stdout.strip()
    packages = Path(numpy.__file__).parent.parent

    def inside(*command: str) -> "subprocess.CompletedProcess[str]":
        return called(
            "buildah", "run", "--volume", f"{packages}:/site-packages:ro", container, "--", *command
        )

    yield inside
    called("buildah", "rm", container)


def test_the_archive_carries_the_configuration_of_the_dockerfile(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        config = json.load(tar.extractfile(manifest["Config"]))["config"]  # type: ignore[arg-type]
    assert manifest["RepoTags"] == ["localhost/alpha-rl:dev"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["python", "-m", "trainer"]
    environment = dict(pair.split("=", 1) for pair in config["Env"])
    assert config["Labels"]["org.opencontainers.image.revision"] == environment["CODE_SHA"]
    assert not {"PIP_CERT", "PIP_NO_CACHE_DIR"} & environment.keys()


def test_it_runs_without_root_and_cannot_write_its_own_code(run: Run) -> None:
    done = run("/bin/sh", "-c", "id -u; id -g; touch /app/x /opt/venv/x 2>/dev/null || echo read-only")
    assert done.stdout.splitlines() == ["10001", "10001", "read-only"]
    assert run("find", "/usr", "/bin", "-xdev", "-perm", "/6000", "-type", "f").stdout == ""


def test_code_and_commit_are_found_and_every_module_has_byte_code(run: Run) -> None:
    code = (
        "import glob, importlib.util, trainer, pipelines; from trainer.learn.progress import code_sha;"
        "files = glob.glob('/app/**/*.py', recursive=True);"
        "missing = [f for f in files if not glob.glob(importlib.util.cache_from_source(f))];"
        "print(trainer.__path__[0], len(files) > 100, missing, len(code_sha()))"
    )
    assert run("python", "-c", code).stdout == "/app/trainer True [] 40\n"


def test_a_cpu_stage_runs_and_the_gate_says_what_is_missing(run: Run) -> None:
    script = (
        "python -m trainer prepare --preset demo --market planted --folds 1 --run-dir /tmp/r"
        " --cache-dir /tmp/c && python -m trainer gate --run-dir /tmp/r; code=$?;"
        " rm -r /tmp/r /tmp/c; exit $code"
    )
    done = run("/bin/sh", "-c", script)
    assert "exit code 3" in done.stdout, done.stderr[-500:]
    assert "fold 0: missing" in done.stdout


def test_the_build_refuses_to_forget_the_commit(archive: Path) -> None:
    options = ("--build-arg", "BASE_IMAGE=localhost/alpha-rl-base:bookworm", "--build-arg", "COMPILER=none")
    done = called("buildah", "build", *options, "--build-arg", "SITE_PACKAGES=/site-packages", str(ROOT))
    assert done.returncode != 0
    assert "give --build-arg CODE_SHA=<commit>" in done.stdout + done.stderr
