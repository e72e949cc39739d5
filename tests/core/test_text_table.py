"""Tables show every cell whole, on a terminal of any width and off one."""

import re
import sys

import pytest

from longwave.core.terminal import print_notes
from longwave.core.text_table import TextTable

CELLS = [["linear Transformer with a long name", "12,345.6 ms", ""], ["S4", "7 ms", "a [note]\nof two lines"]]


TITLE = "A title that is longer than any terminal here"
TABLE = TextTable(TITLE, ("model", "time of a pass", "note"), CELLS, ["below"], text=("model", "note"))


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
def terminal(monkeypatch):
    """A function that sets the width of a terminal; without a call of it, stdout is a pipe of 40 columns."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def of_width(columns):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))

    return of_width


@pytest.mark.parametrize("columns", [None, 20, 40, 200])
def test_every_cell_is_shown_whole(columns, terminal, capsys):
    if columns:
        terminal(columns)
    TABLE.print()
    shown = plain(capsys.readouterr().out)
    for text in [TITLE, "below", "model", "time of a pass", *CELLS[0], *CELLS[1]]:
        assert all(line in shown for line in text.split("\n"))
    assert "…" not in shown


@pytest.mark.usefixtures("terminal")
def test_off_a_terminal_a_row_is_a_line(capsys):
    TABLE.print()
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "12,345.6 ms" in line)
    assert line.count("│") == 4


def test_on_a_narrow_terminal_a_row_is_a_block_without_empty_cells(terminal, capsys):
    terminal(40)
    TABLE.print()
    lines = plain(capsys.readouterr().out).splitlines()
    start = lines.index("model  linear Transformer with a long name")
    assert lines[start + 1 : start + 4] == ["time of a pass  12,345.6 ms", "", "model  S4"]


@pytest.mark.parametrize("columns", [40, 200])
def test_coloured_cells_stand_out_on_a_terminal(columns, terminal, capsys):
    terminal(columns)
    TextTable("", ("name", "state"), [["a", "good"]], colours={"good": "green"}).print()
    assert re.search(r"\x1b\[32m *good", capsys.readouterr().out)


def test_bold_rows_stand_out_on_a_terminal(terminal, capsys):
    terminal(200)
    TextTable("", ("name",), [["first"], ["second"]], bold=(1,)).print()
    shown = capsys.readouterr().out
    assert re.search(r"\x1b\[1m *second", shown)
    assert not re.search(r"\x1b\[1m *first", shown)


def test_a_line_is_drawn_where_the_value_of_the_column_of_sections_changes(capsys):
    TextTable("", ("model", "time"), [["a", "1"], ["a", "2"], ["b", "3"]], text=("model",), sections="model").print()
    lines = [line[0] for line in capsys.readouterr().out.strip().splitlines()]
    assert lines == ["┏", "┃", "┡", "│", "│", "├", "│", "└"]


def test_notes_are_wrapped_between_words_on_a_terminal_only(terminal, monkeypatch, capsys):
    note = "some words, with [brackets], " * 4
    print_notes([note])
    assert capsys.readouterr().out == note + "\n"
    terminal(40)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_notes([note])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(line.rstrip() for line in lines) == note.rstrip()
