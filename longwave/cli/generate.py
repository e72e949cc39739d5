"""`longwave generate`: write text or draw images with a trained run."""


def main(arguments: list[str]) -> None:
    """Run `longwave generate`."""
    from longwave.cli._action import run_action

    run_action("generate", arguments)
