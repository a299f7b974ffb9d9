"""What holds for the repository as a whole: layout, locks, documents and import directions."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
DIRECTORIES = {
    "pipelines",
    "trainer",
    "images",
    "charts",
    "tests",
    "benchmarks",
    "docs",
    "requirements",
    ".ci",
}
ROOT_FILES = {
    ".dockerignore",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "Dockerfile",
    "LICENSE",
    "Makefile",
    "README.md",
    "pyproject.toml",
}


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Files of the work tree that git tracks or would add, relative to the root."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git work tree")
    return [Path(line) for line in done.stdout.splitlines() if (ROOT / line).is_file()]


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def runtime_requirements(project: dict) -> list[Requirement]:
    return [Requirement(line) for line in project["dependencies"]]


def dev_requirements(project: dict) -> list[Requirement]:
    return [Requirement(line) for line in project["optional-dependencies"]["dev"]]


def pins(lock: str, python: str = "") -> dict[str, str]:
    """Package to version of a lock file, for one Python version on Linux, or the first pin of each."""
    found: dict[str, str] = {}
    text = (ROOT / "requirements" / lock).read_text()
    for name, version, marker in re.findall(r"^([\w.-]+)==(\S+?)(?: ; (.*?))? \\$", text, re.MULTILINE):
        place = {"python_full_version": f"{python}.0", "python_version": python, "sys_platform": "linux"}
        if not marker or (python and Marker(marker).evaluate(place)):
            found[canonicalize_name(name)] = version
    return found


def test_top_level_holds_the_agreed_entries_only(files):
    directories = {path.parts[0] for path in files if len(path.parts) > 1}
    root_files = {path.name for path in files if len(path.parts) == 1}
    assert directories - DIRECTORIES == set()
    assert root_files - ROOT_FILES == set()


def test_licence_is_apache_and_names_the_holder(project):
    text = (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "Copyright 2026 The alpha-rl authors" in text


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_lock_names_no_index_and_no_machine_path(lock):
    found = [
        line
        for line in lock.read_text().splitlines()
        if re.search(r"://|--\w*(index|find-links)|@ |/tmp/", line)
    ]
    assert found == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_pin_of_a_lock_has_hashes(lock):
    blocks = re.split(r"^(?=[\w.-]+==)", lock.read_text(), flags=re.MULTILINE)[1:]
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert blocks


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_locks_satisfy_the_ranges_of_the_project(project, python):
    runtime, dev = pins("runtime.txt", python), pins("dev.txt", python)
    wanted = [(need, runtime) for need in runtime_requirements(project)]
    wanted += [(need, dev) for need in dev_requirements(project)]
    stale = [
        f"{need} (locked: {lock.get(canonicalize_name(need.name))})"
        for need, lock in wanted
        if not need.specifier.contains(lock.get(canonicalize_name(need.name), "0"))
    ]
    assert stale == [], "run `make lock`"


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_development_uses_the_versions_that_are_shipped(python):
    runtime, dev = pins("runtime.txt", python), pins("dev.txt", python)
    assert {name: dev.get(name) for name in runtime} == runtime


def test_boto3_is_recent(project):
    major, minor = map(int, pins("runtime.txt")["boto3"].split(".")[:2])
    assert (major, minor) >= (1, 40), "an old release means that the resolver backtracked"


def test_every_direct_dependency_is_explained(project):
    page = (ROOT / "docs" / "dependencies.md").read_text()
    explained = set(re.findall(r"^\| `([^`]+)` \| \w.* \| \w.* \|$", page, re.MULTILINE))
    direct = {need.name for need in runtime_requirements(project) + dev_requirements(project)}
    assert explained == direct


def test_no_file_names_this_machine_or_an_index(files):
    # A container's own paths are fine in the files that make containers. The test names no path of its own.
    own = [path for path in (ROOT, ROOT.parent / "shared", Path.home()) if len(path.parts) > 2]
    index = "py" + r"pi\.org|python" + r"hosted\.org"
    machine = "|".join([*(re.escape(str(path)) + r"\b" for path in own), "/" + "Users/", index])
    found = []
    for path in files:
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue  # an image or a data file
        found += [f"{path}: {match[0]}" for match in re.finditer(machine, text)]
    assert found == []


def test_pipelines_load_no_torch():
    program = (
        "import pkgutil, sys, importlib, pipelines\n"
        "names = [m.name for m in pkgutil.walk_packages(pipelines.__path__, 'pipelines.')]\n"
        "[importlib.import_module(name) for name in names if not name.endswith('__main__')]\n"
        "heavy = {'torch', 'scipy', 'pandas', 'trainer.learn', 'trainer.market'}\n"
        "print(len(names), sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    num_modules, loaded = done.stdout.split(" ", 1)
    assert int(num_modules) > 0
    assert loaded.strip() == "[]"


def test_import_directions_hold():
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert re.search(r"Contracts: \d+ kept, 0 broken", done.stdout)


def test_readme_names_existing_make_targets(targets):
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", (ROOT / "README.md").read_text(), re.DOTALL))
    named = set(re.findall(r"(?:^\s*|`|&& |; )make ([a-z-]+)", code, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_readme_links_lead_to_files():
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_ci_runs_existing_targets_lint_and_test_among_them(targets):
    script = ROOT / ".ci" / "run"
    run = re.findall(r"^make ([a-z-]+)$", script.read_text(), re.MULTILINE)
    assert {"lint", "test"} <= set(run) <= targets
    assert script.stat().st_mode & 0o100, ".ci/run is not executable"


def test_make_help_lists_every_documented_target(targets):
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in done.stdout.splitlines()}
    assert listed == targets
