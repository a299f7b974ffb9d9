"""This machine: versions, and who owns the command `hera`."""

import platform
import shutil
import site
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType

from pipelines.cluster.doctor.result import Result, error, ok, warning

OWN = "alpha-rl"
HERA = "hera-workflows"
HOOK = "alpha_rl_hera.pth"
INSTEAD = "use walkforward submit, or"
# As pyproject.toml requires them: the first version that is supported, and the first that is not.
SUPPORTED: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    HERA: ((7, 1), (8,)),
    "kubernetes": ((33,), None),
}


def versions() -> Iterator[Result]:
    """Packages that talk to the cluster, against the versions that this package asks for."""
    found = {name: installed_version(name) for name in (OWN, *SUPPORTED)}
    told = ", ".join(f"{name} {version or 'absent'}" for name, version in found.items())
    yield ok(f"Python {platform.python_version()}, {told}")
    for name, (oldest, unsupported) in SUPPORTED.items():
        version = found[name]
        wanted = f">={_dotted(oldest)}" + (f",<{_dotted(unsupported)}" if unsupported else "")
        do = f'pip install "{name}{wanted}"'
        if version is None:
            yield error(f"{name} is not installed", do)
        elif numbers(version) < oldest or (unsupported and numbers(version) >= unsupported):
            yield error(f"{name} {version} is outside {wanted}", do)


def installed_version(name: str) -> str | None:
    """Version of a package of this environment."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """Leading numbers of a version: (7, 1, 0) of `7.1.0rc1`."""
    parts = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)


def owners(distributions: Iterable[metadata.Distribution] | None = None) -> list[str]:
    """Packages whose installation makes a script `hera`; the one installed last owns the file."""
    found = set()
    for package in metadata.distributions() if distributions is None else distributions:
        points = package.entry_points.select(group="console_scripts", name="hera")
        if points:
            found.add(package.metadata["Name"])
    return sorted(found)


def hera_command() -> Iterator[Result]:
    """Whose `hera` runs when it is typed, and whether it knows our commands."""
    yield from hera_results(owners(), shutil.which("hera"), Path(sysconfig.get_path("scripts")))
    yield from hook_results(hook_is_there(), hera_is_known())


def hera_results(packages: Sequence[str], on_path: str | None, scripts: Path) -> Iterator[Result]:
    """packages: that install a `hera`; on_path: what a shell finds; scripts: of this environment."""
    if packages != [HERA]:
        what = f"installed by {' and '.join(packages)}" if packages else "installed by no package"
        do = f"{INSTEAD} reinstall {HERA} last (pip install --force-reinstall --no-deps {HERA})"
        yield warning(f"the command hera is {what}: hera submit may not work", do)
    elif on_path is None:
        where = f"it is in {scripts}" if (scripts / "hera").exists() else "nor in this environment"
        yield warning(f"the command hera is not on PATH ({where})", f"{INSTEAD} activate the environment")
    elif Path(on_path).parent.resolve() != scripts.resolve():
        what = f"the command hera on PATH is {on_path}, not this environment's in {scripts}"
        yield warning(what, f"{INSTEAD} activate this environment")
    else:
        yield ok(f"the command hera is {HERA}'s: {on_path}")


def hook_is_there() -> bool:
    """Whether Python reads our line when it starts."""
    places = [*site.getsitepackages(), site.getusersitepackages()]
    return any((Path(place) / HOOK).exists() for place in places)


def hera_is_known() -> bool:
    """Whether the installed Hera's command class is the one that our commands fit into."""
    from pipelines import hera_hook

    probe = ModuleType("probe")
    try:
        probe.Hera = import_module(hera_hook.TARGET).Hera  # type: ignore[attr-defined]
    except (ImportError, AttributeError):
        return False
    return hera_hook.extend(probe)


def hook_results(there: bool, known: bool) -> Iterator[Result]:
    """there: the start-up line is installed; known: Hera's command class takes our commands."""
    if not there:
        yield warning(
            f"hera does not know submit: this package's start-up line ({HOOK}) is not installed",
            f"{INSTEAD} install this package again",
        )
    elif not known:
        yield warning(
            "hera does not know submit: this Hera keeps its commands elsewhere",
            f"{INSTEAD} install the version that this package asks for",
        )
    else:
        yield ok("hera knows our commands: hera submit walkforward")


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


CHECKS = [("versions", versions), ("hera-command", hera_command)]
