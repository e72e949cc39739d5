"""Messages of the command line speak of options, not of arguments."""

import contextlib

import pytest

from longwave.core.terminal import as_options, in_a_command, say


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interpolate with fill='linear', or keep", "interpolate with --fill linear, or keep"),
        ("use no time column (time='none')", "use no time column (--time none)"),
        ("expected duplicates='first', 'last' or 'mean'", "expected --duplicates first, last or mean"),
        ("put time='none', 'a' may stay", "put --time none, 'a' may stay"),
        ("column 'fill' is 'linear'", "column 'fill' is 'linear'"),
    ],
)
def test_an_argument_in_a_message_is_shown_as_an_option(text, expected):
    assert as_options(text) == expected


def test_notes_of_a_command_name_options_and_those_in_python_arguments(capsys):
    for expected in ("note: use time='none'", "note: use --time none"):
        with in_a_command() if "--" in expected else contextlib.nullcontext():
            say("note: use time='none'")
        assert capsys.readouterr().err == f"{expected}\n"
