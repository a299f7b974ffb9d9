"""What the Dockerfile promises: pinned, small, without root, nothing of the build machine in it."""

import re
import subprocess
from pathlib import Path

import pytest

from pipelines.settings import ChartValues

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
LINES = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
STAGES = [stage.splitlines() for stage in re.split(r"^FROM ", "\n".join(LINES), flags=re.MULTILINE)[1:]]
LAST = STAGES[-1]


def last(instruction: str) -> str:
    """The argument of the only such instruction of the last stage."""
    (line,) = (line for line in LAST if line.startswith(f"{instruction} "))
    return line.removeprefix(f"{instruction} ")


def test_every_stage_stands_on_the_chosen_base() -> None:
    assert [stage[0].split()[0] for stage in STAGES] == ["${BASE_IMAGE}"] * 2


def test_packages_come_from_the_lock_with_hashes_as_wheels() -> None:
    (install,) = (line for line in LINES if " install --no-compile" in line)
    assert {"--require-hashes", "--only-binary"} <= set(install.split())
    assert install.endswith("--requirement /build/runtime.txt")
    assert "COPY requirements/runtime.txt /build/" in LINES
    assert "PIP_NO_CACHE_DIR=1" in TEXT


def test_it_runs_as_the_user_that_the_pods_ask_for() -> None:
    user = ChartValues().user_id
    assert last("USER") == f"{user}:{user}"
    assert f"alpha-rl:x:{user}:{user}::/tmp:" in TEXT


def test_the_entry_point_is_in_exec_form_so_that_signals_arrive() -> None:
    assert last("ENTRYPOINT") == '["python", "-m", "trainer"]'


def test_the_commit_is_label_and_environment() -> None:
    assert 'org.opencontainers.image.revision="${CODE_SHA}"' in last("LABEL")
    assert last("ENV").startswith("CODE_SHA=${CODE_SHA} ")


def test_the_last_stage_takes_only_packages_and_code_and_installs_only_what_runs_need() -> None:
    assert [line for line in LAST if line.startswith("COPY ")] == [
        "COPY --from=build /opt/venv /opt/venv",
        "COPY --from=build /app /app",
    ]
    (run,) = (line for line in LAST if "apt-get install" in line)
    assert "--no-install-recommends" in run
    assert "rm -rf /var/lib/apt/lists/*" in run


def test_secrets_are_mounted_and_never_copied() -> None:
    assert TEXT.count("--mount=type=secret") == 2
    assert not re.search(r"^(COPY|ADD) .*(pip\.conf|ca\.crt|netrc)", TEXT, re.MULTILINE)
    assert not re.search(r"https?://|index-url|password|token", TEXT)


def test_the_build_sees_only_what_the_image_holds() -> None:
    entries = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert entries[1] == "*"
    assert {entry[1:] for entry in entries if entry.startswith("!")} == {
        "requirements/runtime.txt",
        "trainer",
        "pipelines",
    }


@pytest.mark.parametrize("script", ["build", "test-image"])
def test_the_scripts_are_valid_and_say_how_they_are_used(script: str) -> None:
    path = ROOT / "images" / script
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    done = subprocess.run([str(path), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert f"images/{script}" in done.stdout
