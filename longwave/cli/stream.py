"""`longwave stream`: classify or forecast with a trained run as data comes in."""

import contextlib


def main(arguments: list[str]) -> None:
    """Run `longwave stream`; Ctrl-C is the usual end of it."""
    from longwave.cli._action import run_action

    with contextlib.suppress(KeyboardInterrupt):
        run_action("stream", arguments)
