"""Tables on the terminal, in which no cell is cut off."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from longwave.core.terminal import print_notes

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class TextTable:
    """Rows of cells under the names of their columns."""

    title: str
    columns: Sequence[str]  # each name once
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()  # lines below the table
    text: Collection[str] = ()  # the columns that hold words; the others hold numbers and are aligned to the right
    sections: str | None = None  # a column: where its value changes, a line is drawn
    bold: Collection[int] = ()  # numbers of rows
    colours: Mapping[str, str] = field(default_factory=dict)  # of cells, by their text

    def print(self) -> None:
        """Print it at its full width; on a narrower terminal, as one block of lines per row."""
        from rich.console import Console
        from rich.measure import Measurement

        console, table = Console(), self._rich()
        needed = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
        console.print(self.title, style="italic", markup=False, soft_wrap=True)
        if needed <= console.width or not console.is_terminal:
            Console(width=max(needed, console.width)).print(table)
        else:
            self._print_blocks()
        print_notes(self.notes)

    def _rich(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for name in self.columns:
            table.add_column(Text(name), justify="left" if name in self.text else "right")
        key = None if self.sections is None else list(self.columns).index(self.sections)
        for k, row in enumerate(self.rows):
            is_last = key is not None and k + 1 < len(self.rows) and row[key] != self.rows[k + 1][key]
            cells = [Text(cell, style=self.colours.get(cell, "")) for cell in row]
            table.add_row(*cells, style="bold" if k in self.bold else None, end_section=is_last)
        return table

    def _print_blocks(self) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for row in self.rows:
            for name, cell in zip(self.columns, row, strict=True):
                if cell:
                    line = Text.assemble((name, "bold"), "  ", (cell, self.colours.get(cell, "")))
                    console.print(line, soft_wrap=True)
            console.print()
