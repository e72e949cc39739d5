"""Tables on the terminal: no column is ever cut off."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from longwave.core.terminal import say, wrapped

if TYPE_CHECKING:
    from rich.table import Table


def print_table(table: "Table") -> None:
    """Print a table as wide as it needs to be; where the terminal is narrower, as a block of lines for each row."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    title, caption = table.title, table.caption
    table.title = table.caption = None  # within the table they would be wrapped at its width
    needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    if title:
        console.print(title, style="italic", soft_wrap=True)
    if needed <= console.width or not console.is_terminal:
        Console(width=max(needed, console.width)).print(table)
    else:
        heads = [str(column.header) for column in table.columns]
        for cells in zip(*(column.cells for column in table.columns), strict=True):
            for head, cell in zip(heads, cells, strict=True):
                if cell:
                    console.print(f"[bold]{head}[/]  {cell}", highlight=False, soft_wrap=True)
            console.print()
    if caption:
        text = wrapped(str(caption), console.width) if console.is_terminal else caption
        console.print(text, style="dim", highlight=False, soft_wrap=True)
    table.title, table.caption = title, caption


def print_notes(notes: Sequence[str]) -> None:
    """Print plain text below a table: wrapped between words on a terminal, and a line for each note elsewhere."""
    for note in notes:
        say(note, sys.stdout)


def print_scores(name: str, result: dict[str, Any]) -> None:
    """Scores on the test set: the run, the baselines, the paper."""
    from rich.markup import escape
    from rich.table import Table

    from longwave.pictures.html import duration, score_text

    scores = list(result["test"])
    table = Table(title=escape(f"{name}, test set"), title_justify="left")
    table.add_column("model")
    for score in scores:  # which may have the name of a column of the user's, brackets and all
        table.add_column(escape(score.upper().replace("_", " ")), justify="right")

    def add(model: str, values: dict[str, float], style: str | None = None) -> None:
        cells = (score_text(values[score]) if score in values else "-" for score in scores)
        table.add_row(escape(model), *cells, style=style)

    add(f"{result.get('model', 'S4')} (this run)", result["test"], "bold")
    for part, splits in result.get("parts", {}).items():
        add(f"{part} (of this run)", splits["test"])
    for baseline, splits in result.get("baselines", {}).items():
        add(baseline, splits["test"])
    if result.get("paper"):
        add("S4 (the paper)", result["paper"])
    print_table(table)
    trained = f"{result['steps']} steps in {duration(result['seconds'])}, weights of step {result['best_step']}"
    notes = (f"note: {note}" for note in result.get("notes", ()))
    print_notes([f"{result['parameters']:,} parameters, {trained}", *notes])
