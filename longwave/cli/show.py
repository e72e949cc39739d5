"""`longwave show NAME`: what would run."""


def main(arguments: list[str]) -> None:
    """Run `longwave show`."""
    import json

    from longwave.cli.experiment import parse_experiment

    description = "Print every setting of an experiment, after the overrides that follow its name."
    experiment, _ = parse_experiment("show", description, arguments)
    from longwave.train.config import to_dict

    print(json.dumps(to_dict(experiment), indent=2))
