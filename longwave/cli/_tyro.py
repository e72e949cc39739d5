"""Commands made of functions: the signature gives the options, the docstring the help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def run_command(name: str, function: Callable[..., Any], arguments: list[str]) -> Any:
    """Call a function, or make an instance of a class, as `longwave NAME ...` asks for."""
    import tyro

    description = (inspect.getdoc(function) or "").partition("\n\nArgs:")[0]
    return tyro.cli(function, prog=f"longwave {name}", description=description, args=arguments)


def run_group(name: str, description: str, commands: Mapping[str, Callable[..., Any]], arguments: list[str]) -> Any:
    """Choose one of `commands` by the first argument, as in `longwave bench kernel`."""
    import tyro

    app = tyro.extras.SubcommandApp()
    for command, function in commands.items():
        app.command(name=command)(function)
    return app.cli(prog=f"longwave {name}", description=description, args=arguments)
