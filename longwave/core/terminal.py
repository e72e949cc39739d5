"""The command line of this process, and messages to the user."""

import contextlib
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

_IS_COMMAND = ContextVar("is_command", default=False)  # whether the user has options, and no arguments


def command_line() -> str:
    """The command that started this process: `longwave ...`, or `python ...` for a script that imports longwave."""
    program, *arguments = sys.argv
    is_longwave = Path(program).name == "longwave" or Path(program) == Path(__file__).parents[1] / "__main__.py"
    return shlex.join(["longwave", *arguments] if is_longwave else ["python", *filter(None, sys.argv)])


def with_command(text: str, command: str) -> str:
    """A message that ends with a command to copy, on its own indented line."""
    return f"{text}:\n  {command}"


def wrapped(text: str, width: int) -> str:
    """The text with its lines broken between words; indented lines, such as commands, and long words stay whole."""
    return "\n".join(
        line if line.startswith(" ") else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )


@contextlib.contextmanager
def in_a_command() -> Iterator[None]:
    """Have messages name options (--fill linear) where they name arguments (fill='linear')."""
    token = _IS_COMMAND.set(True)
    try:
        yield
    finally:
        _IS_COMMAND.reset(token)


def as_options(text: str) -> str:
    """A message that names arguments (fill='linear') as the command line has them (--fill linear)."""

    def option(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')} {found[2].replace(chr(39), '')}"

    return re.sub(r"\b([a-z_]+)=('\w+'(?:(?:, '\w+')* or '\w+')?)", option, text)


def shown(text: str) -> str:
    """A message as this process shows it: in a command with options."""
    return as_options(text) if _IS_COMMAND.get() else text


def say(text: str, file: TextIO | None = None) -> None:
    """Print a message, by default on stderr: wrapped at the width of a terminal, unchanged elsewhere."""
    text, file = shown(text), sys.stderr if file is None else file
    if file.isatty():
        from rich.console import Console

        text = wrapped(text, Console(file=file).width)
    print(text, file=file, flush=True)


def print_notes(notes: Iterable[str]) -> None:
    """Print lines on stdout, below a table for example."""
    for note in notes:
        say(note, sys.stdout)
