"""Messages of the command line speak of options, not of arguments."""

import pytest

from longwave.cli.main import as_options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interpolate with fill='linear', or keep", "interpolate with --fill linear, or keep"),
        ("use no time column (time='none')", "use no time column (--time none)"),
        ("column 'fill' is 'linear'", "column 'fill' is 'linear'"),
    ],
)
def test_an_argument_in_a_message_is_shown_as_an_option(text, expected):
    assert as_options(text) == expected
