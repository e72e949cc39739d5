"""`longwave list`: the named experiments."""

from __future__ import annotations


def main(arguments: list[str]) -> None:
    """Run `longwave list`."""
    import tyro

    tyro.cli(list_experiments, prog="longwave list", args=arguments)


def list_experiments(all: bool = False) -> None:
    """Show the named experiments, a line for each data set.

    Example: longwave list --all

    Args:
        all: One line for each experiment.
    """
    from rich.console import Console
    from rich.table import Table

    from longwave.train.experiments import EXPERIMENTS

    if all:
        for name in EXPERIMENTS:
            print(name)
        return
    table = Table(
        "experiments", "task", title="Forecasting (the paper's tab:informer-s and tab:informer-m)", title_justify="left"
    )
    groups: dict[tuple[str, bool], list[int]] = {}
    for e in EXPERIMENTS.values():
        if e.name != "forecast" and not e.name.endswith("-small"):
            groups.setdefault((e.task.data, e.task.multivariate), []).append(e.task.horizon)
    for (data, multivariate), horizons in groups.items():
        names = f"{data}-{{{','.join(map(str, horizons))}}}" + ("-m" if multivariate else "")
        table.add_row(
            names, f"{'all columns' if multivariate else 'the target column'}, horizon {horizons[0]} to {horizons[-1]}"
        )
    table.add_row("forecast --csv FILE --target COLUMN", "a series of your own")
    console = Console()
    console.print(table)
    console.print("Each has a smaller setting for a CPU with few cores: add -small.", highlight=False)
    console.print("longwave show NAME prints every setting; longwave train NAME runs it.", highlight=False)
