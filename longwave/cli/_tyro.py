"""Commands from functions: options from the signature, help from the docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def run_command(name: str, function: Callable[..., Any], arguments: list[str]) -> Any:
    """Parse the options of `longwave NAME` and call the function, or make an instance of the class."""
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
