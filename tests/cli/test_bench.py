"""`longwave bench`: any bench that is registered, its options, its tables and its picture."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import call

from longwave.bench.base import BENCHES, DrawnBench, scaling
from longwave.core.text_table import TextTable

COLUMNS = ("model", "a long name of a column", "another long name of a column")
CELLS = (("linear Transformer", "12,345.6 ms", "1"), ("S4", "7 ms", 'pip install "longwave[bench]"'))
MACHINE = {"cpu": "a CPU", "threads": 2, "backend": "reference", "torch": "2", "longwave": "0"}


@pytest.fixture
def toy():
    """A bench that is registered during one test."""

    @BENCHES.register("toy")
    @dataclass(frozen=True)
    class ToyBench(DrawnBench):
        """Measure nothing.

        Example: longwave bench toy --size 3
        """

        size: int = 2
        """How large."""

        duration = "a year"
        caption = "How it was measured."

        def check(self):
            super().check()
            if self.size < 1:
                raise ValueError(f"size: expected at least 1, got {self.size}")

        def measure(self, progress):
            progress(f"size {self.size}")
            return {"size": self.size, "machine": MACHINE}

        def tables(self, result):
            return [
                TextTable(f"Size {result['size']}", COLUMNS, CELLS, ["a note [1]"], text=("model",), sections="model")
            ]

        def panels(self, result):
            return [scaling("title", "x", "y", {"S4": [(1, 2.0), (2, 3.0)]})]

    yield ToyBench
    BENCHES.unregister("toy")


@pytest.mark.usefixtures("toy")
def test_a_registered_bench_is_a_command_with_its_options(capsys):
    assert call("bench", "--help") == 0
    shown = capsys.readouterr().out
    assert "Measure nothing." in shown
    assert all(name in shown for name in BENCHES)
    assert call("bench", "toy", "--help") == 0
    shown = capsys.readouterr().out
    assert "Example: longwave bench toy --size 3" in shown
    assert all(option in shown for option in ("--size INT", "How large.", "--quick", "--json", "--picture"))


@pytest.mark.usefixtures("toy")
def test_tables_go_to_stdout_and_progress_to_stderr(capsys):
    assert call("bench", "toy", "--size", "5") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Size 5\n")
    assert shown.out.endswith(
        "a note [1]\n\nHow it was measured.\na CPU, 2 threads, backend reference, torch 2, longwave 0\n"
    )
    assert shown.err == "this takes about a year; --quick takes less than one minute\nmeasuring size 5\n"
    assert call("bench", "toy", "--quick") == 0
    assert capsys.readouterr().err == "measuring size 2\n"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("is_terminal", [False, True])
def test_every_cell_is_shown_whole_however_narrow_the_terminal(is_terminal, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
    assert call("bench", "toy") == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert all(text in shown for row in (COLUMNS, *CELLS) for text in row)


@pytest.mark.usefixtures("toy")
def test_json_is_the_figures_and_nothing_else(capsys):
    assert call("bench", "toy", "--json", "--quick") == 0
    assert json.loads(capsys.readouterr().out)["size"] == 2


@pytest.mark.usefixtures("toy")
def test_a_picture_is_drawn_into_a_new_folder(capsys):
    assert call("bench", "toy", "--picture", "new/picture.png") == 0
    assert Path("new/picture.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().err.splitlines()[-1] == "new/picture.png"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["toy", "--size", "0"], "size: expected at least 1, got 0"),
        (["toy", "--picture", "picture.doc"], "picture: expected a picture ending in one of"),
        (["accuracy", "--picture", "picture.png"], "--picture"),
        (["kernle"], "kernel"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("toy")
def test_a_mistake_is_refused_before_anything_is_measured(arguments, message, capsys):
    assert call("bench", *arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "measuring" not in shown.err
    assert shown.out == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kernel", "layer", "train", "accuracy"])
def test_quick_benches_give_json(name, capsys):
    assert call("bench", name, "--quick", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"]
