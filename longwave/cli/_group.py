"""Commands that have commands of their own, such as `longwave bench kernel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def run_group(name: str, description: str, commands: dict[str, Callable[..., Any]], arguments: list[str]) -> Any:
    """Choose one of `commands` by the first argument; its signature and docstring give its options and help."""
    import tyro

    app = tyro.extras.SubcommandApp()
    for command, function in commands.items():
        app.command(name=command)(function)
    return app.cli(prog=f"longwave {name}", description=description, args=arguments)
