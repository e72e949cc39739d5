"""`longwave bench`: measure speed, memory and accuracy on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longwave.bench.base import Bench
    from longwave.bench.tables import Table


def main(arguments: list[str]) -> None:
    """Run `longwave bench ...`: the benches are those that are registered."""
    from longwave.bench.base import BENCHES
    from longwave.cli._group import run_group

    description = "Measure speed, memory and accuracy on this machine."
    bench: Bench = run_group("bench", description, dict(BENCHES), arguments)
    bench.check()
    if bench.duration and not bench.quick:
        print(f"this takes about {bench.duration}; --quick takes less than one minute", file=sys.stderr, flush=True)
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
        print(message, file=sys.stderr)


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
        yield lambda text: print(f"measuring {text}", file=sys.stderr, flush=True)
        return
    with console.status("measuring") as status:
        yield lambda text: status.update(f"measuring {text}")
