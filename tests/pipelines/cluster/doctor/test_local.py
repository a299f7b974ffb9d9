"""This machine: versions and the command `hera`."""

import re
import tomllib
from pathlib import Path

import pytest

from pipelines.cluster.doctor import local
from pipelines.cluster.doctor.local import (
    HERA,
    SUPPORTED,
    hera_is_known,
    hera_results,
    hook_results,
    numbers,
    owners,
    versions,
)
from tests.conftest import REPOSITORY
from tests.pipelines.cluster.doctor.fakes import only, texts


def test_the_installed_packages_are_supported() -> None:
    text = only(versions(), "ok")
    assert re.search(r"Python 3\.\d+\.\d+, alpha-rl \d.*, hera-workflows 7\.\d.*, kubernetes \d+", text)


def test_the_supported_versions_are_those_that_the_package_asks_for() -> None:
    asked = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    for name, (oldest, unsupported) in SUPPORTED.items():
        wanted = f">={'.'.join(map(str, oldest))}" + (
            f",<{'.'.join(map(str, unsupported))}" if unsupported else ""
        )
        assert f"{name}{wanted}" in asked


@pytest.mark.parametrize(
    ("version", "level"),
    [("7.0.9", "error"), ("7.1.0", "ok"), ("7.10.0", "ok"), ("8.0.0", "error"), (None, "error")],
)
def test_a_hera_outside_the_supported_versions_is_an_error(
    monkeypatch: pytest.MonkeyPatch, version: str | None, level: str
) -> None:
    monkeypatch.setattr(local, "installed_version", lambda name: version if name == HERA else "40.0")
    found = texts(versions(), level)
    assert 'pip install "hera-workflows>=7.1,<8"' in found[-1] if level == "error" else found


@pytest.mark.parametrize(
    ("version", "expected"), [("7.1.0", (7, 1, 0)), ("8.0rc1", (8, 0)), ("33", (33,)), ("x", ())]
)
def test_versions_are_numbers(version: str, expected: tuple[int, ...]) -> None:
    assert numbers(version) == expected


class Package:
    """A distribution with or without a script `hera`."""

    def __init__(self, name: str, scripts: bool) -> None:
        from importlib.metadata import EntryPoint, EntryPoints

        points = [EntryPoint("hera", "x:y", "console_scripts")] if scripts else []
        self.metadata, self.entry_points = {"Name": name}, EntryPoints(points)


def test_owners_are_the_packages_with_such_a_script() -> None:
    packages = [Package("b", True), Package("a", True), Package("c", False)]
    assert owners(packages) == ["a", "b"]  # type: ignore[arg-type]
    assert owners() == [HERA]


@pytest.mark.parametrize(
    ("packages", "on_path", "text"),
    [
        ([HERA], "{scripts}/hera", "the command hera is hera-workflows's"),
        ([HERA], "/usr/bin/hera", "on PATH is /usr/bin/hera, not this environment's"),
        ([HERA], None, "is not on PATH (nor in this environment)"),
        ([], "{scripts}/hera", "installed by no package"),
        ([HERA, "thief"], "{scripts}/hera", "installed by hera-workflows and thief"),
    ],
)
def test_who_owns_hera(packages: list[str], on_path: str | None, text: str, tmp_path: Path) -> None:
    on_path = on_path and on_path.format(scripts=tmp_path)
    (result,) = hera_results(packages, on_path, tmp_path)
    assert text in result.what
    assert (result.level.value == "ok") is (text.startswith("the command hera is hera"))


def test_the_installed_hera_takes_our_commands() -> None:
    assert hera_is_known()


def test_a_hera_whose_class_moved_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.hera_hook.TARGET", "hera._cli.elsewhere")
    assert not hera_is_known()


@pytest.mark.parametrize(
    ("there", "known", "level", "text"),
    [
        (True, True, "ok", "hera knows our commands"),
        (False, True, "warning", "start-up line (alpha_rl_hera.pth) is not installed"),
        (True, False, "warning", "this Hera keeps its commands elsewhere"),
    ],
)
def test_what_the_hook_means(there: bool, known: bool, level: str, text: str) -> None:
    assert text in only(hook_results(there, known), level)


def test_the_hook_is_the_file_that_the_package_installs() -> None:
    assert (REPOSITORY / "pipelines" / local.HOOK).is_file()
