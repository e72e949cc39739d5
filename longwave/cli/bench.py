"""`longwave bench`: measure speed, memory and accuracy on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from longwave.core.terminal import say

if TYPE_CHECKING:
    from longwave.bench.base import Bench
    from longwave.bench.tables import Table


DESCRIPTION = "Measure speed, memory and accuracy on this machine."
SUMMARIES = {  # what help and a wrong name show, without torch
    "accuracy": "the error of the kernel against its definition",
    "attention": "time and memory of training, beside Transformers",
    "complexity": "exponents of time and memory in length, batch and width",
    "generation": "tokens per second, beside attention and GPT-2",
    "kernel": "the kernel by each backend, forward and backward",
    "layer": "S4 and S4D beside a plain FFT convolution",
    "lssl": "time and memory of training, beside the LSSL",
    "step": "a training step of named experiments, at their own size",
    "stream": "sound in real time, on one core",
    "train": "a training step of a small deep model, by its parts",
}


def main(arguments: list[str]) -> None:
    """Run `longwave bench ...`: the benches are those that are registered."""
    from longwave.cli import _early
    from longwave.cli._group import run_group

    if (not arguments or arguments[0] not in SUMMARIES) and _early.is_untouched("longwave.bench.base"):
        _show_or_refuse(arguments)
    from longwave.bench.base import BENCHES

    bench: Bench = run_group("bench", DESCRIPTION, dict(BENCHES), arguments)
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


def _show_or_refuse(arguments: list[str]) -> None:
    """Show which benches there are, or refuse the name of none."""
    if arguments and arguments[0] not in ("-h", "--help"):
        from longwave.core.registry import nearest

        raise ValueError(f"bench: there is no {arguments[0]!r}; {nearest(arguments[0], SUMMARIES)}")
    rows = "\n".join(f"  {name:12}{text}" for name, text in SUMMARIES.items())
    usage = f"usage: longwave bench NAME [options]\n\n{DESCRIPTION}\n\n{rows}\n"
    print(
        f"{usage}\nlongwave bench NAME --help shows the options of one.", file=sys.stdout if arguments else sys.stderr
    )
    sys.exit(0 if arguments else 2)


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
