"""`longwave show`: show every setting of an experiment."""


def main(arguments: list[str]) -> None:
    """Run `longwave show`."""
    from longwave.cli._experiment import parse_experiment

    description = "Print every setting of an experiment, after the overrides that follow its name."
    experiment, _ = parse_experiment("show", description, arguments)
    from longwave.core.settings import dumps

    print(dumps(experiment))
