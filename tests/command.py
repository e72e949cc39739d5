"""The command line, called as a function."""

import pytest

from longwave.cli.main import main


def call(*arguments):
    """The exit code of a command in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code or 0
