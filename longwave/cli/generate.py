"""`longwave generate`: write text, draw images or make sound with a trained run."""


def main(arguments: list[str]) -> None:
    """Run `longwave generate`."""
    from longwave.cli._action import run_action

    run_action("generate", arguments)
