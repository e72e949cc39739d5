"""`longwave bench`: measure speed, memory and accuracy on this machine."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from longwave.core.terminal import say

if TYPE_CHECKING:
    from longwave.bench.base import Bench
    from longwave.bench.tables import Table


def main(arguments: list[str]) -> None:
    """Run `longwave bench ...`: the benches are those that are registered."""
    from longwave.cli import _early
    from longwave.cli._group import run_group

    description = "Measure speed, memory and accuracy on this machine."
    if _early.is_complete("longwave.bench"):
        described = _described()
        if not arguments or arguments[0] not in described:  # help, or a mistake: neither needs torch
            run_group("bench", description, described, arguments)
    from longwave.bench.base import BENCHES

    bench: Bench = run_group("bench", description, dict(BENCHES), arguments)
    bench.check()
    if bench.duration and not bench.quick:
        say(f"this takes about {bench.duration}; --quick takes less than one minute")
    with _progress() as progress:
        result = bench.run(progress)
    if bench.json:
        import json

        print(json.dumps(result, indent=2))
    else:
        from longwave.cli._table import print_notes

        for table in bench.tables(result):
            _print(table)
        print_notes(bench.notes(result))
    message = bench.draw(result)  # last: if it fails, the figures have been printed
    if message:
        say(message)


def _described() -> dict[str, Callable[[], None]]:
    """Functions that do nothing, with the names and docstrings of the benches: these are read and not imported."""
    found: dict[str, Callable[[], None]] = {}
    for path in sorted((Path(__file__).parent.parent / "bench").glob("[!_]*.py")):
        classes = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        for node in classes:
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "BENCHES.register":
                    found[ast.literal_eval(mark.args[0])] = _nothing(ast.get_docstring(node))
    return found


def _nothing(docstring: str | None) -> Callable[[], None]:
    def nothing() -> None:
        pass

    nothing.__doc__ = docstring
    return nothing


def _print(table: Table) -> None:
    """Print a table and its notes."""
    from rich import table as rich
    from rich.markup import escape

    from longwave.cli._table import print_notes, print_table

    shown = rich.Table(title=escape(table.title))
    for column in table.columns:
        shown.add_column(escape(column), justify="left" if column in table.text else "right")
    key = None if table.sections is None else list(table.columns).index(table.sections)
    for row, following in zip(table.rows, [*table.rows[1:], None], strict=True):
        is_last = key is not None and following is not None and row[key] != following[key]
        shown.add_row(*map(escape, row), end_section=is_last)
    print_table(shown)
    print_notes([*table.notes, ""])


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """What is being measured, on stderr: one line that changes on a terminal, a line each elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: say(f"measuring {text}")
        return
    with console.status("measuring") as status:
        yield lambda text: status.update(f"measuring {text}")
