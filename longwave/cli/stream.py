"""`longwave stream`: classify or forecast with a trained run as data comes in."""

import contextlib
import sys


def main(arguments: list[str]) -> None:
    """Run `longwave stream`, which Ctrl-C usually ends."""
    from longwave.cli._action import run_action

    with contextlib.suppress(KeyboardInterrupt):
        if "--follow" in arguments[1:]:
            print(f"loading {arguments[0]}", file=sys.stderr, flush=True)  # which takes seconds
        run_action("stream", arguments)
