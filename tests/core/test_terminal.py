"""Messages wrap between words on a terminal alone, commands stay whole, and a run records what started it."""

import io
import itertools
import sys
import warnings
from pathlib import Path

import pytest
from command import call

import longwave
from longwave.cli import doctor
from longwave.core.terminal import command_line, say, with_command, wrapped
from longwave.train.display import Display

TEXT = "some words of a note about the data, which go on and on until any terminal is too narrow for them, " * 2
COMMAND = "longwave train --resume " + "/a/folder/far/down" * 9
WIDTHS = pytest.mark.parametrize("width", [80, 120])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A function that makes stderr a terminal of a width."""

    def of_width(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", Terminal())
        return sys.stderr

    return of_width


def check(shown, width, text=TEXT):
    """The text, wrapped between words at that width, and the command on a line of its own."""
    *lines, command = shown.rstrip("\n").split("\n")
    assert command == f"  {COMMAND}"
    assert len(lines) > 1
    assert all(len(line) <= width for line in lines)
    assert all(len(f"{a} {b.split()[0]}") > width for a, b in itertools.pairwise(lines))
    assert " ".join(lines).split() == f"{text.rstrip()}:".split()


@WIDTHS
def test_a_message_wraps_between_words_and_its_command_stays_on_one_line(width, terminal):
    stderr = terminal(width)
    say(with_command(TEXT.rstrip(), COMMAND))
    check(stderr.getvalue(), width)


def test_off_a_terminal_nothing_is_wrapped(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    say(with_command(TEXT, COMMAND))
    say(TEXT, sys.stdout)
    shown = capsys.readouterr()
    assert shown.err == f"{TEXT}:\n  {COMMAND}\n"
    assert shown.out == f"{TEXT}\n"


def test_a_word_longer_than_the_terminal_stays_whole():
    path = "/a-folder/with-hyphens" * 6
    assert wrapped(f"see {path} for more", 80) == f"see\n{path}\nfor more"


@WIDTHS
def test_a_note_beside_the_live_line_of_a_run_wraps_between_words(width, terminal):
    stderr = terminal(width)
    display = Display(quiet=False, batches=1, epochs=1, goal="mse")
    assert display.live is not None
    display.say(with_command(TEXT.rstrip(), COMMAND))
    check(stderr.getvalue(), width)


@WIDTHS
def test_an_error_of_a_command_wraps_between_words(width, terminal, monkeypatch):
    stderr = terminal(width)

    def fail(arguments):
        raise ValueError(with_command(TEXT.rstrip(), COMMAND))

    monkeypatch.setattr(doctor, "main", fail, raising=False)
    assert call("doctor") == 2
    check(stderr.getvalue(), width, f"longwave: error: {TEXT}")


@WIDTHS
def test_a_warning_within_a_command_wraps_between_words(width, terminal, monkeypatch):
    stderr = terminal(width)

    def warn(arguments):
        warnings.simplefilter("always")
        warnings.warn(with_command(TEXT.rstrip(), COMMAND), RuntimeWarning, stacklevel=1)

    monkeypatch.setattr(doctor, "main", warn, raising=False)
    assert call("doctor") == 0
    check(stderr.getvalue(), width, f"longwave: warning: {TEXT}")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (
            ["/usr/bin/longwave", "train", "forecast", "--csv", "my file.csv"],
            "longwave train forecast --csv 'my file.csv'",
        ),
        ([str(Path(longwave.__file__).with_name("__main__.py")), "train", "smnist"], "longwave train smnist"),
        (["examples/demo.py"], "python examples/demo.py"),
        (["my.py", "--fast"], "python my.py --fast"),
        ([""], "python"),
    ],
)
def test_the_command_of_a_process_is_longwave_or_the_script_that_imports_it(arguments, command, monkeypatch):
    monkeypatch.setattr(sys, "argv", arguments)
    assert command_line() == command
