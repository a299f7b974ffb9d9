"""Our cluster commands under Hera's own command: `hera submit walkforward --folds 3`.

Hera has no place for plug-ins, and two packages cannot both own a script called `hera`. So a line in
`alpha_rl_hera.pth`, which Python reads when it starts, imports this module when `hera` is a word of the
command line; it waits for Hera's private command class and puts our commands beside its own. Hera's script
and files stay as they are: without our package `hera` is what it was. Where a later Hera keeps that class
elsewhere, nothing happens here, and `walkforward doctor` says so.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.cli import Command

TARGET = "hera._cli.base"
PROGRAM = "hera"


class Finder:
    """On `sys.meta_path`: finds TARGET as Python would, and extends the module when it has been loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Of TARGET; every other module is left to the finders behind this one."""
        if name != TARGET:
            return None
        others = (finder for finder in sys.meta_path if finder is not Finder)
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target))), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_extend(module: ModuleType) -> None:
                load(module)
                extend(module)

            spec.loader.exec_module = load_and_extend  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Wait for Hera's command class."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


def extend(module: ModuleType) -> bool:
    """Put our commands beside Hera's; False, and nothing is changed, where its class is not the one known."""
    try:
        module.Hera = _with_ours(module.Hera)  # type: ignore[attr-defined]
    except Exception:  # `hera generate` must work whatever a later Hera, or our own code, is like
        return False
    return True


def _with_ours(hera: type) -> type:
    """A class like Hera's with the same field `subcommand`, of its commands and ours."""
    from dataclasses import fields, make_dataclass
    from functools import reduce
    from operator import or_
    from typing import get_type_hints

    from cappa import Subcommands

    if [field.name for field in fields(hera)] != ["subcommand"]:
        raise TypeError("Hera's command class has another form")
    known = get_type_hints(hera)["subcommand"]
    commands: Any = Subcommands[reduce(or_, our_commands(), known)]  # type: ignore[misc]
    return make_dataclass(hera.__name__, [("subcommand", commands)], bases=(hera,))


def our_commands() -> list[type]:
    """Our cluster commands, each to be called by Hera's main function."""
    from pipelines.commands.cluster import Report, Retry, Stop
    from pipelines.commands.doctor import Doctor
    from pipelines.commands.logs import Logs
    from pipelines.commands.status import Status
    from pipelines.commands.submit import HeraSubmit

    return [_invoked(cls) for cls in (HeraSubmit, Status, Logs, Stop, Retry, Report, Doctor)]


def _invoked(cls: type) -> type:
    """The command, with what Hera's main function calls for it."""
    import cappa

    def run(command: "Command") -> None:
        from pipelines.cli import run_command

        raise SystemExit(run_command(command, PROGRAM))

    # The library hands over the parsed command by its type.
    run.__annotations__["command"] = cls
    known: Any = cappa.Command.get(cls)
    return cappa.command(name=known.name, help=known.help, description=known.description, invoke=run)(cls)


install()
