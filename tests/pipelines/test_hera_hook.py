"""`hera submit`: our commands under Hera's own, in environments as the installers make them."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

import cappa
import pytest
import yaml

from pipelines.cli import Walkforward
from pipelines.golden import REPOSITORY
from pipelines.hera_hook import TARGET, Finder, extend, our_commands

HOOK = "alpha_rl_hera.pth"
WORKFLOW = """
from hera.workflows import Container, Workflow

with Workflow(generate_name="hello-", entrypoint="main") as workflow:
    Container(name="main", image="hello")
"""


def module(hera: type | None) -> ModuleType:
    made = ModuleType(TARGET)
    if hera is not None:
        made.Hera = hera  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    "hera",
    [
        None,
        type("Hera", (), {}),
        make_dataclass("Hera", [("commands", int)]),
        make_dataclass("Hera", [("subcommand", "NotDefinedAnywhere")]),
        make_dataclass("Hera", [("subcommand", int), ("verbose", bool)]),
    ],
)
def test_a_hera_of_another_form_is_left_alone(hera: type | None) -> None:
    found = module(hera)
    assert extend(found) is False
    assert getattr(found, "Hera", None) is hera


def test_our_commands_are_those_that_ask_a_cluster() -> None:
    (union, _) = get_args(get_type_hints(Walkforward, include_extras=True)["command"])
    everything = {cappa.Command.get(command).real_name() for command in get_args(union)}
    ours = {cappa.Command.get(command).real_name() for command in our_commands()}
    assert ours == everything - {"run", "data", "render", "lint"}


def test_other_modules_are_none_of_our_business() -> None:
    assert Finder.find_spec("hera.workflows") is None


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment that sees this one's packages, but not this project's installation."""

    path: Path

    @property
    def python(self) -> str:
        return str(self.path / "bin" / "python")

    @property
    def packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", vars={"base": str(self.path)}))

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        env = {key: value for key, value in os.environ.items() if not key.startswith(("ARGO_", "PYTHON"))}
        # Elsewhere, so that nothing is found because it lies in the current directory.
        return subprocess.run(
            words, cwd=self.path, env=env, capture_output=True, text=True, timeout=300, check=check
        )

    def hera(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.path / "bin" / "hera"), *words, check=check)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    made = Environment(tmp_path / "env")
    venv.create(made.path)
    # Packages by their path alone: Python reads no .pth files there, so this project's own are not active.
    (made.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    script = made.path / "bin" / "hera"
    script.write_text(f"#!{made.python}\nimport sys\nfrom hera.__main__ import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: the build must not find what earlier ones left."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    copy_source(source)
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=source, capture_output=True, text=True, check=True
    )
    return out / built.stdout.split()[-1]


def copy_source(to: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, to)
    for name in ("trainer", "pipelines"):
        shutil.copytree(REPOSITORY / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))


def check_hera(environment: Environment) -> None:
    """Our command and Hera's own both work."""
    shown = environment.hera("submit", "walkforward", "--folds", "3", "--dry-run")
    body = yaml.safe_load(shown.stdout)
    assert body["spec"]["workflowTemplateRef"] == {"name": "walkforward"}
    assert {"name": "folds", "value": "3"} in body["spec"]["arguments"]["parameters"]
    check_generate(environment)


def check_generate(environment: Environment) -> None:
    file = environment.path / "workflow.py"
    file.write_text(WORKFLOW)
    made = yaml.safe_load(environment.hera("generate", "yaml", str(file)).stdout)
    assert made["metadata"]["generateName"] == "hello-"


def test_hera_submit_works_from_the_wheel_and_without_it_hera_is_what_it_was(
    environment: Environment, wheel: Path
) -> None:
    refused = environment.hera("submit", "walkforward", check=False)
    assert refused.returncode != 0
    assert "Invalid command 'submit'" in refused.stderr + refused.stdout
    shutil.unpack_archive(wheel, environment.packages, "zip")
    check_hera(environment)
    bad = environment.hera("submit", "walkforward", "--folds", "0", check=False)
    assert bad.returncode == 2
    assert "hera: parameters: folds: Input should be greater than or equal to 1" in bad.stderr


def test_the_wheel_brings_the_line_and_no_script_called_hera(wheel: Path) -> None:
    import zipfile

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert HOOK in names
        assert f"pipelines/{HOOK}" not in names
        points = next(name for name in names if name.endswith("entry_points.txt"))
        assert "hera" not in archive.read(points).decode()
        line = archive.read(HOOK).decode()
    # Python executes only a line that begins so, and reads each line by itself.
    assert line.startswith("import ")
    assert line.count("\n") == 1


def test_a_python_that_is_not_hera_loads_nothing_of_ours(environment: Environment) -> None:
    (environment.packages / HOOK).write_text((REPOSITORY / "pipelines" / HOOK).read_text())
    (environment.packages / "source.pth").write_text(f"{REPOSITORY}\n")
    told = 'import sys; print("pipelines.h" "era_hook" in sys.modules, "pipelines" in sys.modules)'
    assert environment.run(environment.python, "-c", told).stdout == "False False\n"
    assert environment.run(environment.python, "-c", told, "hera").stdout == "True True\n"


def test_a_source_that_is_gone_is_silent(environment: Environment) -> None:
    (environment.packages / HOOK).write_text((REPOSITORY / "pipelines" / HOOK).read_text())
    done = environment.run(environment.python, "-c", "print('ok')", "hera")
    assert (done.stdout, done.stderr) == ("ok\n", "")


def pip(environment: Environment, *words: str) -> None:
    offline = ["--no-deps", "--no-index", "--disable-pip-version-check", "--no-build-isolation"]
    environment.run(sys.executable, "-m", "pip", "--python", environment.python, "install", *offline, *words)


def pip_editable(environment: Environment, wheel: Path) -> None:
    source = environment.path / "source"
    source.mkdir()
    copy_source(source)
    pip(environment, "-e", str(source))


def uv_pip(environment: Environment, wheel: Path) -> None:
    words = ["pip", "install", "--offline", "--no-deps", "--python", environment.python, str(wheel)]
    environment.run(uv(), *words)


def uv_sync(environment: Environment, wheel: Path) -> None:
    """A project of somebody else that depends on ours; of the dependencies nothing is fetched."""
    project = environment.path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(f"""
[project]
name = "desk"
version = "1"
requires-python = ">=3.11"
dependencies = ["alpha-rl"]

[tool.uv]
package = false
dependency-metadata = [{{ name = "alpha-rl", version = "0.1.0", requires-dist = [] }}]

[tool.uv.sources]
alpha-rl = {{ path = "{wheel}" }}
""")
    # --inexact: what else this environment needs is not uv's.
    env = f"UV_PROJECT_ENVIRONMENT={environment.path}"
    words = ["sync", "--offline", "--inexact", "--project", str(project)]
    environment.run("env", env, uv(), *words)


def uv() -> str:
    return str(Path(sys.executable).parent / "uv")


@pytest.mark.slow
@pytest.mark.parametrize(
    "install",
    [lambda env, wheel: pip(env, str(wheel)), pip_editable, uv_pip, uv_sync],
    ids=["pip", "pip-e", "uv-pip", "uv-sync"],
)
def test_hera_submit_works_and_is_gone_after_an_uninstall(
    install: Callable[[Environment, Path], None], environment: Environment, wheel: Path
) -> None:
    install(environment, wheel)
    assert (environment.packages / HOOK).exists()
    check_hera(environment)
    environment.run(
        sys.executable, "-m", "pip", "--python", environment.python, "uninstall", "-y", "alpha-rl"
    )
    assert not (environment.packages / HOOK).exists()
    assert environment.hera("submit", check=False).returncode != 0
    check_generate(environment)
