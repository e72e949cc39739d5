"""`longwave predict`: forecast or classify new data with a trained run."""


def main(arguments: list[str]) -> None:
    """Run `longwave predict`."""
    from longwave.cli._action import run_action

    run_action("predict", arguments)
