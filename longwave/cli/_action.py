"""How `predict`, `generate` and `stream` read their options: the run comes first, and says what they are."""

import dataclasses
import inspect
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longwave.cli import _early

if TYPE_CHECKING:
    from longwave.tasks.actions import Action
    from longwave.tasks.base import TaskConfig


def run_action(command: str, arguments: list[str]) -> None:
    """Do with a run what its kind of task can do for the command, and print what comes of it."""
    if not arguments or arguments[0].startswith("-"):
        is_help = arguments[:1] in (["-h"], ["--help"])
        print(_usage(command, _actions(command)), file=sys.stdout if is_help else sys.stderr)
        sys.exit(0 if is_help else 2)
    found = _early.find_run(arguments[0])
    _early.check_inputs(arguments[1:])
    import tyro

    from longwave.core.settings import check_numbers
    from longwave.train.folder import RunFolder

    folder = RunFolder.open(found)
    action = folder.settings.action(command)
    if action is None:
        kind = folder.settings.kind
        raise ValueError(
            f"{folder.path}: a run of the kind {kind} cannot {command}; {_other(folder.settings, folder.path)}"
        )
    _check_inputs_of(action, folder.settings.kind, arguments)
    options: Any = tyro.cli(
        action.options,
        prog=f"longwave {command} {arguments[0]}",
        description=inspect.getdoc(action.options),
        args=arguments[1:],
    )
    check_numbers(options)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8
    for piece in action.run(folder, options):
        print(piece, end="", flush=True)


def _check_inputs_of(action: "Action", kind: str, arguments: list[str]) -> None:
    """Refuse the input of another kind of run, and name that of this one."""
    own = {field.name for field in dataclasses.fields(action.options)}
    for option in (argument.partition("=")[0] for argument in arguments[1:] if argument.startswith("--")):
        name = option.removeprefix("--")
        if name in _early.INPUTS and name not in own:
            taken = " or ".join(f"--{other}" for other in _early.INPUTS if other in own)
            instead = f"expected {taken} instead" if taken else "it reads no file"
            raise ValueError(f"{option}: {arguments[0]} is a run of the kind {kind}; {instead}")


def _actions(command: str) -> "list[Action]":
    """What a command can do with runs of all kinds."""
    from longwave.tasks.base import TASKS

    return [action for settings in TASKS.values() if (action := settings.action(command))]


def _other(settings: "TaskConfig", path: Path) -> str:
    """What can be done with a run of that kind instead."""
    for command in ("predict", "generate"):
        if settings.action(command):
            return f"use longwave {command} {path}"
    return "longwave evaluate scores it"


def _usage(command: str, actions: "list[Action]") -> str:
    """What the command does for each kind of run."""
    lines = [
        f"usage: longwave {command} RUN [options]",
        "",
        "RUN is the folder of a trained or of a published run, or its name USER/NAME",
        "or USER/NAME@REVISION on the Hugging Face hub.",
        "",
    ]
    for options in dict.fromkeys(action.options for action in actions):
        lines += [inspect.getdoc(options) or "", ""]
    lines.append(f"longwave {command} RUN --help shows the options for that run.")
    return "\n".join(lines)
