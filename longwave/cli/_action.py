"""`predict`, `generate` and `stream`: the run comes first, and decides which options there are."""

import dataclasses
import inspect
import io
import sys
from typing import TYPE_CHECKING, Any

from longwave.cli import _early

if TYPE_CHECKING:
    from longwave.tasks.actions import Action


def run_action(command: str, arguments: list[str]) -> None:
    """Run a command as the run's kind of task implements it, and print its output."""
    if not arguments or arguments[0].startswith("-"):
        is_help = arguments[:1] in (["-h"], ["--help"])
        print(_usage(command), file=sys.stdout if is_help else sys.stderr)
        sys.exit(0 if is_help else 2)
    found = _early.find_run(arguments[0])
    _early.check_inputs(arguments[1:])
    import tyro

    from longwave.core.settings import check_numbers
    from longwave.train.folder import RunFolder

    folder = RunFolder.open(found)
    action = folder.settings.action(command)
    if action is None:
        kind, others = folder.settings.kind, filter(folder.settings.action, ("predict", "generate"))
        instead = f"use longwave {next(others, 'evaluate')} {folder.path}"
        raise ValueError(f"{folder.path}: a run of kind {kind} cannot {command}; {instead}")
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
    """Refuse the input of another kind of run, and name the one that this kind reads."""
    own = {field.name.replace("_", "-") for field in dataclasses.fields(action.options)}
    for option in (argument.partition("=")[0] for argument in arguments[1:] if argument.startswith("--")):
        name = option.removeprefix("--")
        if name in _early.INPUTS and name not in own:
            taken = " or ".join(f"--{other}" for other in _early.INPUTS if other in own and other != "future-csv")
            instead = f"expected {taken} instead" if taken else "it reads no file"
            raise ValueError(f"{option}: {arguments[0]} is a run of kind {kind}; {instead}")


def _usage(command: str) -> str:
    """Usage of a command, with what it does for each kind of run."""
    from longwave.tasks.base import TASKS

    actions = [action for settings in TASKS.values() if (action := settings.action(command))]
    parts = [
        f"usage: longwave {command} RUN [options]",
        "RUN is the folder of a run, also of a published one,\nor its USER/NAME or USER/NAME@REVISION on Hugging Face.",
        *(inspect.getdoc(options) or "" for options in dict.fromkeys(action.options for action in actions)),
        f"longwave {command} RUN --help shows the options for that run.",
    ]
    return "\n\n".join(parts)
